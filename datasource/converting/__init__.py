"""Data of other formats made data sets, and data sets made files of other formats."""

from .arrayrecord import convert_arrayrecord
from .conversion import Converted, Skipped
from .tfds import convert_tfds
from .tfrecord import convert_tfrecord

__all__ = ["Converted", "Skipped", "convert_arrayrecord", "convert_tfds", "convert_tfrecord"]
