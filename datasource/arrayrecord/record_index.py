"""The record index of a split: one file beside its shards that says where every record is and what its CRC32C should be.

With it a split of any size opens without a look into its shards, costs no memory of the process's own (the arrays are mapped),
and every record can be checked against its CRC when it is first read. It is made of what the shards say themselves, and is
only believed of a shard whose size and footer are still those it was made from.

Layout, little-endian; the arrays start at multiples of 64 bytes::

    0   b"arrayfeed.index\\n"
    16  u64 n, the bytes of the description; u32 its CRC32C; u32 0
    32  the description, JSON: {"version": 1, "shards": [{"name", "records", "bytes", "footer", "signature", "crc32c"}, ...]}
        starts       int64, records + 1 for each shard: logical position of each record's chunk, and of the footer
        sizes        int64, one a record: its bytes
        checksums    uint32, one a record: CRC32C of its bytes

``crc32c`` covers a shard's parts of the three arrays; ``signature`` is a digest of the headers of its first chunk, its last and
its footer, each of which holds a hash of its chunk: a shard written anew has others, even where its records are as long.
"""

from __future__ import annotations

import json
import os
import secrets
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from .blocks import to_logical, to_physical
from .chunk import CHUNK_HEADER_BYTES
from .crc import load_crc32c
from .file import ShardFile
from .index import FIRST_CHUNK, ShardIndex
from .mapping import map_file

__all__ = ["IndexedShard", "RecordIndex", "write_record_index"]

_MAGIC = b"arrayfeed.index\n"
_HEADER = struct.Struct("<16sQII")
_VERSION = 1
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class IndexedShard:
    """What a record index knows of one shard.

    Attributes:
      index: Where the records are; its arrays are mapped from the index file.
      checksums: CRC32C of each record, uint32.
    """

    name: str
    index: ShardIndex
    checksums: npt.NDArray[np.uint32]
    file_bytes: int
    signature: str
    crc32c: int

    def mismatch(self, file: ShardFile) -> str:
        """Return in a few words why this does not describe ``file``, empty if it does."""
        if file.file_bytes != self.file_bytes:
            return f"the shard has {file.file_bytes} bytes, the index was made of {self.file_bytes}"
        starts, sizes = self.index.starts, self.index.decoded_sizes
        if _checksum((starts, sizes, self.checksums)) != self.crc32c:
            return "the index is damaged"
        # A checksum keeps no liar out, and nobody looks at these numbers again: read as they stand, records before the file's
        # first byte or of less than no length would be read from memory that is not the file's.
        first, last = to_logical(FIRST_CHUNK), to_logical(file.file_bytes) - CHUNK_HEADER_BYTES
        if ((starts < first) | (starts > last)).any() or (np.diff(starts) < CHUNK_HEADER_BYTES).any() or (sizes < 0).any():
            return "the index is damaged"
        if _sign(file, self.index) != self.signature:
            return "the shard is another than the index was made of"
        return ""


class RecordIndex:
    """An open index file. Threads may share it; picklable by its path.

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
        shards = description["shards"]
        counts = [int(shard["records"]) for shard in shards]
        total = sum(counts)
        starts, sizes, checksums = _places(int(data[16:24].view("<u8")[0]), total, len(counts))
        if data.size != checksums + 4 * total or min(counts, default=0) < 0:
            raise DataError(
                f"a record index of {total} records cannot have {data.size} bytes; make it again with `arrayfeed index`", path
            )
        self._starts = data[starts : starts + 8 * (total + len(counts))].view("<i8")
        self._sizes = data[sizes : sizes + 8 * total].view("<i8")
        self._checksums = data[checksums:].view("<u4")
        self._shards = shards
        self._firsts = np.cumsum([0, *counts]).tolist()
        self._number_of = {str(shard["name"]): number for number, shard in enumerate(shards)}

    def __getstate__(self) -> str:
        return self.path

    def __setstate__(self, path: str) -> None:
        self.__init__(path)  # type: ignore[misc]

    @property
    def arrays(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.uint32]]:
        """``starts``, ``sizes`` and ``checksums`` of all shards, end to end: not to be believed of one before ``mismatch``."""
        return self._starts, self._sizes, self._checksums

    def find(self, name: str) -> tuple[int, int]:
        """Return the number of the shard of that file name, and its first record in ``arrays``; raise KeyError for another."""
        number = self._number_of[name]
        return number, self._firsts[number]

    def lookup(self, name: str) -> IndexedShard | None:
        """Return what is known of the shard of that file name, or None."""
        number = self._number_of.get(name)
        if number is None:
            return None
        first, last = self._firsts[number], self._firsts[number + 1]
        shard = self._shards[number]
        return IndexedShard(
            name,
            ShardIndex(self._starts[first + number : last + number + 1], self._sizes[first:last], None, last - first),
            self._checksums[first:last],
            int(shard["bytes"]),
            str(shard["signature"]),
            int(shard["crc32c"]),
        )


def write_record_index(
    path: str, shards: Mapping[str, Callable[[], tuple[ShardFile, ShardIndex, npt.NDArray[np.uint32]]]]
) -> None:
    """Write the index of a split's shards, whole or not at all.

    Args:
      path: Where to; replaced if it exists.
      shards: By file name, what gives the open file, its index (one record a chunk) and the CRC32C of each record.

    Raises:
      DataError: A shard's chunks hold several records.
    """
    described: list[dict[str, Any]] = []
    arrays: list[tuple[npt.NDArray[Any], ...]] = []
    for name, describe in shards.items():
        shard, index, checksums = describe()
        if index.record_ends is not None:
            raise DataError("its chunks hold several records each (group_size > 1); only one a chunk is indexed", shard.path)
        found = (index.starts.astype("<i8"), index.decoded_sizes.astype("<i8"), checksums.astype("<u4"))
        arrays.append(found)
        described.append(
            {
                "name": name,
                "records": index.num_records,
                "bytes": shard.file_bytes,
                "footer": to_physical(int(index.starts[-1])),
                "signature": _sign(shard, index),
                "crc32c": _checksum(found),
            }
        )
    description = json.dumps({"version": _VERSION, "shards": described}).encode()
    total = sum(shard["records"] for shard in described)
    places = _places(len(description), total, len(described))
    temporary = f"{path}.{secrets.token_hex(4)}.tmp"
    with open(temporary, "wb") as file:
        file.write(_HEADER.pack(_MAGIC, len(description), load_crc32c()(description), 0) + description)
        for column, place in enumerate(places):
            file.seek(place)
            for part in arrays:
                file.write(part[column].tobytes())
        file.truncate(places[2] + 4 * total)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def _read_description(path: str, data: npt.NDArray[np.uint8]) -> dict[str, Any]:
    try:
        magic, size, checksum, _ = _HEADER.unpack(data[: _HEADER.size].tobytes())
        text = data[_HEADER.size : _HEADER.size + size].tobytes()
        if magic != _MAGIC or len(text) != size or load_crc32c()(text) != checksum:
            raise ValueError("its head is damaged")
        description: dict[str, Any] = json.loads(text)
        if description["version"] != _VERSION:
            raise ValueError(f"it is of version {description['version']}, this reads version {_VERSION}")
        for shard in description["shards"]:
            numbers, texts = [shard[key] for key in ("records", "bytes", "crc32c")], [shard["name"], shard["signature"]]
            if not all(isinstance(n, int) and n >= 0 for n in numbers) or not all(isinstance(t, str) for t in texts):
                raise ValueError("it describes no shards")
    except (ValueError, TypeError, KeyError, struct.error) as error:
        raise DataError(f"no record index: {error}; make it again with `arrayfeed index`", path) from None
    return description


def _places(description_bytes: int, records: int, shards: int) -> tuple[int, int, int]:
    """Return where the three arrays start."""
    starts = _align(_HEADER.size + description_bytes)
    sizes = _align(starts + 8 * (records + shards))
    return starts, sizes, _align(sizes + 8 * records)


def _align(place: int) -> int:
    return -(-place // _ALIGNMENT) * _ALIGNMENT


def _sign(file: ShardFile, index: ShardIndex) -> str:
    digest = blake2b(digest_size=8)
    for chunk in (0, -2, -1) if index.num_records else (-1,):
        digest.update(file.read(int(index.starts[chunk]), CHUNK_HEADER_BYTES))
    return digest.hexdigest()


def _checksum(arrays: Sequence[npt.NDArray[Any]]) -> int:
    return load_crc32c()(b"".join(array.tobytes() for array in arrays))
