"""tf.train.Example: records to values and back, without TensorFlow."""
