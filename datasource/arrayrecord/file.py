"""The bytes of one open file, mapped or read; positions are logical, see ``blocks.py``."""

from __future__ import annotations

import errno
import mmap
import os
from abc import ABC, abstractmethod
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..errors import CorruptShardError, DataError, ShardNotFoundError
from ..memory import Extents
from .blocks import BLOCK_BYTES, BLOCK_HEADER_BYTES, USABLE_BYTES, strip_block_headers, to_logical, to_physical

__all__ = ["Io", "ShardFile", "open_file"]

Io = Literal["mmap", "pread"]
Ints = npt.NDArray[np.int64]


class ShardFile(ABC):
    """One open file. Threads may read it; a forked child may go on reading it."""

    def __init__(self, path: str, file_bytes: int) -> None:
        self.path = path
        self.file_bytes = file_bytes

    @abstractmethod
    def read(self, start: int, size: int) -> memoryview:
        """Return ``size`` bytes from a logical position, without block headers; all must lie within the file."""

    @abstractmethod
    def gather(self, starts: Ints, sizes: Ints) -> Extents:
        """Return many such ranges, each contiguous in memory: in place where they are, else copied."""

    @abstractmethod
    def close(self) -> None:
        """Release the file. What was read before stays valid."""


def open_file(path: str, io: Io) -> ShardFile:
    """Open a file.

    Raises:
      ShardNotFoundError: There is none.
      DataError: It is a directory, or the system refuses it.
    """
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError:
        raise ShardNotFoundError("no such file", path) from None
    except IsADirectoryError:
        raise DataError("this is a directory, not a shard; arrayfeed.open() opens directories", path) from None
    except OSError as error:
        hint = "; raise `ulimit -n`" if error.errno in (errno.EMFILE, errno.ENFILE) else ""
        raise DataError(f"cannot be opened: {error.strerror}{hint}", path) from error
    try:
        if os.path.isdir(path):
            raise DataError("this is a directory, not a shard; arrayfeed.open() opens directories", path)
        file_bytes = os.fstat(handle).st_size
        if io == "pread" or file_bytes == 0:
            handle, kept = -1, handle
            return _PreadFile(path, file_bytes, kept)
        return _MappedFile(path, file_bytes, handle)
    finally:
        if handle >= 0:
            os.close(handle)


class _MappedFile(ShardFile):
    """A memory map: nothing is copied, the page cache is the cache.

    Reading a mapped file that somebody truncates meanwhile ends the process with SIGBUS; use ``io="pread"`` where that can
    happen, as on network file systems.
    """

    def __init__(self, path: str, file_bytes: int, handle: int) -> None:
        super().__init__(path, file_bytes)
        self._map = mmap.mmap(handle, file_bytes, access=mmap.ACCESS_READ)
        self._view = memoryview(self._map)
        self._array = np.frombuffer(self._map, np.uint8)

    def read(self, start: int, size: int) -> memoryview:
        physical = start + BLOCK_HEADER_BYTES * (start // USABLE_BYTES + 1)
        if start % USABLE_BYTES + size <= USABLE_BYTES:
            return self._view[physical : physical + size]
        end = to_physical(start + size - 1) + 1
        return memoryview(strip_block_headers(self._view[physical:end], physical))

    def gather(self, starts: Ints, sizes: Ints) -> Extents:
        if starts.size and (int(starts.min()) < 0 or int((starts + sizes).max()) > to_logical(self.file_bytes)):
            raise IndexError(f"a range reaches out of the {self.file_bytes} bytes of {self.path}")
        smallest = int(sizes.min()) if sizes.size else 0
        base, offsets = self._array.ctypes.data, to_physical(starts)
        crossing = np.flatnonzero(starts % USABLE_BYTES + sizes > USABLE_BYTES)
        if not crossing.size:
            return Extents(base, offsets, sizes, self.file_bytes, smallest, (self._array,))
        # 1.3 % of 800-byte records cross a block boundary; those are put together in a buffer of their own.
        joined = self._join(starts[crossing], sizes[crossing])
        lowest = min(base, joined.base)
        end = max(base + self.file_bytes, joined.base + joined.span)
        offsets += base - lowest
        offsets[crossing] = joined.offsets + (joined.base - lowest)
        return Extents(lowest, offsets, sizes, end - lowest, smallest, (self._array, *joined.owners))

    def _join(self, starts: Ints, sizes: Ints) -> Extents:
        ends = np.cumsum(sizes)
        joined = np.empty(int(ends[-1]), np.uint8)
        out, view = joined.data, self._view
        place = 0
        for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
            physical = start + BLOCK_HEADER_BYTES * (start // USABLE_BYTES + 1)
            run = min(BLOCK_BYTES - physical % BLOCK_BYTES, size)
            while True:
                out[place : place + run] = view[physical : physical + run]
                place, size = place + run, size - run
                if not size:
                    break
                physical, run = physical + run + BLOCK_HEADER_BYTES, min(USABLE_BYTES, size)
        return Extents.within(joined, ends - sizes, sizes)

    def close(self) -> None:
        # Arrays and views that callers still hold keep the mapping alive; it goes with the last of them.
        del self._map, self._view, self._array


class _PreadFile(ShardFile):
    """Positioned reads: one copy, no surprise when the file shrinks."""

    def __init__(self, path: str, file_bytes: int, handle: int) -> None:
        super().__init__(path, file_bytes)
        self._handle = handle

    def read(self, start: int, size: int) -> memoryview:
        physical = to_physical(start)
        end = to_physical(start + size - 1) + 1 if size else physical
        data = os.pread(self._handle, end - physical, physical)
        if len(data) < end - physical:
            data += self._read_rest(end - physical - len(data), physical + len(data))
        return memoryview(strip_block_headers(memoryview(data), physical) if end - physical != size else data)

    def _read_rest(self, size: int, physical: int) -> bytes:
        """Return what a short read left, for a signal or a 2 GiB limit ended it; raise if the file did."""
        pieces = []
        while size:
            data = os.pread(self._handle, size, physical)
            if not data:
                raise CorruptShardError(
                    f"the file ends here; it had {self.file_bytes} bytes when it was opened, something cut it meanwhile",
                    self.path,
                    None,
                    physical,
                )
            pieces.append(data)
            size, physical = size - len(data), physical + len(data)
        return b"".join(pieces)

    def gather(self, starts: Ints, sizes: Ints) -> Extents:
        extents = zip(starts.tolist(), sizes.tolist(), strict=True)
        return Extents.joined([self.read(*extent) for extent in extents])

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __del__(self) -> None:
        self.close()
