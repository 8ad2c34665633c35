"""Records that cross a boundary between two blocks of their file, put together, and the copies of them that are kept."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ..memory import Extents, view_memory
from .blocks import BLOCK_BYTES, BLOCK_HEADER_BYTES

__all__ = ["Crossings"]

Ints = npt.NDArray[np.int64]

#: Of 800-byte records 1.3 % cross a boundary: this is enough for the copies of 200,000 of them, and each worker process has its
#: own. Putting one together takes 2 us, looking a copy up next to nothing.
_MAX_KEPT_BYTES = 2 << 20
#: Up to here what stands around the boundary is copied first.
_SHORT_BYTES = 1 << 12
#: So much of them is put together at a time: the arrays that this takes are not given back to the system in between.
_AT_ONCE = 1 << 16
#: From more crossing records than these on, array operations take less than a loop.
_FEW = 16
_BLOCK_BITS = BLOCK_BYTES.bit_length() - 1


class Crossings:
    """Puts together records of files that lie side by side. Threads may share it.

    Only one record that begins in a block runs past its end: the block's number is the key of its copy.

    Args:
      array: The files' bytes; each file is a number of whole blocks.
    """

    def __init__(self, array: npt.NDArray[np.uint8]) -> None:
        self._array = array
        self._base = array.ctypes.data
        # By block, from the last to the first, where the copy is, less the array's address; 0 where there is none. Minus a
        # place, shifted right, counts blocks from behind. Memory is taken as it is written to.
        self._copies = np.zeros(array.size // BLOCK_BYTES, np.int64)
        self._copy_of = self._copies.data
        self._kept: list[object] = []
        self._kept_bytes = 0

    def replace(self, addresses: Ints, rows: Ints, sizes: Callable[[], Ints]) -> tuple[object, ...]:
        """Put the places of copies where those of records are; return what else to hold while looking there.

        Args:
          addresses: Places, where ``rows`` says minus that of a record that crosses a boundary. Copies' are less the address of
            the array.
          sizes: Gives the bytes of each of ``rows``, where they have to be put together.
        """
        if rows.size > _FEW:
            copies = self._copies[addresses[rows] >> _BLOCK_BITS]
            addresses[rows] = np.where(copies, copies, addresses[rows])
            missing = (copies == 0).nonzero()[0]
            return self._add(addresses, rows[missing], sizes()[missing]) if missing.size else ()
        # A batch of 128 has one or two such records, most of them known: 0.3 us each, where array operations take 6 us for all.
        copy_of, absent = self._copy_of, []
        for number, row in enumerate(rows.tolist()):
            copy = copy_of[addresses.item(row) >> _BLOCK_BITS]
            if copy:
                addresses[row] = copy
            else:
                absent.append(number)
        return self._add(addresses, rows[absent], sizes()[absent]) if absent else ()

    def _add(self, addresses: Ints, rows: Ints, sizes: Ints) -> tuple[object, ...]:
        places = addresses[rows]
        copies = (
            self._join_alike(-places, int(sizes[0])) if (sizes == sizes[0]).all() and 0 < sizes[0] <= _SHORT_BYTES else None
        )
        if copies is None:
            ranges = zip(places.tolist(), sizes.tolist(), strict=True)
            copies = Extents.joined([self.join(-place, size) for place, size in ranges])
        addresses[rows] = found = copies.offsets + (copies.base - self._base)
        if not self.has_room(copies.span):
            return copies.owners
        self._kept_bytes += copies.span
        self._kept.append(copies.owners)
        self._copies[places >> _BLOCK_BITS] = found
        return ()

    def _join_alike(self, places: Ints, size: int) -> Extents:
        """Return records of ``size <= _SHORT_BYTES`` bytes, each in two blocks, put together: 0.4 us each, where one by one
        takes 2."""
        here = (BLOCK_BYTES - (places & BLOCK_BYTES - 1)).astype(np.uint16)
        sizes = np.full(places.size, size)
        spans = Extents.within(self._array, places, sizes + BLOCK_HEADER_BYTES)
        joined, columns, step = np.empty((places.size, size), np.uint8), np.arange(size, dtype=np.uint16), _AT_ONCE // size
        for start in range(0, places.size, step):
            rows = slice(start, start + step)
            both = spans[rows].field(0, np.uint8, size + BLOCK_HEADER_BYTES)
            head, tail, is_head = both[:, :size], both[:, BLOCK_HEADER_BYTES:], columns < here[rows, None]
            # Of two values the one that a mask says: in a fifth of the time of np.where.
            joined[rows] = (head ^ tail) & np.negative(is_head.view(np.uint8)) ^ tail
        return Extents.within(joined.reshape(-1), np.arange(0, joined.size, size), sizes)

    def has_room(self, nbytes: int) -> bool:
        """Return whether copies of so many bytes would be kept."""
        return self._kept_bytes + nbytes <= _MAX_KEPT_BYTES

    def join(self, place: int, size: int) -> bytes:
        """Return the bytes of a record, which begins at ``place``."""
        pieces = []
        while size:
            here = min(size, BLOCK_BYTES - place % BLOCK_BYTES)
            pieces.append(view_memory(self._base + place, here))
            place, size = place + here + BLOCK_HEADER_BYTES, size - here
        return b"".join(pieces)
