"""Telling the system which bytes of files will be read soon, so that the disk has many requests to work on.

Whoever reads mapped files page by page waits for each by itself: records of 100 kB, in no order, came at a quarter of what the
disk gives with 32 requests under way. A hint (``madvise`` or ``posix_fadvise``, WILLNEED) starts to read and returns at once;
the pages are in the cache, or on their way to it, when they are touched. It is no promise: nothing fails without it.

Each takes 1 to 4 us where nothing is to be done, so none is given for short records, whose pages the system reads 128 kB
around, nor while a thread's reads all come out of the cache.
"""

from __future__ import annotations

import mmap
import os
import sys
import threading
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

__all__ = ["LEAST_BYTES", "foretell", "hint_file", "hint_memory", "is_due", "is_of_use", "merge_pages"]

Ints = npt.NDArray[np.int64]

#: No hints of shorter stretches. What the system reads around a missing page has four of these; and where all data fit into
#: memory, many short reads take a disk that is slow to begin each longer than a few long ones.
LEAST_BYTES = 1 << 15
#: So many calls without a read from disk, and hints pause until there is one.
_PATIENCE = 32
#: If other records are read than were foretold, it is forgotten after so many.
_MOST_FORETOLD = 1024
_WILL_NEED = 3  # of madvise: the same number on Linux, macOS and the BSDs; Python does not name it everywhere


def is_of_use() -> bool:
    """Return whether hints seem to be of use to this thread: to be asked before each, and before they are worked out."""
    return _reads.come_from_disk()


def foretell(count: int) -> None:
    """Take note that hints were given for so many records which this thread is going to read."""
    _reads.foretold = count + min(_reads.foretold, _MOST_FORETOLD)


def is_due(count: int) -> bool:
    """Return whether to give hints for so many records that are read at once now: not if as many were foretold."""
    if _reads.foretold >= count:
        _reads.foretold -= count
        return False
    _reads.foretold = 0
    return is_of_use()


def hint_memory(addresses: Ints, sizes: Ints) -> int:
    """Let stretches of mapped files be read ahead; return how many bytes they are.

    Never raises. An address that is not mapped does no harm.
    """
    if sys.platform == "win32":
        return 0
    return _hint(addresses, sizes, lambda start, size: _madvise(start, size, _WILL_NEED))


def hint_file(handle: int, starts: Ints, sizes: Ints) -> int:
    """Let stretches of an open file be read ahead, as ``hint_memory`` does."""
    if not hasattr(os, "posix_fadvise"):
        return 0
    return _hint(starts, sizes, lambda start, size: os.posix_fadvise(handle, start, size, os.POSIX_FADV_WILLNEED))


def merge_pages(starts: Ints, sizes: Ints) -> list[tuple[int, int]]:
    """Return the pages that stretches, at least one, lie in: start and length of each run of pages, ascending and apart."""
    order = np.argsort(starts)
    begins, ends = starts[order] // mmap.PAGESIZE, -(-(starts + sizes)[order] // mmap.PAGESIZE)
    ends = np.maximum.accumulate(ends)
    apart = begins[1:] > ends[:-1]
    begins = begins[np.concatenate([[True], apart])] * mmap.PAGESIZE
    ends = ends[np.concatenate([apart, [True]])] * mmap.PAGESIZE
    return list(zip(begins.tolist(), (ends - begins).tolist(), strict=True))


class _Reads(threading.local):
    """Whether this thread's reads come from disk, by what the system counts for it: blocks read, and faults that waited."""

    def __init__(self) -> None:
        self._count = -1
        self._left = 0
        self.foretold = 0

    def come_from_disk(self) -> bool:
        count = _count_reads()
        if count != self._count:
            self._count, self._left = count, _PATIENCE
        self._left -= 1
        return self._left >= 0


_reads = _Reads()


def _hint(starts: Ints, sizes: Ints, advise: Callable[[int, int], object]) -> int:
    try:
        for start, size in merge_pages(starts, sizes):
            advise(start, size)
    except OSError:
        pass  # a file system that takes no hints
    return int(sizes.sum())


if sys.platform != "win32":
    import ctypes
    import resource

    _madvise = ctypes.CDLL(None).madvise
    _madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    #: Linux counts for each thread; elsewhere a busy neighbour costs a few hints too many.
    _WHO = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)

    def _count_reads() -> int:
        usage = resource.getrusage(_WHO)
        return usage.ru_inblock + usage.ru_majflt
else:

    def _count_reads() -> int:
        return 0
