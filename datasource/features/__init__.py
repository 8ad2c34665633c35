"""What examples are made of: names and meaning as TensorFlow Datasets has them."""

from .audio import Audio
from .base import Feature
from .bbox import BBox, BBoxFeature
from .class_label import ClassLabel
from .dataset import Dataset, NestedExamples
from .decoders import Decoder, Decoders, SkipDecoding, with_decoders
from .features_dict import FeaturesDict
from .image import Image
from .labeled_image import LabeledImage
from .leaf import Leaf
from .options import with_options
from .scalar import Scalar
from .sequence import Sequence
from .tensor import Tensor
from .text import Text
from .translation import Translation, TranslationVariableLanguages
from .video import Video

__all__ = [
    "Audio",
    "BBox",
    "BBoxFeature",
    "ClassLabel",
    "Dataset",
    "Decoder",
    "Decoders",
    "Feature",
    "FeaturesDict",
    "Image",
    "LabeledImage",
    "Leaf",
    "NestedExamples",
    "Scalar",
    "Sequence",
    "SkipDecoding",
    "Tensor",
    "Text",
    "Translation",
    "TranslationVariableLanguages",
    "Video",
    "with_decoders",
    "with_options",
]
