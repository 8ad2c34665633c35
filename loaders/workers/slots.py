"""Who owns which part of an arena: a worker that writes, a user who holds a batch, or nobody.

A slot goes from the free ones to a worker (``allocate``), from there to the user (``lend``), and back when the last array
that looks at it dies. Slots are reused last in, first out: their pages are in place and in the cache.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from .arena import Arena

__all__ = ["Pinning", "Slot", "Slots"]

_log = logging.getLogger("arrayfeed")

#: What is smaller is copied out: 8 us at most, and a batch that somebody keeps holds no slot of whole pages.
_SMALL_BYTES = 64 << 10

#: Memory is page-locked by as much, so that batches a little larger than the last need nothing more.
_PINNED_BYTES = 2 << 20


class Pinning(Protocol):
    """Page-locks memory, for a GPU."""

    def pin(self, address: int, nbytes: int) -> None: ...

    def unpin(self, address: int) -> None: ...


@dataclass(slots=True)
class Slot:
    """A part of the arena: ``size`` bytes from ``start``, of which the first ``touched`` take memory."""

    start: int
    size: int
    touched: int = 0


class _Lent:
    """What the arrays of a batch keep alive, and what keeps their memory alive."""

    __slots__ = ("__array_interface__", "__weakref__", "_slots")

    def __init__(self, slots: Slots, used: int, address: int) -> None:
        self.__array_interface__ = {"data": (address, False), "shape": (used,), "typestr": "|u1", "version": 3}
        self._slots = slots


#: Calls back once no array looks at what is lent any more.
_Loan: TypeAlias = "weakref.ref[_Lent]"


class Slots:
    """Hands out the arena behind ``start``. For one thread at a time; arrays may die in any, in the middle of anything.

    Args:
      arena: Where the slots lie.
      start: First byte that may be used.
      spare: How many unused slots keep their memory; that of further ones is given back.
      limit_bytes: What lent slots may take together; beyond it batches are copied to private memory. None decides by the
        memory there is.
      pinning: Locks the memory of each slot when it is first lent, until that is given back; None locks none.
    """

    def __init__(
        self, arena: Arena, start: int, *, spare: int, limit_bytes: int | None = None, pinning: Pinning | None = None
    ) -> None:
        self._arena = arena
        self._pinning = pinning
        self._end = start
        self._spare = spare
        self._limit_bytes = arena.default_limit() if limit_bytes is None else limit_bytes
        # Address space costs nothing: large enough for the first batch, whatever it is. Once a size is known, slots get
        # smaller, and thousands of them fit.
        self._size = arena.capacity // (1 << max(8, (4 * spare).bit_length()))
        self._smallest = arena.capacity >> 14
        self._largest_seen = 0
        self._warm: list[Slot] = []  # unused, with memory
        self._cold: list[Slot] = []  # unused, without
        self._loans: dict[int, tuple[_Loan, Slot, int]] = {}  # by the reference's id: it, the slot, bytes used
        self._returned: deque[_Loan] = deque()
        self._lock = threading.Lock()
        self._lent_bytes = 0
        self._lent_space = 0
        self._said = False

    @property
    def lent_bytes(self) -> int:
        """Bytes of memory that users hold in slots."""
        with self._lock:
            self._take_back()
        return self._lent_bytes

    def allocate(self) -> Slot:
        """Return a slot for a batch whose size nobody knows yet.

        Raises:
          MemoryError: The arena's address space is used up.
        """
        with self._lock:
            self._take_back()
            if self._warm or self._cold:
                return (self._warm or self._cold).pop()
        slot = Slot(self._end, self._size)
        if slot.start + slot.size > self._arena.capacity:
            raise MemoryError(
                f"no room for a batch of up to {self._size} bytes in {self._arena.capacity} bytes of shared address space; "
                "lower batch_size, prefetch_factor or num_workers, or raise `ulimit -v`"
            )
        self._end += slot.size
        return slot

    def expect(self, nbytes: int) -> None:
        """Note that there are batches of ``nbytes``: slots made from now on hold at least four times that."""
        if nbytes <= self._largest_seen:
            return
        self._largest_seen = nbytes
        size = max(self._smallest, 1 << (4 * nbytes - 1).bit_length())
        if size != self._size:
            with self._lock:
                self._size = size
                for slot in self._warm:
                    self._drop_memory(slot)
                self._warm, self._cold = [], []

    def free(self, slot: Slot, touched: int = 0) -> None:
        """Take a slot back from a worker that wrote at most ``touched`` bytes; one of another size is forgotten."""
        with self._lock:
            slot.touched = max(slot.touched, touched)
            self._free(slot)

    def lend(self, slot: Slot, used: int) -> npt.NDArray[Any]:
        """Return the first ``used`` bytes of a slot, uint8. It is free again once no array looks at them any more.

        Small ones are copied, and so is everything while the user holds more than the limit: that is logged once.
        """
        with self._lock:
            self._take_back()
            slot.touched = max(slot.touched, used)
            full = self._lent_bytes + used > self._limit_bytes or self._lent_space + slot.size > self._arena.capacity // 2
            if not full and used > _SMALL_BYTES:
                self._lent_bytes += used
                self._lent_space += slot.size
                address = self._arena.address + slot.start
                if self._pinning is not None:
                    nbytes = -(-max(used, self._largest_seen) // _PINNED_BYTES) * _PINNED_BYTES
                    slot.touched = max(slot.touched, nbytes)
                    self._pinning.pin(address, nbytes)
                return np.asarray(self._lend(slot, used, address))
        if full and not self._said:
            self._said = True
            _log.warning(
                "the batches held by this process take %d bytes of shared memory, and %d are allowed: further ones are copied "
                "to private memory until some are dropped",
                self._lent_bytes,
                self._limit_bytes,
            )
        copy = self._arena.memory[slot.start : slot.start + used].copy()
        self.free(slot)
        return copy

    def _lend(self, slot: Slot, used: int, address: int) -> _Lent:
        lent = _Lent(self, used, address)
        # Python loses a Ctrl-C that comes while a callback or a ``__del__`` runs, which after every batch is 3 us in which
        # nobody can end the program. So what needs no more than a note, since its memory is kept, is noted by C code.
        is_kept = len(self._loans) < self._spare
        loan = weakref.ref(lent, self._returned.append if is_kept else self._give_back)
        self._loans[id(loan)] = loan, slot, used
        return lent

    def _give_back(self, loan: _Loan) -> None:
        """Take back what was lent, if not right now, then with the next call: a collector's thread may hold the lock."""
        self._returned.append(loan)
        if self._lock.acquire(blocking=False):
            try:
                self._take_back()
            finally:
                self._lock.release()

    def _take_back(self) -> None:
        while self._returned:
            lent = self._loans.pop(id(self._returned.popleft()), None)
            if lent is None:
                continue  # Ctrl-C came before it was noted
            _, slot, used = lent
            self._lent_bytes -= used
            self._lent_space -= slot.size
            self._free(slot)

    def _free(self, slot: Slot) -> None:
        if slot.size != self._size:
            self._drop_memory(slot)
        elif len(self._warm) < self._spare:
            self._warm.append(slot)
        else:
            self._drop_memory(slot)
            self._cold.append(slot)

    def _drop_memory(self, slot: Slot) -> None:
        if self._pinning is not None:
            self._pinning.unpin(self._arena.address + slot.start)
        if slot.touched:
            self._arena.release(slot.start, slot.touched)
            slot.touched = 0
