"""Long records of a mapped file, read where they are though block headers lie in them.

A record of 100 kB crosses one or two block boundaries, so it is nowhere in one piece. Put together first, and cut to fields
then, each byte is copied three times, into memory that is new each time: a first epoch took 500 us a record, and takes 130.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import memmove
from typing import Any

import numpy as np
import numpy.typing as npt

from ..memory import Extents, view_memory
from .blocks import BLOCK_HEADER_BYTES, USABLE_BYTES

__all__ = ["LONG_BYTES", "BlockedExtents"]

Ints = npt.NDArray[np.int64]

#: From here on it is worth it. Of shorter records few cross a boundary, and a gather takes less than a call for each piece.
LONG_BYTES = 1 << 15
#: Fields of fewer bytes lie in one piece in most records, and are gathered by one operation from those.
_SHORT_BYTES = 4096


class BlockedExtents(Extents):
    """Byte ranges in memory that block headers interrupt; sizes and places in a range do not count these.

    Attributes:
      firsts: Bytes of each range before the first header; more than its size where none lies in it.
    """

    __slots__ = ("firsts",)

    def __init__(
        self, base: int, offsets: Ints, sizes: Ints, span: int, smallest: int, owners: tuple[object, ...], firsts: Ints
    ) -> None:
        super().__init__(base, offsets, sizes, span, smallest, owners)
        self.firsts = firsts

    @classmethod
    def of(cls, base: int, offsets: Ints, sizes: Ints, firsts: Ints, owners: tuple[object, ...]) -> BlockedExtents:
        """Return some ranges, at least one, that are known to lie within memory that belongs to ``owners``."""
        span = int((offsets + sizes + BLOCK_HEADER_BYTES * _headers_before(sizes, firsts)).max())
        return cls(base, offsets, sizes, span, int(sizes.min()), owners, firsts)

    def including(self, whole: Extents, parts: Sequence[tuple[Ints, Extents]]) -> BlockedExtents:
        firsts = whole.sizes + 1
        for places, extents in parts:
            if isinstance(extents, BlockedExtents):
                firsts[places] = extents.firsts
        return _interrupted(whole, firsts)

    def whole(self) -> Extents:
        ends = np.cumsum(self.sizes)
        joined = np.empty(int(ends[-1]) if ends.size else 0, np.uint8)
        self._copy(0, self.sizes, joined.ctypes.data + ends - self.sizes)
        return Extents.within(joined, ends - self.sizes, self.sizes)

    def inner(self, starts: Ints | int, sizes: Ints) -> BlockedExtents:
        part = super().inner(starts, sizes)
        offsets, firsts = self._from(starts)
        return BlockedExtents(self.base, offsets, sizes, self.span, part.smallest, self.owners, firsts)

    def __getitem__(self, places: slice | npt.NDArray[Any]) -> BlockedExtents:
        return _interrupted(super().__getitem__(places), self.firsts[places])

    def tolist(self) -> list[bytes]:
        return [b"".join([view_memory(*piece) for piece in pieces]) for pieces in self._pieces(0, self.sizes)]

    def as_buffer(self) -> tuple[npt.NDArray[np.uint8], Ints, Ints]:
        return self.whole().as_buffer()

    def _take(self, start: int, width: int) -> npt.NDArray[Any]:
        rows = np.arange(self.offsets.size)
        found = np.empty((rows.size, width), np.uint8)
        if width < _SHORT_BYTES:
            offsets, firsts = self._from(start)
            whole = Extents(self.base, offsets, self.sizes, self.span, width, self.owners)
            here, rows = (firsts >= width).nonzero()[0], (firsts < width).nonzero()[0]
            if not rows.size:
                return whole._take(0, width)
            found[here] = whole[here].field(0, np.uint8, width)
        broken = self if rows.size == len(found) else self[rows]
        broken._copy(start, np.full(rows.size, width), rows * width + found.ctypes.data)
        return found

    def _copy(self, start: int, sizes: Ints, targets: Ints) -> None:
        """Copy the ``sizes`` bytes from ``start`` on of each range to an address."""
        for target, pieces in zip(targets.tolist(), self._pieces(start, sizes), strict=True):
            for address, size in pieces:
                memmove(target, address, size)  # without the GIL
                target += size

    def _from(self, starts: Ints | int) -> tuple[Ints, Ints]:
        """Return offsets of places in the ranges, and how many bytes there are from there to the next header."""
        headers = _headers_before(starts, self.firsts)
        left = self.firsts + headers * USABLE_BYTES - starts
        # Behind the last byte before a header, the next byte is the first one behind it.
        at_header = left == 0
        offsets: Ints = self.offsets + starts + BLOCK_HEADER_BYTES * (headers + at_header)
        return offsets, np.where(at_header, USABLE_BYTES, left)

    def _pieces(self, start: int, sizes: Ints) -> list[list[tuple[int, int]]]:
        """Return of each range where the ``sizes`` bytes from ``start`` on are: address and length of every piece."""
        offsets, firsts = self._from(start)
        found = []
        for address, left, here in zip((offsets + self.base).tolist(), sizes.tolist(), firsts.tolist(), strict=True):
            pieces = []
            while left > here:
                pieces.append((address, here))
                address, left, here = address + here + BLOCK_HEADER_BYTES, left - here, USABLE_BYTES
            pieces.append((address, left))
            found.append(pieces)
        return found


def _interrupted(part: Extents, firsts: Ints) -> BlockedExtents:
    """Return ranges as ``part`` has them, with headers in between from ``firsts`` on."""
    return BlockedExtents(part.base, part.offsets, part.sizes, part.span, part.smallest, part.owners, firsts)


def _headers_before(sizes: Ints | int, firsts: Ints) -> Ints:
    """Return how many headers lie before the last of the first ``sizes`` bytes of ranges."""
    headers: Ints = np.maximum(-((firsts - sizes) // USABLE_BYTES), 0)
    return headers
