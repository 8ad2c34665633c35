"""Where in memory the records are that were read before.

Checking a record's chunk costs as much as three reads of it, and asking a thousand shards for a thousand records costs more
than decoding them. So the address of a record is kept once its chunk was checked, if it is stored plain in a mapped file. From
then on a batch, over however many shards, is a look into two arrays.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["Places"]

Ints = npt.NDArray[np.int64]


class Places:
    """Addresses and sizes of the records of a source, by their number in it: 16 bytes a record, taken as they are written.

    An address is 0 while nothing is known, and minus a logical position for a record that crosses a block boundary of its
    shard. Threads may write the same numbers twice; a size is written before its address, and neither ever changes.
    """

    def __init__(self, count: int) -> None:
        self.addresses = np.zeros(count, np.int64)
        self.sizes = np.zeros(count, np.int64)
        # Indexing a memoryview gives a Python int at a third of the price of indexing the array.
        self.address_of = self.addresses.data
        self.size_of = self.sizes.data

    def note(self, numbers: Ints, addresses: Ints, sizes: Ints) -> None:
        """Keep where records are."""
        self.sizes[numbers] = sizes
        self.addresses[numbers] = addresses

    def note_one(self, number: int, address: int, size: int) -> None:
        """Keep where one record is."""
        self.size_of[number] = size
        self.address_of[number] = address
