"""Feeds machine-learning training from ArrayRecord shards."""

import typing

from . import datasource
from .datasource import (
    ArrayRecordDataSource,
    ArraySource,
    CorruptShardError,
    DataError,
    DatasetExistsError,
    DatasetIncompleteError,
    DatasetInfo,
    DatasetNotFoundError,
    DecodeError,
    ExampleDataSource,
    Field,
    ReadInstruction,
    SchemaError,
    SequenceSource,
    ShardNotFoundError,
    Source,
    TFRecordSource,
    concatenate,
    decompress_tfrecord,
    even_splits,
    features,
    open,
    zip_sources,
)
from .loaders import (
    SKIP,
    BatchMap,
    DataLoader,
    Filter,
    FlatMap,
    LoaderStats,
    Ragged,
    RandomMap,
    Skipped,
    TooManyErrors,
    WorkerError,
    collate,
    merge_states,
    pack,
    pad,
)
from .samplers import IndexSampler, Sampler, SequentialSampler, ShardOptions, StateError, split_indices

if typing.TYPE_CHECKING:
    from .datasource import DatasetWriter, convert, export_folder, export_tfrecord, verify, write_dataset

__all__ = [
    "SKIP",
    "ArrayRecordDataSource",
    "ArraySource",
    "BatchMap",
    "CorruptShardError",
    "DataError",
    "DataLoader",
    "DatasetExistsError",
    "DatasetIncompleteError",
    "DatasetInfo",
    "DatasetNotFoundError",
    "DatasetWriter",
    "DecodeError",
    "ExampleDataSource",
    "Field",
    "Filter",
    "FlatMap",
    "IndexSampler",
    "LoaderStats",
    "Ragged",
    "RandomMap",
    "ReadInstruction",
    "Sampler",
    "SchemaError",
    "SequenceSource",
    "SequentialSampler",
    "ShardNotFoundError",
    "ShardOptions",
    "Skipped",
    "Source",
    "StateError",
    "TFRecordSource",
    "TooManyErrors",
    "WorkerError",
    "collate",
    "concatenate",
    "convert",
    "decompress_tfrecord",
    "even_splits",
    "export_folder",
    "export_tfrecord",
    "features",
    "merge_states",
    "open",
    "pack",
    "pad",
    "split_indices",
    "verify",
    "write_dataset",
    "zip_sources",
]


def __getattr__(name: str) -> object:
    """Return what ``datasource`` imports when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(datasource, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
