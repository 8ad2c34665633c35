"""A cache in a file, which processes share.

    bytes                     content
    0 .. 63                   magic, number of slots, identity of the source, checksum
    64 .. 64 + 8 * slots      for each slot the byte at which its entry starts; 0 while there is none
    after that                entries, and templates like them, one behind the other as they came

A slot is written after its entry, so whoever sees it finds the entry whole; appending takes a lock on the file. What a killed
process or a power cut leaves half-written has no slot, or fails its checksum, and is read from the source again.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from ...arrayrecord.mapping import map_file
from ...errors import DataError
from ...memory import Extents
from .entries import HEAD, HEAD_BYTES
from .store import Bytes, Ints, Store

__all__ = ["FileStore"]

_MAGIC = b"AFCACHE1"
_HEADER = struct.Struct("<8sQ16s28xI")
_HEADER_BYTES = 64
#: Stands in a template's head where entries have their slot.
_TEMPLATE = (1 << 64) - 1


class FileStore(Store):
    """Entries in a file at ``path``, made if there is none.

    Args:
      num_slots: As many as the file has, if it exists.
      identity: 16 characters; the file's own must be the same.

    Raises:
      DataError: The file is something else, belongs to another source, or cannot be opened for writing.
    """

    def __init__(self, path: str, num_slots: int, max_bytes: int, identity: str) -> None:
        if sys.platform == "win32":
            raise DataError("a cache in a file needs file locks as POSIX has them; leave out the path", path)
        super().__init__(max_bytes)
        self.path = path
        self._start = -(-(_HEADER_BYTES + 8 * max(1, num_slots)) // 16) * 16
        self._open()
        with self._locked_file():
            self._check_header(num_slots, identity)
        # Shared and writable: one aligned 8-byte store is seen by all processes at once or not at all.
        self._table: Ints = np.asarray(np.memmap(self._file, "<i8", "r+", _HEADER_BYTES, (max(1, num_slots),)))
        self._offset_of = self._table.data
        self._checked = np.zeros(num_slots, np.uint8)
        self._checked_of = self._checked.data
        self._mapped: Bytes = np.empty(0, np.uint8)
        self._used = 0

    # -- the file -------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        self.__del__()  # a forked child's copy of its parent's
        try:
            self._file = open(self.path, "r+b" if os.path.exists(self.path) else "x+b", buffering=0)
        except FileExistsError:
            self._file = open(self.path, "r+b", buffering=0)  # another process was faster
        except OSError as error:
            raise DataError(f"the cache cannot be opened: {error.strerror}", self.path) from error
        self._process = os.getpid()

    def _descriptor(self) -> int:
        try:
            return self._file.fileno()
        except ValueError:
            raise ValueError(f"the cache {self.path} is closed") from None

    def _check_header(self, num_slots: int, identity: str) -> None:
        expected = _HEADER.pack(_MAGIC, num_slots, identity.encode(), 0)[:-4]
        expected += struct.pack("<I", _checksum(expected))
        size = os.fstat(self._file.fileno()).st_size
        found = self._file.read(_HEADER_BYTES)
        if size == 0 or (not any(found) and size == self._start):  # the second: its maker was killed between these lines
            self._file.truncate(self._start)
            self._file.seek(0)
            self._file.write(expected)
        elif found[: len(_MAGIC)] != _MAGIC:
            raise DataError("this is no cache; nothing was written to it. Give another path", self.path)
        elif found != expected or size < self._start:
            raise DataError(
                "this cache was filled from another source, from other code, or is damaged; delete it or give another path",
                self.path,
            )

    @contextmanager
    def _locked_file(self) -> Iterator[int]:
        """Hold the file's lock, which excludes other processes; ``lock`` excludes other threads."""
        import fcntl

        if self._process != os.getpid():
            self._open()  # the parent's lock would be this process's own
        handle = self._descriptor()
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield handle
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)

    def _append(self, handle: int, data: bytes | memoryview) -> int | None:
        """Return where ``data`` was written, behind all else; None if the disk does not take it."""
        start = -(-os.fstat(handle).st_size // 16) * 16
        written = 0
        try:
            self._file.seek(start)
            while written < len(data):
                written += self._file.write(data[written:]) or 0
        except OSError:
            self._file.truncate(start)
            self.is_full = True
            return None
        return start

    # -- reading --------------------------------------------------------------------------------------------------

    @property
    def used_bytes(self) -> int:
        if not self._file.closed:
            self._used = os.fstat(self._file.fileno()).st_size - self._start
        return self._used

    def filled(self, slots: Ints) -> npt.NDArray[np.bool_]:
        there: npt.NDArray[np.bool_] = self._table[slots] != 0
        for place in np.flatnonzero(there & (self._checked[slots] == 0)).tolist():
            there[place] = self._check(int(slots[place]))
        return there

    def is_filled(self, slot: int) -> bool:
        return self._offset_of[slot] != 0 and (self._checked_of[slot] != 0 or self._check(slot))

    def _check(self, slot: int) -> bool:
        """Return whether a slot's entry is whole, and remember it; empty the slot if not."""
        entry = self._entry(self._offset_of[slot], slot)
        if entry is None:
            self._offset_of[slot] = 0
            return False
        self._checked_of[slot] = 1
        return True

    def _entry(self, offset: int, slot: int) -> memoryview | None:
        """Return the entry at a byte of the file, None if it is not whole or not of that slot."""
        data = self._map(offset + HEAD_BYTES)
        if not self._start <= offset <= len(data) - HEAD_BYTES:
            return None
        checksum, size, stored_slot, _ = HEAD.unpack_from(data.data, offset)
        data = self._map(offset + size)
        if stored_slot != slot or not HEAD_BYTES <= size <= len(data) - offset:
            return None
        entry = data[offset : offset + size].data
        return entry if _checksum(entry[8:]) == checksum else None

    def _map(self, end: int) -> Bytes:
        """Return the file's bytes, up to ``end`` if it is that long by now."""
        mapped = self._mapped
        if mapped.size < end:
            with self.lock:  # the descriptor of a file that is closed meanwhile may be another's
                handle = self._descriptor()
                size = os.fstat(handle).st_size
                if size > mapped.size:
                    self._mapped = mapped = map_file(handle, size)
        return mapped

    def read(self, slot: int) -> bytearray:
        offset = self._offset_of[slot]
        data = self._mapped
        return bytearray(data[offset : offset + HEAD.unpack_from(data.data, offset)[1]].data)

    def gather(self, slots: Ints) -> Extents:
        offsets = self._table[slots]
        data = self._mapped
        heads = Extents.within(data, offsets, np.full(slots.size, HEAD_BYTES))
        return Extents.within(data, offsets, heads.field(8, "<i8")[:, 0])

    # -- writing --------------------------------------------------------------------------------------------------

    def append(self, slots: Ints, entries: Bytes, sizes: Ints) -> None:
        with self.lock, self._locked_file() as handle:
            ends = np.cumsum(sizes)
            keep = np.flatnonzero(self._table[slots] == 0)
            keep = np.sort(keep[np.unique(slots[keep], return_index=True)[1]])
            fits = self.used_bytes + 16 + np.cumsum(sizes[keep]) <= self.max_bytes
            if not fits.all():
                self.is_full, keep = True, keep[fits]
            if not keep.size:
                return
            data = bytearray().join([entries[ends[k] - sizes[k] : ends[k]].data for k in keep.tolist()])
            at = np.cumsum(sizes[keep]) - sizes[keep]
            with memoryview(data) as view:
                for start, size in zip(at.tolist(), sizes[keep].tolist(), strict=True):
                    struct.pack_into("<Q", data, start, _checksum(view[start + 8 : start + size]))
                written = self._append(handle, view)
            if written is not None:
                self._table[slots[keep]] = written + at

    def add_template(self, description: str) -> int | None:
        body = description.encode()
        with self.lock, self._locked_file() as handle:
            if self.used_bytes + HEAD_BYTES + len(body) + 16 > self.max_bytes:
                self.is_full = True
                return None
            rest = HEAD.pack(0, HEAD_BYTES + len(body), _TEMPLATE, 0)[8:] + body
            return self._append(handle, struct.pack("<Q", _checksum(rest)) + rest)

    def read_template(self, number: int) -> str | None:
        entry = self._entry(number, _TEMPLATE)
        return None if entry is None else bytes(entry[HEAD_BYTES:]).decode(errors="replace")

    def count(self, first: int, stop: int) -> int:
        return int(np.count_nonzero(self._table[first:stop]))

    def close(self) -> None:
        with self.lock:
            self._file.close()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()


def _checksum(data: bytes | memoryview) -> int:
    import google_crc32c

    checksum: int = google_crc32c.value(data if isinstance(data, bytes) else bytes(data))
    return checksum
