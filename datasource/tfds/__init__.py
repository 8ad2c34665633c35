"""The directory that TensorFlow Datasets keeps a dataset in: names, versions, splits, descriptions. No TensorFlow."""

from .info import DatasetInfo, SplitInfo, shard_files, shard_paths
from .splits import ReadInstruction, Split, SplitRange, even_splits, resolve_split
from .versions import find_dataset

__all__ = [
    "DatasetInfo",
    "ReadInstruction",
    "Split",
    "SplitInfo",
    "SplitRange",
    "even_splits",
    "find_dataset",
    "resolve_split",
    "shard_files",
    "shard_paths",
]
