"""Where in memory the records are that were read before.

Checking a record's chunk costs as much as three reads of it, and asking a thousand shards for a thousand records costs more
than decoding them. So the address of a record is kept once its chunk was checked, if it is stored plain in a mapped file. From
then on a batch, over however many shards, is a look into two arrays.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..memory import Extents

__all__ = ["Places"]

Ints = npt.NDArray[np.int64]

#: Of 800-byte records 1.3 % cross a boundary: this is enough for the copies of 6 million of such records.
_MAX_COPIED_BYTES = 64 << 20


class Places:
    """Addresses and sizes of the records of a source, by their number in it: 16 bytes a record, taken as they are written.

    An address is 0 while nothing is known. A record that crosses a block boundary of its shard is nowhere in one piece; of
    those a copy is kept, up to 64 MiB of them. Past that their address is minus their logical position in the shard.

    Threads may write the same numbers twice; a size is written before its address, which may turn from negative to positive
    and does not change otherwise.
    """

    def __init__(self, count: int) -> None:
        # Side by side: whoever asks for one record waits for memory once, not twice.
        both = np.zeros((count, 2), np.int64)
        self.addresses, self.sizes = both[:, 0], both[:, 1]
        # Indexing a memoryview gives a Python int at a third of the price of indexing the array.
        self.address_of = self.addresses.data
        self.size_of = self.sizes.data
        self._copies: list[object] = []
        self._copied_bytes = 0

    def note(self, numbers: Ints, addresses: Ints, sizes: Ints) -> None:
        """Keep where records are."""
        self.sizes[numbers] = sizes
        self.addresses[numbers] = addresses

    def note_one(self, number: int, address: int, size: int) -> None:
        """Keep where one record is."""
        self.size_of[number] = size
        self.address_of[number] = address

    def keep(self, numbers: Ints, records: Extents) -> None:
        """Keep copies of records that cross a block boundary, if there is room for them."""
        total = int(records.sizes.sum())
        if self._copied_bytes + total <= _MAX_COPIED_BYTES:
            copies = Extents.joined(records.tolist())
            self._copies.append(copies.owners)
            self._copied_bytes += total
            self.addresses[numbers] = copies.offsets + copies.base
