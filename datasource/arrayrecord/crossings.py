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
        self._copy_of = np.zeros(array.size // BLOCK_BYTES, np.int64).data
        self._kept: list[object] = []
        self._kept_bytes = 0

    def replace(self, addresses: Ints, rows: list[int], sizes: Callable[[], Ints]) -> tuple[object, ...]:
        """Put the places of copies where those of records are; return what else to hold while looking there.

        Args:
          addresses: Places, where ``rows`` says minus that of a record that crosses a boundary. Copies' are less the address of
            the array.
          sizes: Gives the bytes of each of ``rows``, where they have to be put together.
        """
        # A batch of 128 has one or two such records, most of them known: 0.3 us each, where array operations take 4 us for all.
        copy_of, missing = self._copy_of, []
        for number, row in enumerate(rows):
            copy = copy_of[addresses.item(row) >> _BLOCK_BITS]
            if copy:
                addresses[row] = copy
            else:
                missing.append(number)
        return self._add(addresses, np.array(rows)[missing], sizes()[missing]) if missing else ()

    def _add(self, addresses: Ints, rows: Ints, sizes: Ints) -> tuple[object, ...]:
        places = addresses[rows]
        copies = Extents.joined([self.join(-place, size) for place, size in zip(places.tolist(), sizes.tolist(), strict=True)])
        addresses[rows] = found = copies.offsets + (copies.base - self._base)
        if self._kept_bytes + copies.span > _MAX_KEPT_BYTES:
            return copies.owners
        self._kept_bytes += copies.span
        self._kept.append(copies.owners)
        for place, copy in zip(places.tolist(), found.tolist(), strict=True):
            self._copy_of[place >> _BLOCK_BITS] = copy
        return ()

    def join(self, place: int, size: int) -> bytes:
        """Return the bytes of a record, which begins at ``place``."""
        pieces = []
        while size:
            here = min(size, BLOCK_BYTES - place % BLOCK_BYTES)
            pieces.append(view_memory(self._base + place, here))
            place, size = place + here + BLOCK_HEADER_BYTES, size - here
        return b"".join(pieces)
