"""A shuffle at write time: records in the order of their keys' hashes, whatever the order they come in.

It is TFDS's own order: of equal keys and split names, ``tfds`` makes equal splits. The hash is its hash, too: MD5 of the
split's name and the key (``tensorflow_datasets/core/hashing.py``).
"""

from __future__ import annotations

import operator
import os
import struct
from collections.abc import Iterator, Sequence
from hashlib import md5
from itertools import groupby
from typing import SupportsIndex, TypeAlias

__all__ = ["Key", "KeyedRecords", "key_bytes"]

Key: TypeAlias = str | bytes | SupportsIndex

#: Kept in memory before any of it goes to files. One of them is read back at a time: 1 GB of a split of 1 TB.
_BUFFER_BYTES = 64 << 20
_BUCKETS = 1024
_HASH_BYTES = 16
_HEAD = struct.Struct(f"<{_HASH_BYTES}sI")


def key_bytes(key: Key) -> bytes:
    """Return what TFDS hashes of a key.

    Raises:
      TypeError: It is no string, bytes or integer.
    """
    if isinstance(key, bytes):
        return key
    if isinstance(key, str):
        return key.replace("\\", "/").encode()  # a path on Windows is the same key as elsewhere
    return str(operator.index(key)).encode()


class KeyedRecords:
    """Takes records with keys, and gives them sorted. Records of equal keys are sorted by their bytes. Not safe from threads.

    Args:
      prefix: Begins the paths of the files that hold what memory does not; they are gone when all has been given.
    """

    def __init__(self, split: str, prefix: str) -> None:
        self._prefix = prefix
        self._salted = md5(split.encode(), usedforsecurity=False)
        self._buffer: list[tuple[bytes, bytes]] = []
        self._buffer_bytes = 0
        self._has_files = False

    def extend(self, keys: Sequence[bytes], records: Sequence[bytes]) -> None:
        """Add records, a key each."""
        self._buffer += zip(map(self._hash, keys), records, strict=True)
        self._buffer_bytes += sum(map(len, records)) + _HASH_BYTES * len(records)
        if self._buffer_bytes >= _BUFFER_BYTES:
            self._spill()

    def drain(self) -> Iterator[list[bytes]]:
        """Yield all records, in order, some at a time."""
        if not self._has_files:
            yield [record for _, record in sorted(self._buffer)]
            self._buffer.clear()
            return
        self._spill()
        for bucket in range(_BUCKETS):
            path = self._path(bucket)
            if os.path.exists(path):
                with open(path, "rb") as file:
                    data = file.read()
                yield [record for _, record in sorted(_parse(data))]
                os.remove(path)

    def _hash(self, key: bytes) -> bytes:
        salted = self._salted.copy()
        salted.update(key)
        return salted.digest()

    def _spill(self) -> None:
        self._has_files = True
        for bucket, pairs in groupby(sorted(self._buffer), key=_bucket):
            with open(self._path(bucket), "ab") as file:
                for hashed, record in pairs:
                    file.write(_HEAD.pack(hashed, len(record)))
                    file.write(record)
        self._buffer.clear()
        self._buffer_bytes = 0

    def _path(self, bucket: int) -> str:
        return f"{self._prefix}-{bucket:04d}.keyed"


def _bucket(pair: tuple[bytes, bytes]) -> int:
    """Return which file a record belongs in: the first ten bits of its hash, so that files in order are records in order."""
    return int.from_bytes(pair[0][:2], "big") >> 6


def _parse(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    place = 0
    while place < len(data):
        hashed, size = _HEAD.unpack_from(data, place)
        place += _HEAD.size
        yield hashed, data[place : place + size]
        place += size
