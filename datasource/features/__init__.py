"""What examples are made of: names and meaning as TensorFlow Datasets has them."""

from .base import Feature
from .class_label import ClassLabel
from .features_dict import FeaturesDict
from .image import Image
from .leaf import Leaf
from .scalar import Scalar
from .tensor import Tensor
from .text import Text

__all__ = ["ClassLabel", "Feature", "FeaturesDict", "Image", "Leaf", "Scalar", "Tensor", "Text"]
