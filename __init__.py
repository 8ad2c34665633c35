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
)
from .loaders import DataLoader, LoaderStats, WorkerError
from .samplers import IndexSampler, Sampler, SequentialSampler, ShardOptions, StateError

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
    "WorkerError",
    "features",
    "open",
]
