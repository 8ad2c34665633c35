"""TFRecord files as one sequence of records."""

from __future__ import annotations

import os
import pickle
import zlib
from bisect import bisect_right
from contextlib import suppress
from hashlib import blake2b
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from ..arrayrecord.file import open_file
from ..distinct import distinct
from ..errors import CorruptShardError, DataError
from ..hints import LEAST_BYTES, foretell, hint_memory, is_due, is_of_use
from ..memory import Extents, copy_bytes
from ..records import RecordSource
from ..shards import Paths, Shard, expand_paths
from ..source import Indices
from .framing import FOOTER_BYTES, FRAME_BYTES, HEADER_BYTES, seal
from .index import IndexPlace, load_offsets

__all__ = ["TFRecordSource"]

Bytes = npt.NDArray[np.uint8]


class TFRecordSource(RecordSource):
    """The records of one or many TFRecord files as a sequence of ``bytes``; ``decode`` makes examples of them.

        TFRecordSource("train-*.tfrecord")[1234]
        TFRecordSource("train@16").decode({"image": Field(bytes), "label": Field(np.int64, default=-1)})

    A TFRecord file does not say where its records are. They are found once, by going through it from length to length (0.1 s
    for 100,000 records of 1 kB, once they are in the page cache), every length being compared with its checksum; the offsets
    take 8 bytes a record, and are kept for the next time. Then any record is as near as any other. A record's data are compared
    with their checksum when this process first reads it.

    Threads may share a source, a forked child goes on reading; pickled, it is a few kB. Files are mapped into memory: one that
    somebody cuts short while it is open ends the process with SIGBUS.

    Args:
      paths: A path, a glob, ``prefix@4``, or a list of them, each with ``[start:end]`` or without; see ``expand_paths``.
      index: Where the offsets are kept: ``"cache"`` in the user's cache, for files of 1 MiB and more; ``"beside"`` as
        ``<file>.index.npy``, or in the cache where that cannot be written; ``"memory"`` nowhere. Kept ones that do not belong
        to the file as it is (by size and time of modification), or are damaged, are made again.

    Raises:
      ShardNotFoundError: A file is missing, or a pattern matches none.
      CorruptShardError: A file is no TFRecord file, was cut short, inside a record's header too, or is damaged;
        ``.path``, ``.record``, ``.offset``.
      DataError: A file is compressed, or cannot be opened.
      ValueError: A slice reaches past a file's end, or an option is unknown.
    """

    def __init__(self, paths: Paths, *, index: IndexPlace = "cache") -> None:
        if index not in ("cache", "beside", "memory"):
            raise ValueError(f"index must be 'cache', 'beside' or 'memory', got {index!r}")
        self._index_place: IndexPlace = index
        self._closed = False
        self._open(expand_paths(paths))

    def _open(self, shards: list[Shard]) -> None:
        parts = []
        for shard in shards:
            offsets = load_offsets(shard.path, self._index_place)
            end = offsets.size - 1 if shard.end is None else shard.end
            if end > offsets.size - 1 or shard.start > end:
                raise ValueError(f"{shard.path}[{shard.start}:{end}] reaches past the file's {offsets.size - 1} records")
            parts.append(offsets[shard.start : end + 1])
        self._shards = shards
        self._lengths = [part.size - 1 for part in parts]
        self._ends = list(accumulate(self._lengths))
        self._end_array = np.array(self._ends, np.int64)
        # Of all files end to end, so that a batch from many is found with one look; a single file's are mapped, maybe.
        # Record i of shard k starts at offsets[i + k] and ends at offsets[i + k + 1].
        self._offsets = parts[0] if len(parts) == 1 else np.concatenate(parts)
        self._checked = np.zeros(len(self), np.uint8)
        self._bases = np.zeros(len(shards), np.int64)
        # Indexing a memoryview gives a Python int at a third of the price of indexing the array.
        self._offset_of, self._checked_of = self._offsets.data, self._checked.data
        # By number, each file's bytes and where they are in memory. An entry never changes: reads under way rely on it.
        self._mapped: dict[int, tuple[Bytes, int]] = {}

    # -- reading --------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._ends[-1]

    def _read_one(self, index: int) -> bytes:
        number = bisect_right(self._ends, index)
        mapped, base = self._mapped.get(number) or self._map(number)  # held until the record is copied
        start = self._offset_of[index + number]
        size = self._offset_of[index + number + 1] - start - FRAME_BYTES
        record = copy_bytes(base + start + HEADER_BYTES, size)
        if not self._checked_of[index]:
            self._check(index, mapped, start, record)
        return record

    def gather(self, indices: Indices) -> Extents:
        if self._closed:
            raise ValueError(f"{self!r} is closed")
        if not indices.size:
            return Extents.joined([])
        numbers = np.searchsorted(self._end_array, indices, side="right")
        places = indices + numbers
        starts = self._offsets[places]
        sizes = self._offsets[places + 1] - starts - FRAME_BYTES
        bases = self._bases[numbers]
        mapped = self._mapped  # taken after the addresses: whatever close() does meanwhile, the memory stays
        if self._closed or not bases.all():
            for number in distinct(numbers).tolist():
                self._map(number)
            return self.gather(indices)
        addresses = bases + starts + HEADER_BYTES
        if sizes.sum() >= LEAST_BYTES * sizes.size and is_due(sizes.size):
            hint_memory(addresses, sizes)
        lowest = int(addresses.min())
        addresses -= lowest
        records = Extents(lowest, addresses, sizes, int((addresses + sizes).max()), int(sizes.min()), (mapped,))
        unchecked = np.flatnonzero(self._checked[indices] == 0)
        if unchecked.size:
            self._check_many(indices[unchecked], numbers[unchecked], starts[unchecked], records[unchecked].tolist())
        return records

    def _will_need(self, indices: Indices) -> int:
        if self._closed or not indices.size or not is_of_use():
            return 0
        numbers = np.searchsorted(self._end_array, indices, side="right")
        places = indices + numbers
        starts = self._offsets[places]
        sizes = self._offsets[places + 1] - starts
        if sizes.sum() < LEAST_BYTES * sizes.size:
            return 0
        with suppress(DataError, OSError, ValueError):  # whoever reads these records is told
            for number in distinct(numbers).tolist():
                self._map(number)
            foretell(indices.size)
            return hint_memory(self._bases[numbers] + starts, sizes)
        return 0

    def _check_many(self, indices: Indices, numbers: Indices, starts: Indices, records: list[bytes]) -> None:
        rows = zip(indices.tolist(), numbers.tolist(), starts.tolist(), records, strict=True)
        for index, number, start, record in rows:
            self._check(index, self._map(number)[0], start, record)

    def _check(self, index: int, mapped: Bytes, start: int, record: bytes) -> None:
        """Compare a record's frame with the index, and its data with their checksum; remember that they match."""
        header, footer = seal(record)
        end = start + HEADER_BYTES + len(record)
        if mapped[start : start + HEADER_BYTES].tobytes() != header:
            message = f"its header is not that of {len(record)} bytes; it is damaged, or was changed since it was indexed"
            self._refuse(index, message, start)
        if mapped[end : end + FOOTER_BYTES].tobytes() != footer:
            self._refuse(index, "the checksum of its data does not match", start)
        self._checked_of[index] = 1

    def _refuse(self, index: int, message: str, offset: int) -> None:
        path, record = self.locate(index)
        raise CorruptShardError(f"{message}. Copy the file again, or leave the record out", path, record, offset)

    @property
    def files(self) -> list[str]:
        return list(dict.fromkeys(shard.path for shard in self._shards))

    def locate(self, index: int) -> tuple[str, int]:
        number = bisect_right(self._ends, index)
        first = self._ends[number] - self._lengths[number]
        return self._shards[number].path, index - first + self._shards[number].start

    # -- open files -----------------------------------------------------------------------------------------------

    def _map(self, number: int) -> tuple[Bytes, int]:
        """Return the bytes of a file and their address; maps it the first time. Of two threads that do so, one is too late."""
        files = self._mapped  # before looking: what is mapped for a source that is closed meanwhile goes into the old
        if self._closed:
            raise ValueError(f"{self!r} is closed")
        if number in files:
            return files[number]
        path = self._shards[number].path
        file = open_file(path, "mmap")
        needed = int(self._offsets[self._ends[number] + number])
        if file.file_bytes < needed:
            raise CorruptShardError(
                f"the file has {file.file_bytes} bytes, it had {needed} or more when it was indexed; something cut it since",
                path,
            )
        mapped = np.empty(0, np.uint8) if file.mapping is None else file.mapping
        known = files.setdefault(number, (mapped, mapped.ctypes.data))
        self._bases[number] = known[1]
        return known

    def close(self) -> None:
        """Release the files. Records handed out before stay valid."""
        self._closed = True
        self._mapped = {}  # a new one: readers under way hold the old

    # -- identity -------------------------------------------------------------------------------------------------

    @property
    def fingerprint(self) -> str:
        """A digest of the files' names (without folders), slices and record counts, in their order."""
        digest = blake2b(b"tfrecord", digest_size=8)
        for shard, length in zip(self._shards, self._lengths, strict=True):
            digest.update(f"{os.path.basename(shard.path)}\0{shard.start}\0{length}\0".encode())
        return digest.hexdigest()

    def __getstate__(self) -> bytes:
        # Compressed, because the paths of a thousand shards differ in a few digits.
        return zlib.compress(pickle.dumps((self._index_place, self._shards, self._lengths, self._closed)))

    def __setstate__(self, state: bytes) -> None:
        self._index_place, shards, lengths, self._closed = pickle.loads(zlib.decompress(state))
        self._open(shards)
        if self._lengths != lengths:
            raise CorruptShardError(f"the files hold {len(self)} records by now, {sum(lengths)} were there", shards[0].path)

    def _describe_length(self) -> str:
        return f"{len(self)} records in {len(self._shards)} file{'s' * (len(self._shards) != 1)}"

    def __repr__(self) -> str:
        more = f" and {len(self._shards) - 1} more" if len(self._shards) > 1 else ""
        return f"TFRecordSource({self._describe_length()}: {self._shards[0].path}{more})"
