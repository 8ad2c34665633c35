"""The ArrayRecord file format: bytes of a file in, records out."""

from .source import ArrayRecordDataSource

__all__ = ["ArrayRecordDataSource"]
