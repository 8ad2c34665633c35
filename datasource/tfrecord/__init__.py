"""TFRecord files: random access by an index made once, decoding by a specification of fields."""

from .decompress import decompress_tfrecord
from .field import Field
from .source import TFRecordSource

__all__ = ["Field", "TFRecordSource", "decompress_tfrecord"]
