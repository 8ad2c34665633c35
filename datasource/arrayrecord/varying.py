"""In which bits the chunks of a split differ, where all are of one length: in all others, each is like any.

Before a record is read in place, its structure is compared with what it should be, its chunk's header for a start: of 60,000
small images that took four times as long as their checksums. Whoever writes an index reads all of them anyway, and can say
what they have in common; whoever reads it looks at one.
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode

import numpy as np
import numpy.typing as npt

from .file import ShardFile

__all__ = ["Varying", "pack_bits", "unpack_bits"]

Bytes = npt.NDArray[np.uint8]

#: Of longer chunks nothing is said: comparing their structure takes less than a tenth of the time of their checksums.
_MAX_CHUNK_BYTES = 1 << 14
#: What is read at a time: it stays in the second-level cache.
_READ_BYTES = 1 << 19


class Varying:
    """Finds out in which bits chunks differ. Takes 0.5 ms a MB."""

    def __init__(self) -> None:
        self._is_open = True
        self._in_some = self._in_all = np.empty(0, np.uint8)

    def add(self, file: ShardFile, start: int, chunk_bytes: int, count: int) -> None:
        """Look at ``count >= 1`` chunks of ``chunk_bytes``, end to end from the logical position ``start`` on."""
        if not self._take(chunk_bytes):
            return
        step = max(1, _READ_BYTES // chunk_bytes)
        for first in range(0, count, step):
            number = min(step, count - first)
            data = file.read(start + first * chunk_bytes, number * chunk_bytes)
            chunks = np.frombuffer(data, np.uint8).reshape(number, chunk_bytes)
            self._in_some |= np.bitwise_or.reduce(chunks, axis=0)
            self._in_all &= np.bitwise_and.reduce(chunks, axis=0)

    def add_like(self, chunk: bytes | memoryview, bits: Bytes) -> None:
        """Take one chunk for all those that differ from it in ``bits`` only, which has as many bytes."""
        if self._take(len(chunk)):
            values = np.frombuffer(chunk, np.uint8)
            self._in_some |= values | bits
            self._in_all &= values & ~bits

    def give_up(self) -> None:
        """Say nothing: there are chunks that are not looked at."""
        self._is_open = False

    def bits(self) -> Bytes | None:
        """Return the bits in which not all chunks agree; None if they are of several lengths, too long, or none."""
        return self._in_some & ~self._in_all if self._is_open and self._in_all.size else None

    def _take(self, chunk_bytes: int) -> bool:
        if not self._in_all.size:
            self._in_some, self._in_all = np.zeros(chunk_bytes, np.uint8), np.full(chunk_bytes, 0xFF, np.uint8)
        self._is_open = self._is_open and chunk_bytes == self._in_all.size <= _MAX_CHUNK_BYTES
        return self._is_open


def pack_bits(bits: Bytes) -> str:
    """Return bits as text, for JSON."""
    return b64encode(zlib.compress(bits.tobytes(), 9)).decode()


def unpack_bits(text: str, size: int) -> Bytes:
    """Return bits of text that ``pack_bits`` made of ``size`` bytes.

    Raises:
      ValueError: It was not made of so many, or nobody makes it of so many.
    """
    if size > _MAX_CHUNK_BYTES:
        raise ValueError(f"bits of chunks of {size} bytes, of which nothing is said")
    try:
        data = zlib.decompressobj().decompress(b64decode(text, validate=True), size + 1)
    except zlib.error as error:
        raise ValueError(f"bits that cannot be unpacked: {error}") from None
    if len(data) != size:
        raise ValueError(f"bits of {len(data)} bytes, where chunks have {size}")
    return np.frombuffer(data, np.uint8)
