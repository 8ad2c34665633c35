"""The record index of a split: one file beside its shards that says where every record is and what its CRC32C should be.

With it a split of any size opens without a look into its shards, costs no memory of the process's own (the arrays are mapped),
and every record can be checked against its CRC when it is first read. It is made of what the shards say themselves, and is
only believed of a shard whose size and footer are still those it was made from.

Layout, little-endian; the arrays start at multiples of 64 bytes, and those that say nothing are left out::

    0   b"arrayfeed.index\\n"
    16  u64 n, the bytes of the description; u32 its CRC32C; u32 0
    32  the description, JSON: {"version": 2, "alike": null or [first, stride, size], "varies": null or text, "plain": true
                                or false, "shards": [{"name", "records", "bytes", "footer", "signature", "crc32c", "run"}, ...]}
        starts       int64, records + 1 for each shard: logical position of each record's chunk, and of the footer
        sizes        int64, one a record: its bytes
        checksums    uint32, one a record: CRC32C of its bytes
        runs         uint32, one for every ``run`` neighbours of a shard: CRC32C of their chunks, as they lie in the file
        places       int64, one a record: see ``place_plain``; of a split's files side by side, each from a multiple of 2 MiB on

Where every record of every shard has ``size`` bytes, chunk k begins at ``first + k * stride``: ``alike`` says so, and
``starts`` and ``sizes`` are left out. There ``varies``, if it is there, is a mask of ``stride`` bytes, compressed by zlib and
in base64: its bits are set where chunks, headers included, differ; in all others each chunk is like any. Where not ``plain``,
records are compressed, and ``places`` is left out. ``crc32c`` covers a shard's parts of all arrays but ``places``, which follow
from the others; ``signature`` is a digest of the headers of its first chunk, its last and its footer, each of which holds a
hash of its chunk: a shard written anew has others, even where its records are as long. Version 1 had ``starts``, ``sizes`` and
``checksums`` alone; it is read as well, but the first reads take longer.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from .blocks import to_logical
from .chunk import CHUNK_HEADER_BYTES
from .crc import load_crc32c, load_crc32c_extend
from .file import ShardFile
from .index import FIRST_CHUNK, ShardIndex
from .mapping import lay_side_by_side, map_file
from .plain import head_bytes, place_plain
from .steps import Steps
from .varying import unpack_bits

__all__ = ["HEADER", "MAGIC", "VERSION", "IndexedShard", "RecordIndex", "checksum_arrays", "lay_out", "sign"]

Ints = npt.NDArray[np.int64]

MAGIC = b"arrayfeed.index\n"
HEADER = struct.Struct("<16sQII")
VERSION = 2
_ALIGNMENT = 64
#: Places are followed up so many at a time: the arrays that this takes are not given back to the system in between.
_BLOCK_RECORDS = 1 << 13


@dataclass(frozen=True, slots=True)
class IndexedShard:
    """What a record index knows of one shard.

    Attributes:
      index: Where the records are; its arrays are mapped from the index file.
      checksums: CRC32C of each record, uint32.
      places, place_offset: As ``place_plain`` says, but with an offset; none where the index has none.
      run, runs: How many neighbours share a checksum, and these checksums, uint32; 0 and none in version 1.
      varies: In which bits chunks of the split differ, where that is known.
    """

    name: str
    index: ShardIndex
    checksums: npt.NDArray[np.uint32]
    run: int
    runs: npt.NDArray[np.uint32]
    places: Ints
    place_offset: int
    file_bytes: int
    signature: str
    crc32c: int
    varies: npt.NDArray[np.uint8] | None = None

    def mismatch(self, file: ShardFile) -> str:
        """Return in a few words why this does not describe ``file``, empty if it does."""
        if file.file_bytes != self.file_bytes:
            return f"the shard has {file.file_bytes} bytes, the index was made of {self.file_bytes}"
        starts, sizes = self.index.starts, self.index.decoded_sizes
        places = () if isinstance(starts, Steps) else (starts, sizes)
        if checksum_arrays((*places, self.checksums, self.runs)) != self.crc32c:
            return "the index is damaged"
        # A checksum keeps no liar out, and nobody looks at these numbers again: read as they stand, records before the file's
        # first byte or of less than no length would be read from memory that is not the file's.
        first, last = to_logical(FIRST_CHUNK), to_logical(file.file_bytes) - CHUNK_HEADER_BYTES
        if isinstance(starts, Steps):
            outside = starts[0] < first or starts[-1] > last  # the stride was looked at already
        else:
            outside = not _are_within(starts, sizes, first, last)
        if outside:
            return "the index is damaged"
        if sign(file, self.index) != self.signature:
            return "the shard is another than the index was made of"
        return ""

    def places_follow(self) -> bool:
        """Return whether ``places`` follow from where the chunks begin; to be asked after ``mismatch``.

        All at once: 20 ns a record, where looking them up when they are asked for would take 300.
        """
        for start in range(0, self.places.size, _BLOCK_RECORDS):
            places = self.places[start : start + _BLOCK_RECORDS]
            starts = self.index.starts[start : start + places.size + 1]
            sizes = self.index.decoded_sizes[start : start + places.size]
            if (places != place_plain(starts[:-1], starts[1:], sizes, self.place_offset)).any():
                return False
        return True


class RecordIndex:
    """An open index file. Threads may share it; picklable by its path.

    Attributes:
      alike: Where the first chunk begins in every shard, from one to the next, and bytes of a record, if all are alike.
      starts: Of all shards, end to end; None where ``alike``.
      varies: In which bits chunks differ, uint8, as long as each; None where the index does not say.
      sizes, checksums: Of all shards, end to end.
      runs: Of all shards, end to end.
      places: Of all shards, end to end; None where the index has none.

    None of the arrays is to be believed of a shard before ``mismatch`` was asked; ``places`` is for the reader to check.

    Raises:
      DataError: The file is no index, or its description is damaged. What it says of a shard is checked when that is opened.
      FileNotFoundError: There is no such file.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        with open(path, "rb") as opened:
            file_bytes = os.fstat(opened.fileno()).st_size
            data = map_file(opened.fileno(), file_bytes) if file_bytes else np.empty(0, np.uint8)
        description = _read_description(path, data)
        self._shards = shards = description["shards"]
        counts = [shard["records"] for shard in shards]
        num_runs = [-(-shard["records"] // shard["run"]) if shard["run"] else 0 for shard in shards]
        total = sum(counts)
        alike = description["alike"]
        self.alike: tuple[int, int, int] | None = None if alike is None else (alike[0], alike[1], alike[2])
        self.varies: npt.NDArray[np.uint8] | None = description["varies"]
        has = [alike is None, alike is None, True, description["version"] > 1, description["plain"]]
        ends = lay_out(int(data[16:24].view("<u8")[0]), has, total, len(shards), sum(num_runs))
        if data.size != ends[-1][1]:
            raise DataError(
                f"a record index of {total} records cannot have {data.size} bytes; make it again with `arrayfeed index`", path
            )
        arrays = [data[start:stop] for start, stop in ends]
        self.starts: Ints | None = arrays[0].view("<i8") if alike is None else None
        self.sizes: Ints = arrays[1].view("<i8") if alike is None else np.broadcast_to(np.int64(alike[2]), total)
        self.checksums: npt.NDArray[np.uint32] = arrays[2].view("<u4")
        self.runs: npt.NDArray[np.uint32] = arrays[3].view("<u4")
        self.places: Ints | None = arrays[4].view("<i8") if description["plain"] else None
        self._firsts = [0, *accumulate(counts)]
        self._first_bytes = lay_side_by_side(self.file_bytes)
        self._first_runs = [0, *accumulate(num_runs)]
        self._number_of = {shard["name"]: number for number, shard in enumerate(shards)}

    def __getstate__(self) -> str:
        return self.path

    def __setstate__(self, path: str) -> None:
        self.__init__(path)  # type: ignore[misc]

    @property
    def file_bytes(self) -> list[int]:
        """The size of each shard's file."""
        return [shard["bytes"] for shard in self._shards]

    @cached_property
    def firsts(self) -> Ints:
        """The first record of each shard, among those of all."""
        return np.array(self._firsts[:-1], np.int64)

    @cached_property
    def first_bytes(self) -> Ints:
        """Where each shard's file begins among all, side by side."""
        return np.array(self._first_bytes[:-1], np.int64)

    @cached_property
    def counts(self) -> Ints:
        """The records of each shard."""
        return np.array([shard["records"] for shard in self._shards], np.int64)

    @cached_property
    def run_bits(self) -> Ints:
        """How many neighbours of each shard share a checksum, as a power of two."""
        return np.array([shard["run"].bit_length() - 1 for shard in self._shards], np.int64)

    def starts_of(self, rows: Ints, shards: Ints, records: Ints) -> Ints:
        """Return where in their files chunks begin, as logical positions.

        Args:
          rows: The first record of each one's shard among those of all.
          shards, records: Each one's shard, and its number there: that of its records is the footer's.
        """
        if self.alike is not None:
            return self.alike[0] + records * self.alike[1]
        assert self.starts is not None
        starts: Ints = self.starts[rows + shards + records]
        return starts

    def find(self, name: str) -> tuple[int, int, int]:
        """Return the number of the shard of that file name, its first record and its first run; raise KeyError for another."""
        number = self._number_of[name]
        return number, self._firsts[number], self._first_runs[number]

    def lookup(self, name: str) -> IndexedShard | None:
        """Return what is known of the shard of that file name, or None."""
        number = self._number_of.get(name)
        return None if number is None else self.shard(number)

    def shard(self, number: int) -> IndexedShard:
        """Return what is known of a shard."""
        first, last = self._firsts[number : number + 2]
        starts: Ints | Steps
        if self.alike is not None:
            starts = Steps(*self.alike[:2], last - first + 1)
        else:
            assert self.starts is not None
            starts = self.starts[first + number : last + number + 1]
        shard = self._shards[number]
        return IndexedShard(
            shard["name"],
            ShardIndex(starts, self.sizes[first:last], None, last - first),
            self.checksums[first:last],
            shard["run"],
            self.runs[self._first_runs[number] : self._first_runs[number + 1]],
            np.empty(0, np.int64) if self.places is None else self.places[first:last],
            self._first_bytes[number],
            shard["bytes"],
            shard["signature"],
            shard["crc32c"],
            self.varies,
        )


def _read_description(path: str, data: npt.NDArray[np.uint8]) -> dict[str, Any]:
    try:
        magic, size, checksum, _ = HEADER.unpack(data[: HEADER.size].tobytes())
        text = data[HEADER.size : HEADER.size + size].tobytes()
        if magic != MAGIC or len(text) != size or load_crc32c()(text) != checksum:
            raise ValueError("its head is damaged")
        description: dict[str, Any] = json.loads(text)
        if description["version"] == 1:
            shards = [{**shard, "run": 0} for shard in description["shards"]]
            description = {"version": 1, "alike": None, "plain": False, "shards": shards}
        elif description["version"] != VERSION:
            raise ValueError(f"it is of version {description['version']}, this reads versions 1 and {VERSION}")
        alike = description["alike"]
        if alike is not None and not (
            all(isinstance(n, int) and 0 <= n < 1 << 62 for n in alike) and alike[1] == alike[2] + head_bytes(alike[2])
        ):
            raise ValueError("what its records have in common is none")
        varies = description.get("varies")  # indexes of before it was thought of lack it
        description["varies"] = None if alike is None or varies is None else unpack_bits(varies, alike[1])
        for shard in description["shards"]:
            numbers, texts = [shard[key] for key in ("records", "bytes", "crc32c", "run")], [shard["name"], shard["signature"]]
            if not all(isinstance(n, int) and n >= 0 for n in numbers) or not all(isinstance(t, str) for t in texts):
                raise ValueError("it describes no shards")
            if description["version"] > 1 and shard["run"].bit_count() != 1:
                raise ValueError(f"runs of {shard['run']} records, which is no power of two")
    except (ValueError, TypeError, KeyError, IndexError, struct.error) as error:
        raise DataError(f"no record index: {error}; make it again with `arrayfeed index`", path) from None
    return description


def lay_out(description_bytes: int, has: Sequence[bool], records: int, shards: int, runs: int) -> list[tuple[int, int]]:
    """Return start and end of each array in the file; of those that are left out, nothing."""
    sizes = [8 * (records + shards), 8 * records, 4 * records, 4 * runs, 8 * records]
    return list(_lay_out(HEADER.size + description_bytes, has, sizes))


def _lay_out(end: int, has: Sequence[bool], sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    for present, size in zip(has, sizes, strict=True):
        start = -(-end // _ALIGNMENT) * _ALIGNMENT if present else end
        end = start + size if present else end
        yield start, end


def _are_within(starts: Ints, sizes: Ints, first: int, last: int) -> bool:
    """Return whether chunks ascend from ``first`` to ``last``, and no record has less than no bytes.

    A few at a time: temporary arrays of a whole shard would stay with the process, which keeps what it had once.
    """
    for start in range(0, starts.size, _BLOCK_RECORDS):
        some = starts[start : start + _BLOCK_RECORDS + 1]
        if (some < first).any() or (some > last).any() or (np.diff(some) < CHUNK_HEADER_BYTES).any():
            return False
        if (sizes[start : start + _BLOCK_RECORDS] < 0).any():
            return False
    return True


def sign(file: ShardFile, index: ShardIndex) -> str:
    """Return a digest of what tells a shard from others that were written in its place."""
    digest = blake2b(digest_size=8)
    for chunk in (0, -2, -1) if index.num_records else (-1,):
        digest.update(file.read(int(index.starts[chunk]), CHUNK_HEADER_BYTES))
    return digest.hexdigest()


def checksum_arrays(arrays: Sequence[npt.NDArray[Any]]) -> int:
    """Return the CRC32C of read-only arrays, end to end."""
    extend = load_crc32c_extend()
    checksum = 0
    for array in arrays:
        checksum = extend(checksum, array)
    return checksum
