"""One split while it grows: records in, shards out, each closed, on the disk and counted before the next begins."""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..arrayrecord.cache import GroupCache
from ..arrayrecord.crc import load_crc32c
from ..arrayrecord.index_writing import DescribedShard
from ..arrayrecord.reader import ShardReader
from ..errors import DataError
from ..manifest import FileEntry, describe_file
from .codec import AUTO, SAMPLE_BYTES, SAMPLE_RECORDS, choose_codec, writer_options
from .keyed import KeyedRecords
from .publish import sync

__all__ = ["GrowingSplit", "WrittenShard", "describe_shard", "open_shard"]


@dataclass(frozen=True, slots=True)
class WrittenShard:
    """A finished file: under its temporary name, with what it holds.

    Attributes:
      num_bytes: Of its records, before compression.
      checksums: CRC32C of each record, taken before it was written.
      entry: What the manifest is to say of it.
      is_grouped: Whether its chunks hold several records, as of one that others wrote.
      run, runs, varies: What a record index says already of neighbours and of all, see ``DescribedShard``.
    """

    path: str
    num_records: int
    num_bytes: int
    checksums: npt.NDArray[np.uint32]
    entry: FileEntry
    is_grouped: bool = False
    run: int = 0
    runs: npt.NDArray[np.uint32] | None = None
    varies: npt.NDArray[np.uint8] | None = None


class _Writer(Protocol):
    def write(self, record: bytes, /) -> None: ...
    def close(self) -> None: ...


class GrowingSplit:
    """Adds records to shards, and starts a new shard when the next record would overfill the last.

    A shard holds at most ``shard_records`` records, and at most ``shard_bytes`` bytes of records (before compression)
    unless a single record is larger. So the shards depend on the records alone, not on how they compress. Not safe
    from threads.

    Args:
      directory: Where the shards are written, as ``<name>-00000.partial`` and so on.
      name: Of the split.
      codec: See ``check_codec``; ``"auto"`` keeps the first records in memory until there are enough to decide.
      group_size: Records that are compressed together.
      keyed: Whether records come with keys, and are put in their order at the end.

    Attributes:
      num_records: How many were added.
      shards: Those that are finished.
    """

    def __init__(
        self,
        directory: str,
        name: str,
        *,
        shard_bytes: int | None = None,
        shard_records: int | None = None,
        codec: str,
        group_size: int = 1,
        keyed: bool = False,
    ) -> None:
        self.name = name
        self.codec = codec
        self.num_records = 0
        self.shards: list[WrittenShard] = []
        self._directory = directory
        self._group_size = group_size
        self._most_bytes = shard_bytes if shard_bytes is not None else 1 << 62
        self._most_records = shard_records if shard_records is not None else 1 << 62
        self._keyed = KeyedRecords(name, os.path.join(directory, name)) if keyed else None
        self._metadata: Any = None
        self._sample: list[bytes] = []
        self._sample_bytes = 0
        self._writer: _Writer | None = None
        self._path = ""
        self._shard_records = 0
        self._shard_bytes = 0
        self._crc32c = load_crc32c()
        self._checksums = array("I")

    @property
    def is_keyed(self) -> bool:
        """Whether records come with keys."""
        return self._keyed is not None

    def extend(self, records: Sequence[bytes], keys: Sequence[bytes] | None = None) -> None:
        """Add records at the end; with a key each if they are keyed, and only then.

        Raises:
          DataError: A shard cannot be opened, written or read back; nothing can be added from then on.
          ImportError: array_record is missing.
        """
        self.num_records += len(records)
        if self._keyed is None:
            self._add(records)
            return
        try:
            self._keyed.extend(keys or (), records)
        except OSError as error:
            raise DataError(f"records could not be put aside to be shuffled: {error}", self._directory) from error

    def begin_shard(self, metadata: Any) -> None:
        """Let the next record begin a new shard; that and all further shards carry ``metadata``.

        Raises:
          DataError, ImportError: As ``extend``.
        """
        if self.codec == AUTO and self._sample:
            self._settle_codec()
        self._close_shard()
        self._metadata = metadata

    def _add(self, records: Sequence[bytes]) -> None:
        if self.codec == AUTO:
            self._sample += records
            self._sample_bytes += sum(map(len, records))
            if len(self._sample) >= SAMPLE_RECORDS or self._sample_bytes >= SAMPLE_BYTES:
                self._settle_codec()
        else:
            self._write(records)

    def _write(self, records: Sequence[bytes]) -> None:
        # Most calls fill no shard: so much is seen at once, for all of their records.
        num_bytes = sum(map(len, records))
        if self._writer is not None and self._has_room(len(records), num_bytes):
            write = self._writer.write
            for record in records:
                write(record)
            self._checksums.extend(map(self._crc32c, records))
            self._shard_records += len(records)
            self._shard_bytes += num_bytes
            return
        for record in records:
            if self._writer is None or (self._shard_records and not self._has_room(1, len(record))):
                self._roll()
            assert self._writer is not None
            self._writer.write(record)
            self._checksums.append(self._crc32c(record))
            self._shard_records += 1
            self._shard_bytes += len(record)

    def _has_room(self, num_records: int, num_bytes: int) -> bool:
        return self._shard_records + num_records <= self._most_records and self._shard_bytes + num_bytes <= self._most_bytes

    def finish(self) -> None:
        """Close the last shard. A split without records has none."""
        if self._keyed is not None:
            for records in self._keyed.drain():
                self._add(records)
        if self.codec == AUTO:
            self._settle_codec()
        self._close_shard()

    def abandon(self) -> None:
        """Close what is open, come what may; its content no longer matters."""
        self._sample.clear()
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                writer.close()
            except RuntimeError:
                pass  # a full disk, most likely, which is why it is being abandoned

    def _settle_codec(self) -> None:
        sample, self._sample = self._sample, []
        self.codec = choose_codec(sample)
        self._write(sample)

    def _roll(self) -> None:
        self._close_shard()
        self._path = os.path.join(self._directory, f"{self.name}-{len(self.shards):05d}.partial")
        self._writer = _open_writer(self._path, writer_options(self.codec, self._group_size))
        self._shard_records = self._shard_bytes = 0
        self._checksums = array("I")

    def _close_shard(self) -> None:
        writer, self._writer = self._writer, None
        if writer is None:
            return
        try:
            # Until now no error shows: array_record writes behind our back, and write() never fails.
            writer.close()
            sync(self._path)
        except (RuntimeError, OSError) as error:
            raise DataError(f"the shard could not be written: {error}", self._path) from error
        checksums = np.array(self._checksums, np.uint32)
        entry = describe_file(self._path, self._shard_records, self._metadata)
        shard = WrittenShard(self._path, self._shard_records, self._shard_bytes, checksums, entry)
        _check_written(shard)
        self.shards.append(shard)


def _open_writer(path: str, options: str) -> _Writer:
    try:
        from array_record.python.array_record_module import ArrayRecordWriter
    except ImportError as error:
        raise ImportError(
            "writing data sets needs array-record, which is not installed: pip install array-record (it has wheels for "
            "Linux, and for macOS on Apple silicon)"
        ) from error
    try:
        # Two encoding threads are no faster than one for records of 800 bytes (210,000/s zstd, 420,000/s uncompressed).
        writer: _Writer = ArrayRecordWriter(path, f"{options},max_parallelism:1")
    except RuntimeError as error:
        raise DataError(f"the shard could not be opened for writing: {error}", path) from error
    if not writer.ok():  # type: ignore[attr-defined]
        try:
            writer.close()
            reason = "array_record does not say why"
        except RuntimeError as error:
            reason = str(error)
        raise DataError(f"the shard could not be opened for writing: {reason}", path)
    return writer


def describe_shard(path: str, shard: WrittenShard) -> DescribedShard:
    """Return what the record index needs to know of a written shard, which is at ``path`` by now."""
    reader = open_shard(path)
    return DescribedShard(reader.file, reader.index, shard.checksums, shard.run, shard.runs, shard.varies)


def open_shard(path: str) -> ShardReader:
    """Open a written shard with our own reader: array_record's starts threads, which do not survive a fork of the process."""
    return ShardReader(path, io="pread", check="structure", max_chunk_bytes=1 << 31, cache=GroupCache())


def _check_written(shard: WrittenShard) -> None:
    """Compare what a finished shard's own index says with what was written."""
    reader = open_shard(shard.path)
    found = reader.num_records, int(reader.index.decoded_sizes.sum())
    if found != (shard.num_records, shard.num_bytes):
        raise DataError(
            f"{shard.num_records} records of {shard.num_bytes} bytes were written, the file holds {found[0]} of "
            f"{found[1]}; check the disk",
            shard.path,
        )
