"""A file mapped into memory, at the price of no file descriptor.

Python's ``mmap`` keeps a descriptor open for every mapping (until 3.13 lets it be told not to), so a shuffle over a thousand
shards would exceed the usual limit of 1,024, or would have to map and unmap all the time. ``mmap(2)`` itself needs none.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys

import numpy as np
import numpy.typing as npt

__all__ = ["map_file"]


def map_file(handle: int, size: int) -> npt.NDArray[np.uint8]:
    """Return the bytes of an open file, ``size >= 1``, read-only; the mapping lives as long as the array or a view of it.

    The handle can be closed at once. A file that is cut short afterwards ends the process with SIGBUS where it is touched.

    Raises:
      OSError: The system refuses: no memory for the mapping, or a file that cannot be mapped.
    """
    if sys.platform == "win32":
        return np.frombuffer(mmap.mmap(handle, size, access=mmap.ACCESS_READ), np.uint8)
    return np.asarray(_Mapping(handle, size))


class _Mapping:
    """Owns one mapping; NumPy keeps it alive as the base of the array it makes of it."""

    def __init__(self, handle: int, size: int) -> None:
        self._size = size
        self._address: int | None = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, handle, 0)
        if self._address == ctypes.c_void_p(-1).value:
            self._address = None
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        self.__array_interface__ = {"version": 3, "data": (self._address, True), "shape": (size,), "typestr": "|u1"}

    def __del__(self) -> None:
        if self._address is not None:
            _libc.munmap(self._address, self._size)
            self._address = None


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
