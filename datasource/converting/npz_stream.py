"""The rows of the arrays in a compressed ``.npz`` file, one after the other, none of them kept."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ..npy import guarded, read_npy_header

__all__ = ["NpzStream"]

Array = npt.NDArray[Any]
#: A compressed member larger than this many times its stored size was not made by deflate.
_MAX_DEFLATE_RATIO = 1032
_PIECE_BYTES = 1 << 20


class NpzStream:
    """Reads a compressed file from its beginning to its end. Pickles.

    Attributes:
      length: Rows of every array.
      arrays: By name an array of no memory, of each one's dtype and shape.

    Raises:
      ShardNotFoundError, CorruptShardError, DataError: As ``open_npz``.
      ValueError: The arrays differ in length, or one lies in column order, whose rows come last.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.arrays: dict[str, Array] = {}
        with guarded(path, lambda: zipfile.ZipFile(path)) as archive:
            for info in archive.infolist():
                if info.filename.endswith(".npy"):
                    name = info.filename.removesuffix(".npy")
                    self.arrays[name] = guarded(f"{path}:{info.filename}", partial(_describe, archive, info))
        lengths = {name: len(array) for name, array in self.arrays.items()}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"{path}: the arrays differ in length ({lengths}); element i is row i of each")
        self.length = next(iter(lengths.values()))

    @staticmethod
    def is_needed(path: str) -> bool:
        """Whether an array in the file is compressed, so that none of its rows can be had without those before it."""
        with guarded(path, lambda: zipfile.ZipFile(path)) as archive:
            return any(info.compress_type != zipfile.ZIP_STORED for info in archive.infolist())

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield each row of all arrays.

        The file is read twice: whether what was inflated is what was stored is known at its end only.

        Raises:
          CorruptShardError: It is damaged; names the member.
        """
        self._check()
        with ExitStack() as stack:
            archive = stack.enter_context(guarded(self.path, lambda: zipfile.ZipFile(self.path)))
            members: dict[str, IO[bytes]] = {}
            for name in self.arrays:
                member = stack.enter_context(archive.open(f"{name}.npy"))
                read_npy_header(member, archive.getinfo(f"{name}.npy").file_size)
                members[name] = member
            for _ in range(self.length):
                yield {
                    name: guarded(f"{self.path}:{name}.npy", partial(_read_row, member, self.arrays[name]))
                    for name, member in members.items()
                }

    def _check(self) -> None:
        with guarded(self.path, lambda: zipfile.ZipFile(self.path)) as archive:
            for name in self.arrays:
                guarded(f"{self.path}:{name}.npy", partial(_read_through, archive, f"{name}.npy"))


def _read_through(archive: zipfile.ZipFile, name: str) -> None:
    with archive.open(name) as member:
        while member.read(_PIECE_BYTES):
            pass


def _describe(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    if info.flag_bits & 1:
        raise ValueError("it is encrypted")
    if info.file_size > (info.compress_size + 64) * _MAX_DEFLATE_RATIO:
        raise ValueError(f"it claims {info.file_size} bytes, which {info.compress_size} compressed ones cannot hold")
    with archive.open(info) as member:
        shape, fortran_order, dtype = read_npy_header(member, info.file_size)
    if not shape:
        raise ValueError("a row for each element expected, it has none")
    if fortran_order and len(shape) > 1:
        raise ValueError("it lies in column order, in which every row is all over it; save it in C order")
    return np.broadcast_to(np.zeros((), dtype), shape)


def _read_row(member: IO[bytes], array: Array) -> Any:
    shape = array.shape[1:]
    num_bytes = math.prod(shape) * array.dtype.itemsize
    data = member.read(num_bytes)
    if len(data) < num_bytes:
        raise ValueError("it is shorter than its header says")
    row = np.frombuffer(data, array.dtype, math.prod(shape)).reshape(shape)
    if array.dtype.kind in "US":
        return row.astype(object) if shape else row.item()
    return row if shape else row[()]
