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
    """One open file. Threads may read it; a forked child may go on reading it.

    What is read again and again is kept as a *place*: the physical start of a range in one block, or minus the logical start of
    one that crosses a block boundary. Ranges turned into places lie within the file, and are not checked again.
    """

    def __init__(self, path: str, file_bytes: int) -> None:
        self.path = path
        self.file_bytes = file_bytes

    @abstractmethod
    def read(self, start: int, size: int) -> memoryview:
        """Return ``size`` bytes from a logical position, without block headers; all must lie within the file."""

    @abstractmethod
    def read_place(self, place: int, size: int) -> bytes:
        """Return ``size`` bytes from a place."""

    @abstractmethod
    def gather_places(self, places: Ints, sizes: Ints) -> Extents:
        """Return many ranges, each contiguous in memory: in place where they are, else copied."""

    def gather(self, starts: Ints, sizes: Ints) -> Extents:
        """Return many ranges from logical positions, each contiguous in memory.

        Raises:
          IndexError: One reaches out of the file.
        """
        if starts.size and (int(starts.min()) < 0 or int((starts + sizes).max()) > to_logical(self.file_bytes)):
            raise IndexError(f"a range reaches out of the {self.file_bytes} bytes of {self.path}")
        return self.gather_places(self.places_of(starts, sizes), sizes)

    def places_of(self, starts: Ints, sizes: Ints) -> Ints:
        """Return the places of ranges, all within the file, given by their logical starts."""
        return np.where(starts % USABLE_BYTES + sizes <= USABLE_BYTES, to_physical(starts), -starts)

    def place_of(self, start: int, size: int) -> int:
        """Return the place of one such range."""
        return to_physical(start) if start % USABLE_BYTES + size <= USABLE_BYTES else -start

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
        self._base = self._array.ctypes.data

    def read(self, start: int, size: int) -> memoryview:
        physical = start + BLOCK_HEADER_BYTES * (start // USABLE_BYTES + 1)
        if start % USABLE_BYTES + size <= USABLE_BYTES:
            return self._view[physical : physical + size]
        end = to_physical(start + size - 1) + 1
        return memoryview(strip_block_headers(self._view[physical:end], physical))

    def read_place(self, place: int, size: int) -> bytes:
        return self._map[place : place + size] if place > 0 else bytes(self.read(-place, size))

    def gather_places(self, places: Ints, sizes: Ints) -> Extents:
        smallest = int(sizes.min()) if sizes.size else 0
        crossing = np.flatnonzero(places <= 0)
        if not crossing.size:
            return Extents(self._base, places, sizes, self.file_bytes, smallest, (self._array,))
        # 1.3 % of 800-byte records cross a block boundary; those are put together in a buffer of their own.
        joined = self._join(-places[crossing], sizes[crossing])
        lowest = min(self._base, joined.base)
        end = max(self._base + self.file_bytes, joined.base + joined.span)
        offsets = places + (self._base - lowest)
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

    def read_place(self, place: int, size: int) -> bytes:
        if place <= 0:
            return bytes(self.read(-place, size))
        data = os.pread(self._handle, size, place)
        return data if len(data) == size else data + self._read_rest(size - len(data), place + len(data))

    def gather_places(self, places: Ints, sizes: Ints) -> Extents:
        ranges = zip(places.tolist(), sizes.tolist(), strict=True)
        return Extents.joined([self.read_place(*each) for each in ranges])

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __del__(self) -> None:
        self.close()
