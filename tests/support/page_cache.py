"""What of a file is in the system's page cache, and how to get it out of there."""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

__all__ = ["drop", "resident", "wait_for_pages"]

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def drop(*paths: Path) -> None:
    """Write files to the disk and drop them from the page cache; skip the test where their file system has no disk."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
        if path.stat().st_size and resident(path).all():
            pytest.skip(f"{path} stays in memory: its file system is no disk's")


def resident(path: Path) -> npt.NDArray[np.bool_]:
    """Return for each page of a file whether it is in the page cache, or on its way there."""
    size = path.stat().st_size
    told = ctypes.create_string_buffer(-(-size // mmap.PAGESIZE))
    with path.open("rb") as file:
        address = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
    assert _libc.mincore(address, size, told) == 0
    _libc.munmap(address, size)
    return (np.frombuffer(told.raw, np.uint8) & 1).astype(np.bool_)


def wait_for_pages(path: Path, pages: npt.NDArray[np.int64]) -> bool:
    """Return whether pages of a file come into the cache within 20 s."""
    end = time.monotonic() + 20
    while not resident(path)[pages].all():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
