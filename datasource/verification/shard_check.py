"""One shard looked at from end to end: its size and hash, its footer, its record index, every record."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from ..arrayrecord.cache import GroupCache
from ..arrayrecord.crc import load_crc32c
from ..arrayrecord.reader import Check, ShardReader
from ..arrayrecord.record_index import IndexedShard, RecordIndex
from ..errors import DataError
from ..example.plan import DecodePlan
from ..features import FeaturesDict
from ..manifest import FileEntry, describe_file
from ..tasks import Tick
from .report import Problem

__all__ = ["CheckedShard", "ShardTask", "check_shard"]

Hashes = npt.NDArray[np.uint64]

#: Records that are read and decoded together: so many at most, and not past so many bytes by more than one record.
_BLOCK_RECORDS = 1024
_BLOCK_BYTES = 1 << 20
#: Damaged records of one shard that are named.
_MAX_NAMED = 100


@dataclass(frozen=True, slots=True)
class ShardTask:
    """A shard, and what is known of it.

    Attributes:
      directory, name: Where it is.
      features: What its records hold; None leaves them alone.
      records: How many the description says there are.
      entry: What the manifest says of the file; None where there is no manifest.
      index_path: The split's record index; empty where there is none.
      hash_records: Whether the records are to be hashed, for ``overlap``.
    """

    directory: str
    name: str
    features: FeaturesDict | None
    records: int
    entry: FileEntry | None
    index_path: str
    hash_records: bool


@dataclass(frozen=True, slots=True)
class CheckedShard:
    """What was found: the file as it is, or None where it is missing; a hash for each record, if wanted."""

    found: FileEntry | None
    problems: list[Problem]
    hashes: Hashes


def check_shard(task: ShardTask, tick: Tick) -> CheckedShard:
    """Check one shard.

    Args:
      tick: Is told of bytes: in all, twice the file's.
    """
    path = os.path.join(task.directory, task.name)
    problems: list[Problem] = []
    hashes = np.empty(0, np.uint64)
    try:
        found = describe_file(path, task.records, task.entry and task.entry.metadata, tick=tick)
    except OSError as error:
        message = "it is missing" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        return CheckedShard(None, [Problem(task.name, None, message)], hashes)
    problems += compare(task.name, task.entry, found)
    if task.features is None:
        return CheckedShard(found, problems, hashes)
    # What is, byte for byte, the file that was written, was damaged before if at all: that its records' own checksums,
    # taken before they were written, tell. Otherwise every chunk's hash is compared, to name the records that are damaged.
    check: Check = "structure" if task.entry == found and task.index_path else "hash"
    try:
        # Not mapped: a file that shrinks meanwhile must not end the process.
        reader = ShardReader(path, io="pread", check=check, max_chunk_bytes=1 << 31, cache=GroupCache())
    except DataError as error:
        problems.append(Problem(task.name, None, _at(error)))
        return CheckedShard(found, problems, hashes)
    if reader.num_records != task.records:
        message = f"it holds {reader.num_records} records, the data set's description says {task.records}"
        problems.append(Problem(task.name, None, message))
    indexed, index_problems = _find_indexed(task, reader)
    problems += index_problems
    records = _RecordCheck(task, task.features, reader, None if indexed is None else indexed.checksums)
    per_record = found.bytes / max(reader.num_records, 1)
    for start, stop in _blocks(reader):
        records.check(start, stop)
        tick(round(stop * per_record) - round(start * per_record))
    problems += records.problems
    if records.damaged > len(records.problems):
        rest = records.damaged - len(records.problems)
        problems.append(Problem(task.name, None, f"{rest} more of its {reader.num_records} records are damaged"))
    if task.hash_records:
        hashes = np.array(records.hashes, np.uint64)
    return CheckedShard(found, problems, hashes)


def compare(name: str, expected: FileEntry | None, found: FileEntry) -> Iterator[Problem]:
    """Yield how a file differs from what the manifest says of it."""
    if expected is None:
        return
    if found.bytes != expected.bytes:
        yield Problem(name, None, f"it has {found.bytes} bytes, {expected.bytes} were written: {_trend(found, expected)}")
    elif found.sha256 != expected.sha256:
        yield Problem(name, None, f"its SHA-256 is {found.sha256}, of what was written {expected.sha256}: it was changed")
    if found.records != expected.records:
        yield Problem(name, None, f"the description says {found.records} records, the manifest {expected.records}")


def _trend(found: FileEntry, expected: FileEntry) -> str:
    return "it was cut short" if found.bytes < expected.bytes else "something was added"


def _find_indexed(task: ShardTask, reader: ShardReader) -> tuple[IndexedShard | None, list[Problem]]:
    """Return what the record index says of a shard if that is true, else what is wrong with it."""
    if not task.index_path:
        return None, []
    name = os.path.basename(task.index_path)
    try:
        indexed = RecordIndex(task.index_path).lookup(os.path.basename(task.name))
    except (DataError, OSError) as error:
        return None, [Problem(name, None, error.message if isinstance(error, DataError) else str(error))]
    if indexed is None:
        return None, [Problem(name, None, f"{task.name} is not in this record index; make it again with `arrayfeed index`")]
    reason = indexed.mismatch(reader.file)
    if not reason and not (
        reader.index.record_ends is None
        and np.array_equal(indexed.index.starts, reader.index.starts)
        and np.array_equal(indexed.index.decoded_sizes, reader.index.decoded_sizes)
    ):
        reason = "the records are elsewhere than it says"
    if not reason and not indexed.places_follow():
        reason = "what it says of places contradicts itself"
    if reason:
        return None, [Problem(name, None, f"it does not fit {task.name}: {reason}; make it again with `arrayfeed index`")]
    return indexed, []


class _RecordCheck:
    """Reads and decodes records, compares their checksums, and keeps what is wrong."""

    def __init__(
        self, task: ShardTask, features: FeaturesDict, reader: ShardReader, checksums: npt.NDArray[np.uint32] | None
    ) -> None:
        self.problems: list[Problem] = []
        self.hashes: list[int] = []
        self.damaged = 0
        self._name = task.name
        self._reader = reader
        self._plan = DecodePlan(features, reader.num_records)
        self._checksums = checksums
        self._crc32c = load_crc32c()
        self._hash_records = task.hash_records

    def check(self, start: int, stop: int) -> None:
        """Check records ``start <= record < stop``: together, and one by one if anything is wrong with them."""
        rows = np.arange(start, stop)
        try:
            found = self._reader.read_many(rows)
            records = found.tolist()
            if self._plan.is_columnar:
                self._plan.decode_columns(found, rows, (0, rows.size), lambda row: (self._name, start + row))
            else:
                for record in records:
                    self._plan.single.decode(record)
            if self._checksums is not None and [*map(self._crc32c, records)] != self._checksums[rows].tolist():
                raise DataError("a checksum differs")
        except DataError:
            records = [self._check_one(record) for record in range(start, stop)]
        if self._hash_records:
            self.hashes += [int.from_bytes(blake2b(record, digest_size=8).digest(), "little") for record in records]

    def _check_one(self, record: int) -> bytes:
        """Return a record; empty if it is damaged."""
        try:
            data, _ = self._reader.read_one(record)
            if self._checksums is not None and (found := self._crc32c(data)) != (stored := int(self._checksums[record])):
                raise DataError(f"its CRC32C is {found:#010x}, of what was written {stored:#010x}")
            self._plan.single.decode(data)
        except DataError as error:
            self.damaged += 1
            if len(self.problems) < _MAX_NAMED:
                self.problems.append(Problem(self._name, record, _at(error)))
            return b""
        return data


def _at(error: DataError) -> str:
    return error.message if error.offset is None else f"byte {error.offset}: {error.message}"


def _blocks(reader: ShardReader) -> Iterator[tuple[int, int]]:
    """Yield ranges of records to be read together."""
    index = reader.index
    if index.record_ends is not None:  # a chunk of many records is decoded once, whatever its size
        steps = range(0, reader.num_records, _BLOCK_RECORDS)
        yield from ((start, min(start + _BLOCK_RECORDS, reader.num_records)) for start in steps)
        return
    ends = np.cumsum(index.decoded_sizes)
    start = 0
    while start < reader.num_records:
        before = int(ends[start - 1]) if start else 0
        full = int(np.searchsorted(ends, before + _BLOCK_BYTES)) + 1
        stop = min(start + _BLOCK_RECORDS, full, reader.num_records)
        yield start, stop
        start = stop
