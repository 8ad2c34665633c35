"""TFRecord files: random access by an index made once, decoding by a specification of fields."""

from .decompress import decompress_tfrecord
from .field import REQUIRED, Field
from .source import TFRecordSource

__all__ = ["REQUIRED", "Field", "TFRecordSource", "decompress_tfrecord"]
