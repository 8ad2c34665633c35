"""A cache in the memory of one process."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...memory import Extents, copy_bytes
from .entries import HEAD
from .store import Bytes, Ints, Store

__all__ = ["MemoryStore"]

#: Entries are written into pieces of this size; memory is taken from the system page by page, as they are written to.
_PIECE_BYTES = 16 << 20


class MemoryStore(Store):
    """Entries in pieces of memory, which the table points into by address; never moved, never freed but all at once."""

    def __init__(self, num_slots: int, max_bytes: int) -> None:
        super().__init__(max_bytes)
        self._table = np.zeros(num_slots, np.int64)
        # Indexing a memoryview gives a Python int at a third of the price of indexing the array.
        self._address_of = self._table.data
        self._pieces: list[Bytes] = []
        self._free = 0
        self._used = 0
        self._descriptions: list[str] = []

    @property
    def used_bytes(self) -> int:
        return self._used

    def filled(self, slots: Ints) -> npt.NDArray[np.bool_]:
        there: npt.NDArray[np.bool_] = self._table[slots] != 0
        return there

    def is_filled(self, slot: int) -> bool:
        return self._address_of[slot] != 0

    def read(self, slot: int) -> bytearray:
        address = self._address_of[slot]
        # Taken after the address: whatever close() does meanwhile, the memory stays as long as this is held.
        pieces = self._held()
        size = HEAD.unpack(copy_bytes(address, HEAD.size))[1]
        entry = bytearray(copy_bytes(address, size))
        del pieces
        return entry

    def gather(self, slots: Ints) -> Extents:
        addresses = self._table[slots]
        owners = (self._held(),)
        base = int(addresses.min())
        offsets = addresses - base
        heads = np.full(slots.size, HEAD.size)
        known = Extents(base, offsets, heads, int(offsets.max()) + HEAD.size, HEAD.size, owners)
        sizes = known.field(8, "<i8")[:, 0]
        return Extents(base, offsets, sizes, int((offsets + sizes).max()), int(sizes.min()), owners)

    def _held(self) -> list[Bytes]:
        pieces = self._pieces
        if not pieces:
            raise ValueError("the cache is closed")
        return pieces

    def append(self, slots: Ints, entries: Bytes, sizes: Ints) -> None:
        with self.lock:
            ends = np.cumsum(sizes)
            keep = np.flatnonzero(self._table[slots] == 0)
            keep = np.sort(keep[np.unique(slots[keep], return_index=True)[1]])
            fits = self._used + np.cumsum(sizes[keep]) <= self.max_bytes
            if not fits.all():
                self.is_full, keep = True, keep[fits]
            if not keep.size:
                return
            taken = int(sizes[keep].sum())
            if not self._pieces or self._free + taken > self._pieces[-1].size:
                self._pieces.append(np.empty(max(_PIECE_BYTES, taken), np.uint8))
                self._free = 0
            piece, start = self._pieces[-1], self._free
            # Whatever a fork cuts off here is lost space, no more: the table comes last.
            self._free += -(-taken // 16) * 16
            self._used += taken
            if keep.size == slots.size:
                piece[start : start + taken] = entries
                at = start + ends - sizes
            else:
                at = start + np.cumsum(sizes[keep]) - sizes[keep]
                for place, number in zip(at.tolist(), keep.tolist(), strict=True):
                    piece[place : place + int(sizes[number])] = entries[int(ends[number] - sizes[number]) : int(ends[number])]
            self._table[slots[keep]] = piece.ctypes.data + at

    def add_template(self, description: str) -> int:
        self._descriptions.append(description)
        return len(self._descriptions) - 1

    def read_template(self, number: int) -> str:
        return self._descriptions[number]

    def count(self, first: int, stop: int) -> int:
        return int(np.count_nonzero(self._table[first:stop]))

    def close(self) -> None:
        with self.lock:
            self._pieces = []  # a new list: readers under way hold the old one
