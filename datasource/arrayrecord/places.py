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

#: Of 800-byte records 1.3 % cross a boundary: this is enough for the copies of 1.5 million of them, and each
#: worker process has its own.
_MAX_COPIED_BYTES = 16 << 20


class Places:
    """Addresses and sizes of the records of a source, by their number in it: 16 to 24 bytes a record, taken as written.

    An address is 0 while nothing is known, and then never changes its meaning: memory that holds the record as long as the
    source is open. A record that crosses a block boundary of its shard is nowhere in one piece. Of those a copy is kept, up to
    16 MiB of them; of the others it is known where in the shard they start.

    Threads may write the same numbers twice. A size is written before the address.
    """

    def __init__(self, count: int) -> None:
        # Side by side: whoever asks for one record waits for memory once, not twice.
        both = np.zeros((count, 2), np.int64)
        self.addresses, self.sizes = both[:, 0], both[:, 1]
        #: Logical position in its shard of a record in two blocks, else 0.
        self.crossings = np.zeros(count, np.int64)
        # Indexing a memoryview gives a Python int at a third of the price of indexing the array.
        self.address_of = self.addresses.data
        self.size_of = self.sizes.data
        self.crossing_of = self.crossings.data
        self._copies: list[object] = []
        self._copied_bytes = 0

    def note(self, numbers: Ints, addresses: Ints, sizes: Ints) -> None:
        """Keep where records are; an address of less than 0 is minus the logical position of a record in two blocks."""
        self.sizes[numbers] = sizes
        crossing = addresses < 0
        if crossing.any():
            self.crossings[numbers[crossing]] = -addresses[crossing]
            numbers, addresses = numbers[~crossing], addresses[~crossing]
        self.addresses[numbers] = addresses

    def note_one(self, number: int, address: int, size: int) -> None:
        """Keep where one record is, as ``note`` does."""
        self.size_of[number] = size
        if address < 0:
            self.crossings[number] = -address
        else:
            self.address_of[number] = address

    def keep(self, numbers: Ints, records: Extents) -> None:
        """Keep copies of records that cross a block boundary, if there is room for them."""
        total = int(records.sizes.sum())
        if self._copied_bytes + total <= _MAX_COPIED_BYTES:
            copies = Extents.joined(records.tolist())
            self._copies.append(copies.owners)
            self._copied_bytes += total
            self.addresses[numbers] = copies.offsets + copies.base
