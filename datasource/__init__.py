"""Where records live: formats, schema, decoding, views, writing. Imports nothing of loaders/ or samplers/."""

from . import features
from .arrayrecord import ArrayRecordDataSource
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
from .verification import verify
from .writing import DatasetWriter, write_dataset

__all__ = [
    "ArrayRecordDataSource",
    "BaseSource",
    "CorruptShardError",
    "DataError",
    "DatasetExistsError",
    "DatasetIncompleteError",
    "DatasetNotFoundError",
    "DatasetWriter",
    "DecodeError",
    "ExampleDataSource",
    "SchemaError",
    "ShardNotFoundError",
    "Source",
    "features",
    "open",
    "verify",
    "write_dataset",
]
