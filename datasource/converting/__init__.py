"""Data of other formats made data sets, and data sets made files of other formats."""

from .arrayrecord import convert_arrayrecord
from .arrays import convert_arrays
from .conversion import Converted, Skipped
from .images import convert_images
from .tfds import convert_tfds
from .tfrecord import convert_tfrecord

__all__ = [
    "Converted",
    "Skipped",
    "convert_arrayrecord",
    "convert_arrays",
    "convert_images",
    "convert_tfds",
    "convert_tfrecord",
]
