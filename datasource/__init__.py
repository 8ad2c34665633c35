"""Where records live: formats, schema, decoding, views, writing. Imports nothing of loaders/ or samplers/."""

import typing

from . import features
from .arrayrecord import ArrayRecordDataSource
from .arrays import ArraySource
from .dataset import open
from .errors import (
    CorruptShardError,
    DataError,
    DatasetExistsError,
    DatasetIncompleteError,
    DatasetNotFoundError,
    DecodeError,
    SchemaError,
    ShardNotFoundError,
)
from .examples import ExampleDataSource
from .source import BaseSource, Source
from .tfds import DatasetInfo, ReadInstruction, even_splits
from .tfrecord import Field, TFRecordSource, decompress_tfrecord
from .views import SequenceSource, concatenate, zip_sources

if typing.TYPE_CHECKING:
    from .converting import convert, export_folder, export_tfrecord
    from .verification import verify
    from .writing import DatasetWriter, write_dataset

__all__ = [
    "ArrayRecordDataSource",
    "ArraySource",
    "BaseSource",
    "CorruptShardError",
    "DataError",
    "DatasetExistsError",
    "DatasetIncompleteError",
    "DatasetInfo",
    "DatasetNotFoundError",
    "DatasetWriter",
    "DecodeError",
    "ExampleDataSource",
    "Field",
    "ReadInstruction",
    "SchemaError",
    "SequenceSource",
    "ShardNotFoundError",
    "Source",
    "TFRecordSource",
    "concatenate",
    "convert",
    "decompress_tfrecord",
    "even_splits",
    "export_folder",
    "export_tfrecord",
    "features",
    "open",
    "verify",
    "write_dataset",
    "zip_sources",
]

#: What makes data sets, and checks them, is imported when it is first asked for: a program that trains is there 90 ms sooner.
_LATER = {
    "DatasetWriter": "writing",
    "convert": "converting",
    "export_folder": "converting",
    "export_tfrecord": "converting",
    "verify": "verification",
    "write_dataset": "writing",
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f".{_LATER[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
