"""The bytes of one open file, mapped or read; positions are logical, see ``blocks.py``."""

from __future__ import annotations

import errno
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import CorruptShardError, DataError, ShardNotFoundError
from ..hints import hint_file, hint_memory
from ..memory import Extents
from .blocked import LONG_BYTES, BlockedExtents
from .blocks import BLOCK_HEADER_BYTES, USABLE_BYTES, strip_block_headers, to_logical, to_physical
from .mapping import map_file

__all__ = ["Io", "ShardFile", "open_file"]

Io = Literal["mmap", "pread"]
Ints = npt.NDArray[np.int64]

# Without O_NONBLOCK opening a pipe that nobody writes to waits for ever; for files it means nothing.
_OPEN_FLAGS = os.O_RDONLY | sum(getattr(os, flag, 0) for flag in ("O_BINARY", "O_CLOEXEC", "O_NONBLOCK"))
_DIRECTORY = "this is a directory, not a shard; arrayfeed.open() opens directories"


class ShardFile(ABC):
    """One open file. Threads may read it; a forked child may go on reading it. It is released with the last reference."""

    def __init__(self, path: str, file_bytes: int) -> None:
        self.path = path
        self.file_bytes = file_bytes

    @property
    def mapping(self) -> npt.NDArray[np.uint8] | None:
        """The file's bytes in memory, if they are there."""
        return None

    @abstractmethod
    def read(self, start: int, size: int) -> memoryview:
        """Return ``size`` bytes from a logical position, without block headers; all must lie within the file."""

    @abstractmethod
    def read_raw(self, start: int, stop: int) -> bytes:
        """Return the bytes of the file from one byte to another, both within it, block headers and all."""

    @abstractmethod
    def hint(self, starts: Ints, stops: Ints) -> int:
        """Let the system read ranges, at least one, between logical positions ahead; see ``hint_memory``."""

    @abstractmethod
    def gather(self, starts: Ints, sizes: Ints) -> Extents:
        """Return many ranges from logical positions: in place where each is in one piece, or all are long; else copied.

        Raises:
          IndexError: One reaches out of the file.
        """


#: Maps an open file of so many bytes.
MapFile: TypeAlias = Callable[[int, int], npt.NDArray[np.uint8]]


def open_file(path: str, io: Io, map_file: MapFile = map_file) -> ShardFile:
    """Open a file.

    Raises:
      ShardNotFoundError: There is none.
      DataError: It is a directory, a pipe or a device, or the system refuses it.
    """
    try:
        handle = os.open(path, _OPEN_FLAGS)
    except FileNotFoundError:
        raise ShardNotFoundError("no such file", path) from None
    except IsADirectoryError:
        raise DataError(_DIRECTORY, path) from None
    except OSError as error:
        hint = "; raise `ulimit -n`" if error.errno in (errno.EMFILE, errno.ENFILE) else ""
        raise DataError(f"cannot be opened: {error.strerror}{hint}", path) from error
    try:
        status = os.fstat(handle)
        if stat.S_ISDIR(status.st_mode):
            raise DataError(_DIRECTORY, path)
        if not stat.S_ISREG(status.st_mode):
            raise DataError("this is a pipe, a socket or a device, which cannot be read at random; copy it to a file", path)
        file_bytes = status.st_size
        if io == "pread" or file_bytes == 0:
            file, handle = _PreadFile(path, file_bytes, handle), -1
            return file
        return _MappedFile(path, map_file(handle, file_bytes))
    except OSError as error:
        raise DataError(f'cannot be mapped: {error.strerror}; io="pread" may do', path) from error
    finally:
        if handle >= 0:
            os.close(handle)


class _MappedFile(ShardFile):
    """A memory map: nothing is copied, the page cache is the cache.

    Reading a mapped file that somebody truncates meanwhile ends the process with SIGBUS; use ``io="pread"`` where that can
    happen, as on network file systems.
    """

    def __init__(self, path: str, array: npt.NDArray[np.uint8]) -> None:
        super().__init__(path, array.size)
        self._array = array
        self._view = self._array.data

    @property
    def mapping(self) -> npt.NDArray[np.uint8]:
        return self._array

    def read(self, start: int, size: int) -> memoryview:
        physical = start + BLOCK_HEADER_BYTES * (start // USABLE_BYTES + 1)
        if start % USABLE_BYTES + size <= USABLE_BYTES:
            return self._view[physical : physical + size]
        end = to_physical(start + size - 1) + 1
        return memoryview(strip_block_headers(self._view[physical:end], physical))

    def read_raw(self, start: int, stop: int) -> bytes:
        return self._array[start:stop].tobytes()

    def hint(self, starts: Ints, stops: Ints) -> int:
        begins = to_physical(starts)
        return hint_memory(begins + self._array.ctypes.data, to_physical(stops) - begins)

    def gather(self, starts: Ints, sizes: Ints) -> Extents:
        if starts.size and (int(starts.min()) < 0 or (starts > to_logical(self.file_bytes) - sizes).any()):
            raise IndexError(f"a range reaches out of the {self.file_bytes} bytes of {self.path}")
        whole = starts % USABLE_BYTES + sizes <= USABLE_BYTES
        if whole.all():
            return Extents.within(self._array, to_physical(starts), sizes)
        if sizes.min() >= LONG_BYTES:
            firsts = USABLE_BYTES - starts % USABLE_BYTES
            return BlockedExtents.of(self._array.ctypes.data, to_physical(starts), sizes, firsts, (self._array,))
        # 1.3 % of 800-byte records cross a block boundary; those are put together in a buffer of their own.
        inside, crossing = np.flatnonzero(whole), np.flatnonzero(~whole)
        ranges = zip(starts[crossing].tolist(), sizes[crossing].tolist(), strict=True)
        in_place = Extents.within(self._array, to_physical(starts[inside]), sizes[inside])
        joined = Extents.joined([self.read(*each) for each in ranges])
        return Extents.merged(starts.size, [(inside, in_place), (crossing, joined)])


class _PreadFile(ShardFile):
    """Positioned reads: one copy, no surprise when the file shrinks."""

    def __init__(self, path: str, file_bytes: int, handle: int) -> None:
        super().__init__(path, file_bytes)
        self._handle = handle

    def read(self, start: int, size: int) -> memoryview:
        physical = to_physical(start)
        end = to_physical(start + size - 1) + 1 if size else physical
        data = self.read_raw(physical, end)
        return memoryview(strip_block_headers(memoryview(data), physical) if end - physical != size else data)

    def read_raw(self, start: int, stop: int) -> bytes:
        data = self._pread(stop - start, start)
        return data + self._read_rest(stop - start - len(data), start + len(data)) if len(data) < stop - start else data

    def _pread(self, size: int, physical: int) -> bytes:
        try:
            return os.pread(self._handle, size, physical)
        except OSError as error:
            raise DataError(f"{size} bytes cannot be read: {error.strerror}", self.path, None, physical) from error

    def _read_rest(self, size: int, physical: int) -> bytes:
        """Return what a short read left, for a signal or a 2 GiB limit ended it; raise if the file did."""
        pieces = []
        while size:
            data = self._pread(size, physical)
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

    def hint(self, starts: Ints, stops: Ints) -> int:
        begins = to_physical(starts)
        return hint_file(self._handle, begins, to_physical(stops) - begins)

    def gather(self, starts: Ints, sizes: Ints) -> Extents:
        return Extents.joined([self.read(*each) for each in zip(starts.tolist(), sizes.tolist(), strict=True)])

    def __del__(self) -> None:
        os.close(self._handle)
