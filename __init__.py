"""Feeds machine-learning training from ArrayRecord shards."""

from .datasource import (
    ArrayRecordDataSource,
    CorruptShardError,
    DataError,
    DatasetExistsError,
    DatasetIncompleteError,
    DatasetNotFoundError,
    DatasetWriter,
    DecodeError,
    ExampleDataSource,
    SchemaError,
    ShardNotFoundError,
    Source,
    features,
    open,
    verify,
    write_dataset,
)
from .loaders import DataLoader, LoaderStats
from .samplers import IndexSampler, Sampler, SequentialSampler, ShardOptions, StateError, split_indices

__all__ = [
    "ArrayRecordDataSource",
    "CorruptShardError",
    "DataError",
    "DataLoader",
    "DatasetExistsError",
    "DatasetIncompleteError",
    "DatasetNotFoundError",
    "DatasetWriter",
    "DecodeError",
    "ExampleDataSource",
    "IndexSampler",
    "LoaderStats",
    "Sampler",
    "SchemaError",
    "SequentialSampler",
    "ShardNotFoundError",
    "ShardOptions",
    "Source",
    "StateError",
    "features",
    "open",
    "split_indices",
    "verify",
    "write_dataset",
]
