"""Records that cross a boundary between two blocks of their file, put together, and the copies of them that are kept."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..memory import Extents, copy_bytes
from .blocks import BLOCK_BYTES, BLOCK_HEADER_BYTES

__all__ = ["Crossings"]

Ints = npt.NDArray[np.int64]

#: Of 800-byte records 1.3 % cross a boundary: this is enough for the copies of 200,000 of them, and each worker process has its
#: own. Putting one together takes 2 us, looking a copy up next to nothing.
_MAX_KEPT_BYTES = 2 << 20


class Crossings:
    """Puts together records of files that lie side by side. Threads may share it.

    Only one record that begins in a block runs past its end: the block's number is the key of its copy.

    Args:
      array: The files' bytes; each file is a number of whole blocks.
    """

    def __init__(self, array: npt.NDArray[np.uint8]) -> None:
        self._array = array
        self._base = array.ctypes.data
        # By block, the address of the copy; 0 where there is none. Memory is taken as it is written to.
        self._address_of = np.zeros(array.size // BLOCK_BYTES + 1, np.int64)
        self._kept: list[object] = []
        self._kept_bytes = 0

    def find(self, places: Ints, sizes: Ints) -> tuple[Ints, tuple[object, ...]]:
        """Return addresses of copies of records, and what else to hold while looking there.

        Args:
          places: Where each record begins; the last in its block to do so.
          sizes: Bytes of each.
        """
        addresses = self._address_of[places // BLOCK_BYTES]
        missing = np.flatnonzero(addresses == 0)
        if not missing.size:
            return addresses, ()
        ranges = zip(places[missing].tolist(), sizes[missing].tolist(), strict=True)
        copies = Extents.joined([self.join(place, size) for place, size in ranges])
        addresses[missing] = copies.offsets + copies.base
        if self._kept_bytes + copies.span > _MAX_KEPT_BYTES:
            return addresses, copies.owners
        self._kept_bytes += copies.span
        self._kept.append(copies.owners)
        self._address_of[places[missing] // BLOCK_BYTES] = addresses[missing]
        return addresses, ()

    def join(self, place: int, size: int) -> bytes:
        """Return the bytes of a record, which begins at ``place``."""
        pieces = []
        while size:
            here = min(size, BLOCK_BYTES - place % BLOCK_BYTES)
            pieces.append(copy_bytes(self._base + place, here))
            place, size = place + here + BLOCK_HEADER_BYTES, size - here
        return b"".join(pieces)
