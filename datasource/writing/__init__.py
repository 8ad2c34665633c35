"""Writing data sets: examples in, a directory out that TFDS, Grain and arrayfeed open."""

from .inference import infer_features
from .parallel import write_dataset
from .parts import PartWriter
from .publish import Leftover, find_leftovers, remove_leftovers
from .writer import DatasetWriter

__all__ = ["DatasetWriter", "Leftover", "PartWriter", "find_leftovers", "infer_features", "remove_leftovers", "write_dataset"]
