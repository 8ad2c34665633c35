"""Many byte ranges anywhere in memory, and the gather that everything fast is built on.

A batch comes from many places: the mappings of several shards, a buffer of decompressed records, another of records that
crossed a block boundary. Addressed as memory they are one thing, and a field of all of them is one indexing operation,
whatever the number of shards. The plain way, a gather and a scatter for each buffer, took 4 times as long for batches of 128
over 4 shards (``tests/benchmarks``).

Addresses are made here alone, from arrays whose bounds were checked, and travel with what owns the memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["MAX_WINDOW_BYTES", "Extents", "copy_bytes", "join_bytes", "view_array", "view_bytes", "view_memory", "window"]

Ints = npt.NDArray[np.int64]

_SHORT_BYTES = 4096
#: All that a process can map: of 64-bit addresses, the systems there are give a process 47 or 48 bits.
_ADDRESSES = 1 << 48
#: NumPy makes no array whose elements, end to end, would take 2**63 bytes.
MAX_WINDOW_BYTES = ((1 << 63) - 1) // _ADDRESSES


class Extents:
    """Byte ranges in memory, for reading: range ``k`` is ``sizes[k]`` bytes from address ``base + offsets[k]``.

    Attributes:
      base: An address below all ranges.
      offsets, sizes: int64, one a range.
      span: Bytes from ``base`` to behind the last range.
      smallest: No range is shorter than this.
      owners: Whatever must live as long as the memory is used.

    A slice of the ranges keeps the bounds of all, so that cutting a batch into small ones checks and derives nothing again. A
    choice of some has its own: the ranges of one size, among others.
    """

    __slots__ = ("_views", "base", "offsets", "owners", "sizes", "smallest", "span")

    def __init__(self, base: int, offsets: Ints, sizes: Ints, span: int, smallest: int, owners: tuple[object, ...]) -> None:
        self.base = base
        self.offsets = offsets
        self.sizes = sizes
        self.span = span
        self.smallest = smallest
        self.owners = owners
        self._views: dict[int, npt.NDArray[Any]] = {}

    @classmethod
    def within(cls, buffer: npt.NDArray[np.uint8], starts: Ints, sizes: Ints) -> Extents:
        """Return ranges of a buffer.

        Raises:
          IndexError: One of them is not within it.
        """
        smallest = int(sizes.min()) if sizes.size else 0
        # Written so that nothing wraps around: sizes are known to be at least 0 before they are subtracted.
        if sizes.size and (smallest < 0 or int(starts.min()) < 0 or (starts > buffer.size - sizes).any()):
            raise IndexError(f"a range reaches out of a buffer of {buffer.size} bytes")
        return cls(buffer.ctypes.data, starts, sizes, buffer.size, smallest, (buffer,))

    @classmethod
    def joined(cls, parts: Sequence[bytes | memoryview]) -> Extents:
        """Return copies of ``parts``, end to end in a buffer of their own."""
        sizes = np.fromiter(map(len, parts), np.int64, len(parts))
        return cls.within(np.frombuffer(b"".join(parts), np.uint8), np.cumsum(sizes) - sizes, sizes)

    @classmethod
    def merged(cls, count: int, parts: Sequence[tuple[Ints, Extents]]) -> Extents:
        """Return ``count`` ranges put together from ``(places, extents)``; every place once."""
        # A part of nothing has no shortest range, and would bound all others by 0.
        parts = [part for part in parts if len(part[1])]
        if not parts:
            return cls.joined([])
        base = min(extents.base for _, extents in parts)
        end = max(extents.base + extents.span for _, extents in parts)
        offsets, sizes = np.zeros(count, np.int64), np.zeros(count, np.int64)
        for places, extents in parts:
            offsets[places] = extents.offsets + (extents.base - base)
            sizes[places] = extents.sizes
        owners = tuple(owner for _, extents in parts for owner in extents.owners)
        whole = Extents(base, offsets, sizes, end - base, min(extents.smallest for _, extents in parts), owners)
        other = next((extents for _, extents in parts if type(extents) is not Extents), None)
        return whole if other is None else other.including(whole, parts)

    def including(self, whole: Extents, parts: Sequence[tuple[Ints, Extents]]) -> Extents:
        """Return ``whole``, which was merged from ``parts``, as ranges of this kind: one of the parts has it."""
        return whole

    def whole(self) -> Extents:
        """Return the ranges, each in one piece, for who looks at addresses: other kinds of ranges are interrupted."""
        return self

    def inner(self, starts: Ints | int, sizes: Ints) -> Extents:
        """Return a part of each range.

        Raises:
          IndexError: A part reaches out of its range.
        """
        smallest = int(sizes.min()) if sizes.size else 0
        if smallest < 0 or np.min(starts, initial=0) < 0 or (starts > self.sizes - sizes).any():
            raise IndexError("a part reaches out of its range")
        return Extents(self.base, self.offsets + starts, sizes, self.span, smallest, self.owners)

    def compact(self) -> Extents:
        """Return copies of the ranges end to end if they are short and of one size, else the ranges as they are.

        Whoever looks at several places of each range waits for memory at every one of them, unless it is brought near in one
        go before: batches of 800-byte records decode twice as fast.
        """
        size = self.smallest
        if not 0 < size <= _SHORT_BYTES or (self.sizes != size).any():
            return self
        near = self.field(0, np.uint8, size).reshape(-1)
        return Extents(near.ctypes.data, np.arange(0, near.size, size), self.sizes, near.size, size, (near,))

    def __len__(self) -> int:
        return self.offsets.size

    def __getitem__(self, places: slice | npt.NDArray[Any]) -> Extents:
        sizes = self.sizes[places]
        smallest = self.smallest if isinstance(places, slice) or not sizes.size else int(sizes.min())
        part = Extents(self.base, self.offsets[places], sizes, self.span, smallest, self.owners)
        part._views = self._views
        return part

    def tolist(self) -> list[bytes]:
        """Return a copy of each range."""
        return list(map(copy_bytes, (self.offsets + self.base).tolist(), self.sizes.tolist()))

    def as_buffer(self) -> tuple[npt.NDArray[np.uint8], Ints, Ints]:
        """Return a buffer, and start and size of every range in it. The buffer spans whatever lies between: touch no more."""
        return np.asarray(_Memory(self.base, self.span, "|u1", self.owners)), self.offsets, self.sizes

    def field(self, start: int, dtype: Any, count: int = 1) -> npt.NDArray[Any]:
        """Return ``count`` values of ``dtype`` at byte ``start`` of every range, shape ``(len(self), count)``, as a copy.

        Memory is seen as one void element at every address, so that NumPy copies each field in one piece, without the GIL
        and without a loop: 6 times faster than an index array over single bytes, for 784 of them.

        Raises:
          IndexError: They reach out of a range.
        """
        dtype = np.dtype(dtype)
        width = dtype.itemsize * count
        if not width or not self.offsets.size:
            return np.empty((self.offsets.size, count), dtype)
        if not 0 <= start <= self.smallest - width:
            raise IndexError(f"{width} bytes at {start} reach out of a range of {self.smallest}")
        found: npt.NDArray[Any] = self._take(start, width).view(dtype).reshape(-1, count)
        return found

    def _take(self, start: int, width: int) -> npt.NDArray[Any]:
        """Return copies of ``width`` bytes at ``start`` of every range, all within them, end to end; at least one."""
        if self.span * width >= 1 << 63:
            return self._copy_each(start, width)
        view = self._views.get(width)
        if view is None:
            view = self._views[width] = np.asarray(_Memory(self.base, self.span - width + 1, f"|V{width}", self.owners))
        found: npt.NDArray[Any] = view[self.offsets + start]
        return found

    def _copy_each(self, start: int, width: int) -> npt.NDArray[np.uint8]:
        """Return ``width`` bytes at ``start`` of every range, all within them, shape ``(len(self), width)``.

        NumPy makes no view whose elements, end to end, would take 2**63 bytes: not of 128 KiB each, from the heap to the
        mappings 2**46 bytes above it. One by one takes up to twice as long.
        """
        found = np.empty((self.offsets.size, width), np.uint8)
        target = found.ctypes.data
        for address in (self.offsets + (self.base + start)).tolist():
            ctypes.memmove(target, address, width)  # without the GIL
            target += width
        return found

    def differing(self, start: int, expected: npt.NDArray[Any], mask: npt.NDArray[Any]) -> npt.NDArray[np.bool_] | None:
        """Return which ranges do not hold ``expected``, words of 8 bytes or of 1, in the bits of ``mask`` at ``start``.

        None if all of them do. Column by column: with one operation on all words NumPy would loop over the few words of
        each range, which takes 4 times as long.

        Raises:
          IndexError: They reach out of a range.
        """
        words = self.field(start, expected.dtype, expected.size)
        result = None
        for column, (value, bits) in enumerate(zip(expected.tolist(), mask.tolist(), strict=True)):
            if bits:
                found = words[:, column] & mask.dtype.type(bits) if bits != np.iinfo(mask.dtype).max else words[:, column]
                differs = found != expected.dtype.type(value & bits)
                if differs.any():
                    result = differs if result is None else result | differs
        return result


def window(start: int, width: int) -> npt.NDArray[np.void]:
    """Return all memory as one void element at every address: element ``a`` is the ``width`` bytes at ``a + start``.

    Made once, it takes a field out of any number of records by their addresses alone, at the price of NumPy's own fancy
    indexing. Whoever indexes it answers for the addresses, and holds what they belong to.

    Args:
      start: ``>= 1``: NumPy takes a pointer of 0 for none, and allocates.
      width: ``1 <= width <= MAX_WINDOW_BYTES``.
    """
    return np.asarray(_Memory(start, _ADDRESSES, f"|V{width}", ()))


class _Memory:
    """What NumPy asks of a foreign array: here a stretch of memory, one element at every address, alive with its owners."""

    def __init__(self, start: int, count: int, dtype: str, owners: tuple[object, ...]) -> None:
        self._owners = owners
        self.__array_interface__ = {
            "version": 3,
            "data": (start, True),
            "shape": (count,),
            "strides": (1,),
            "typestr": dtype,
        }


def view_bytes(address: int, size: int, owner: object) -> memoryview:
    """Return memory, ``size >= 1`` bytes of it, in place; the view keeps ``owner`` alive."""
    return np.asarray(_Memory(address, size, "|u1", (owner,))).data


#: All memory but its first byte, see ``window``. NumPy makes it; indexing a memoryview of it costs a third.
_ALL_BYTES: npt.NDArray[np.uint8] = np.asarray(_Memory(1, (1 << 63) - 1, "|u1", ()))
_EVERYTHING = _ALL_BYTES.data


def view_memory(address: int, size: int) -> memoryview:
    """Return ``size`` bytes from ``address`` on, in place. Whoever asks answers for both, and for how long they last."""
    return _EVERYTHING[address - 1 : address - 1 + size]


def view_array(address: int, size: int) -> npt.NDArray[np.uint8]:
    """Return the same as an array, which takes a third of the time of making one of ``view_memory``."""
    return _ALL_BYTES[address - 1 : address - 1 + size]


def copy_bytes(address: int, size: int) -> bytes:
    """Return ``size`` bytes from ``address`` on. Whoever asks answers for both, and holds what they belong to.

    Takes half the time of ``PyBytes_FromStringAndSize`` through ctypes (whose own ``string_at`` takes a C int, so that of
    2**32 + 5 bytes it gives 5).
    """
    return _EVERYTHING[address - 1 : address - 1 + size].tobytes()


def join_bytes(spans: Iterable[tuple[int, int]], tail: bytes = b"") -> bytearray:
    """Return copies of memory, each from one address to another, end to end, and ``tail`` behind them; see ``copy_bytes``."""
    return bytearray().join([*[_EVERYTHING[start - 1 : stop - 1] for start, stop in spans], tail])
