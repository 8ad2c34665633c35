"""The directory that TensorFlow Datasets keeps a dataset in: names, versions, splits, descriptions. No TensorFlow."""

from .info import DatasetInfo, SplitInfo, shard_paths

__all__ = ["DatasetInfo", "SplitInfo", "shard_paths"]
