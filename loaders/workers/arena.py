"""Memory that processes share, without a name and without a bound set by ``/dev/shm``.

The arena is a sparse file of a terabyte, mapped once by everybody. Only pages that were written to take memory, so that a
part of it can be handed out without knowing how large a batch will be, and nothing is ever mapped or opened again.

The file is a memfd where there is one; else a file in ``TMPDIR`` that was unlinked before anything was written. Either way
it is gone with the last process that maps it, however that one ends.
"""

from __future__ import annotations

import errno
import mmap
import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Arena"]

# Address space is limited by ``ulimit -v`` here and there, and to 512 GB on some ARM boards.
_CAPACITIES = (1 << 40, 1 << 37, 1 << 34, 1 << 31)


class Arena:
    """One shared mapping. Not picklable: a child inherits ``fd`` and maps it again. Unmapped with the last array that uses it.

    Attributes:
      fd: The file; closed by ``close``, which the mapping survives.
      capacity: Bytes of address space, a power of two.
      in_memory: Whether it is a memfd; else it is backed by a disk, which can be full.
      memory: All of it, uint8 of shape ``[capacity]``; zero until written.
      address: Where that begins in this process.
    """

    def __init__(self, fd: int, capacity: int, in_memory: bool) -> None:
        self.fd = fd
        self.capacity = capacity
        self.in_memory = in_memory
        self._map = mmap.mmap(fd, capacity)
        self._pid = os.getpid()
        self._finalizer = weakref.finalize(self, os.close, fd)
        self.memory: npt.NDArray[np.uint8] = np.frombuffer(self._map, np.uint8)
        self.address: int = self.memory.ctypes.data

    @classmethod
    def create(cls, *, use_memfd: bool = True) -> Arena:
        """Return a new arena, as large as the system lets a file and a mapping be.

        Raises:
          OSError: Not even 2 GB of address space are to be had.
        """
        in_memory = use_memfd and hasattr(os, "memfd_create")
        fd = os.memfd_create("arrayfeed") if in_memory else _open_unlinked()
        for capacity in _CAPACITIES:
            try:
                os.ftruncate(fd, capacity)
                return cls(fd, capacity, in_memory)
            except (OSError, OverflowError, ValueError) as error:
                refusal = error
                if isinstance(error, OSError) and error.errno == errno.EMFILE:  # the mapping takes another one
                    os.close(fd)
                    raise
        os.close(fd)
        raise OSError(
            f"{_CAPACITIES[-1]} bytes of shared address space are refused ({refusal}); raise `ulimit -v` and `ulimit -f`, or "
            'use worker_type="thread"'
        )

    def reserve(self, start: int, nbytes: int) -> None:
        """Make sure that a part can be written to: on a full disk, writing to a mapping is death by SIGBUS.

        Raises:
          OSError: The disk is full.
        """
        if not self.in_memory and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self.fd, start, nbytes)

    def release(self, start: int, nbytes: int) -> None:
        """Give the memory of a part back to the system, where it can be done; it reads as zeros then.

        Not in a forked child, which drops its copies of arrays that its parent goes on reading.
        """
        if hasattr(mmap, "MADV_REMOVE") and os.getpid() == self._pid:
            self._map.madvise(mmap.MADV_REMOVE, start, -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE)

    def copy_on_write(self, start: int, nbytes: int) -> npt.NDArray[Any]:
        """Return a private, writable mapping of a part, uint8 of shape ``[nbytes]``: pages are shared until written to."""
        return np.frombuffer(mmap.mmap(self.fd, nbytes, access=mmap.ACCESS_COPY, offset=start), np.uint8)

    def default_limit(self) -> int:
        """Return how many bytes batches may take in it: half of this machine's (or container's) memory, or of the free disk."""
        if not self.in_memory:
            import shutil
            import tempfile

            return shutil.disk_usage(tempfile.gettempdir()).free // 2
        limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
        for name in ("memory.max", "memory/memory.limit_in_bytes"):  # cgroup v2, v1
            path = Path("/sys/fs/cgroup") / name
            if path.exists() and (text := path.read_text().strip()).isdigit():
                limits.append(int(text))
        return min(limits) // 2

    def close(self) -> None:
        """Close the file. May be called twice; the memory stays for as long as there are arrays in it."""
        self._finalizer()
        self.fd = -1


def _open_unlinked() -> int:
    import tempfile

    fd, path = tempfile.mkstemp(prefix="arrayfeed-")
    os.unlink(path)
    return fd
