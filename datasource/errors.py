"""The errors of stored data. What the caller passed wrongly raises ``IndexError``, ``TypeError`` or ``ValueError`` instead.

Every class takes its fields positionally and hands all of them to ``Exception.__init__``: an exception with a keyword-only
constructor cannot be unpickled, and one that cannot be unpickled hangs the process pool that carries it.
"""

__all__ = [
    "CorruptShardError",
    "DataError",
    "DatasetExistsError",
    "DatasetIncompleteError",
    "DatasetNotFoundError",
    "DecodeError",
    "SchemaError",
    "ShardNotFoundError",
]


class DataError(Exception):
    """Anything wrong with stored data; the base of every error below.

    Attributes:
      message: What is wrong, where, the numbers, and what to do next.
      path: The file or directory at fault, or None.
      record: The record's number in that file, or None where no single record is at fault.
      offset: The byte in that file at which the fault was seen, or None.
    """

    def __init__(self, message: str, path: str | None = None, record: int | None = None, offset: int | None = None) -> None:
        super().__init__(message, path, record, offset)
        self.message = message
        self.path = path
        self.record = record
        self.offset = offset

    def __str__(self) -> str:
        where = [] if self.path is None else [self.path]
        if self.record is not None:
            where.append(f"record {self.record}")
        if self.offset is not None:
            where.append(f"byte {self.offset}")
        return f"{', '.join(where)}: {self.message}" if where else self.message


class ShardNotFoundError(DataError, FileNotFoundError):
    """A shard, or every shard of a pattern, is missing."""


class CorruptShardError(DataError, ValueError):
    """A file is no ArrayRecord file, was cut short, or contradicts itself."""


class DecodeError(DataError, ValueError):
    """A record was read whole, but is not the example its features promise."""


class SchemaError(DataError, ValueError):
    """An example does not fit the features it is written under, or the features themselves cannot be stored."""


class DatasetNotFoundError(DataError, FileNotFoundError):
    """There is no data set at a path."""


class DatasetExistsError(DataError, FileExistsError):
    """A path that was to be written holds data already."""


class DatasetIncompleteError(DataError):
    """A directory was left behind by a writer that did not finish."""
