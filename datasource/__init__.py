"""Where records live: formats, schema, decoding, views, writing. Imports nothing of loaders/ or samplers/."""

from . import features
from .arrayrecord import ArrayRecordDataSource
from .arrays import ArraySource
from .converting import convert, export_folder, export_tfrecord
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
from .verification import verify
from .views import SequenceSource, concatenate, zip_sources
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
