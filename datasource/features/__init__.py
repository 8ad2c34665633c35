"""What examples are made of: names and meaning as TensorFlow Datasets has them."""
