"""Writing data sets: examples in, a directory out that TFDS, Grain and arrayfeed open."""

from .publish import Leftover, find_leftovers, remove_leftovers
from .writer import DatasetWriter

__all__ = ["DatasetWriter", "Leftover", "find_leftovers", "remove_leftovers"]
