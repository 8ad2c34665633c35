"""Files mapped into memory, at the price of no file descriptor.

Python's ``mmap`` keeps a descriptor open for every mapping (until 3.13 lets it be told not to), so a shuffle over a thousand
shards would exceed the usual limit of 1,024, or would have to map and unmap all the time. ``mmap(2)`` itself needs none.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Iterable, Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt

__all__ = ["Region", "lay_side_by_side", "map_file"]

#: Of the largest pages that files are cached in.
_ALIGNMENT = 1 << 21


def map_file(handle: int, size: int) -> npt.NDArray[np.uint8]:
    """Return the bytes of an open file, ``size >= 1``, read-only; the mapping lives as long as the array or a view of it.

    The handle can be closed at once. A file that is cut short afterwards ends the process with SIGBUS where it is touched.

    Raises:
      OSError: The system refuses: no memory for the mapping, or a file that cannot be mapped.
    """
    if sys.platform == "win32":
        return np.frombuffer(mmap.mmap(handle, size, access=mmap.ACCESS_READ), np.uint8)
    return np.asarray(_Mapping(None, size, mmap.PROT_READ, mmap.MAP_SHARED, handle))


class Region:
    """A stretch of addresses for several files, one behind the other, each of which is mapped when it is opened.

    So a place in any of them is one number, whatever the number of files. Threads may share it.

    Each file begins at a multiple of 2 MiB, as it does where the kernel itself chooses: so that large pages of the system's
    cache are mapped as such, and reads at random wait less for page tables.

    Args:
      sizes: Bytes of each file: multiples of the system's pages, as every ArrayRecord file's are.

    Attributes:
      array: All the bytes; read-only. Those of a file that is not mapped yet must not be touched.
      starts: Where in it each file begins, see ``lay_side_by_side``.

    Raises:
      OSError: The system has not so many addresses left, or cannot do this.
      ValueError: A size that does not fill pages.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        if any(size % mmap.ALLOCATIONGRANULARITY or size < 1 for size in sizes):
            raise ValueError("only files that fill whole pages can lie side by side")
        if sys.platform == "win32":
            raise OSError("Windows maps files where it likes")
        *self.starts, end = lay_side_by_side(sizes)
        if end >= 1 << 47:
            raise OSError(f"files of {end} bytes do not fit into the addresses of a process")
        self._sizes = list(sizes)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
        room = np.asarray(_Mapping(None, end + _ALIGNMENT, 0, flags, -1))
        first = -room.ctypes.data % _ALIGNMENT
        self.array = room[first : first + end]

    def map(self, number: int, handle: int, size: int) -> npt.NDArray[np.uint8]:
        """Map a file into its place; elsewhere, if its size is not what it should be. See ``map_file``."""
        if size != self._sizes[number] or sys.platform == "win32":
            return map_file(handle, size)
        start = self.starts[number]
        # Doing so twice puts the same file in the same place.
        _map(self.array.ctypes.data + start, size, mmap.PROT_READ, mmap.MAP_SHARED | _MAP_FIXED, handle)
        return self.array[start : start + size]


def lay_side_by_side(sizes: Iterable[int]) -> list[int]:
    """Return where files of these sizes begin in a region, and where it ends."""
    return [0, *accumulate(-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes)]


class _Mapping:
    """Owns one mapping; NumPy keeps it alive as the base of the array it makes of it."""

    def __init__(self, address: int | None, size: int, access: int, flags: int, handle: int) -> None:
        self._size = size
        self._address: int | None = None
        self._address = _map(address, size, access, flags, handle)
        self.__array_interface__ = {"version": 3, "data": (self._address, True), "shape": (size,), "typestr": "|u1"}

    def __del__(self) -> None:
        if self._address is not None:
            _libc.munmap(self._address, self._size)
            self._address = None


#: The same number on Linux, macOS and the BSDs; Python does not name it.
_MAP_FIXED = 0x10

if sys.platform != "win32":
    _libc = ctypes.CDLL(None, use_errno=True)
    _libc.mmap.restype = ctypes.c_void_p
    _libc.mmap.argtypes = (
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_ssize_t,  # off_t, on every 64-bit system
    )
    _libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)

    def _map(address: int | None, size: int, access: int, flags: int, handle: int) -> int:
        found: int = _libc.mmap(address, size, access, flags, handle, 0)
        if found == ctypes.c_void_p(-1).value:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return found
