"""Arrays in ``.npy`` and ``.npz`` files, mapped into memory, from files that nobody vouches for."""

from __future__ import annotations

import math
import os
import struct
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from .arrayrecord.mapping import map_file
from .errors import CorruptShardError, DataError, ShardNotFoundError

if TYPE_CHECKING:
    import zipfile

__all__ = ["guarded", "open_npy", "open_npz", "open_raw", "read_npy_header"]

T = TypeVar("T")
#: The first axis varies slowest ("C"), or fastest.
Order: TypeAlias = Literal["C", "F"]

#: A compressed member larger than this many times its stored size was not made by deflate.
_MAX_DEFLATE_RATIO = 1032
_LOCAL_HEADER = struct.Struct("<26xHH")
_HEADERS: dict[tuple[int, int], Callable[..., tuple[tuple[int, ...], bool, np.dtype[Any]]]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
#: NumPy reads a header with ``ast.literal_eval``, which counts its depth in a place that all threads of an interpreter
#: share: two at once now and then raise SystemError, "AST constructor recursion depth mismatch" (CPython gh-106905).
_PARSING = threading.Lock()


def open_npy(path: str) -> npt.NDArray[Any]:
    """Return the array in a ``.npy`` file, read-only and mapped: nothing is read but its header.

    Raises:
      ShardNotFoundError: There is no such file.
      DataError: It cannot be opened, or holds Python objects, whose loading would run code.
      CorruptShardError: It is no ``.npy`` file, or shorter than its header says.
    """
    return guarded(path, lambda: _open_whole(path))


def _open_whole(path: str) -> npt.NDArray[Any]:
    with open(path, "rb") as file:
        shape, fortran_order, dtype = read_npy_header(file, os.path.getsize(path))
        return _map(path, dtype, file.tell(), shape, "F" if fortran_order else "C")


def open_npz(path: str) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a ``.npz`` file by name, read-only: mapped as ``savez`` stores them, read if compressed.

    Raises:
      ShardNotFoundError, DataError, CorruptShardError: As ``open_npy``; messages name the member.
    """
    import zipfile

    with guarded(path, lambda: zipfile.ZipFile(path)) as archive:
        members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
        if not members:
            raise DataError(f"there is no array in this archive, only {archive.namelist()[:5]}", path)
        return {
            info.filename.removesuffix(".npy"): guarded(f"{path}:{info.filename}", partial(_open, archive, info))
            for info in members
        }


def open_raw(path: str, *, dtype: np.dtype[Any], offset: int, shape: tuple[int, ...], order: Order) -> npt.NDArray[Any]:
    """Return an array that lies in a file from byte ``offset`` on, read-only and mapped.

    Raises:
      ShardNotFoundError, DataError, CorruptShardError: As ``open_npy``.
    """
    return guarded(path, lambda: _map(path, dtype, offset, shape, order))


def _map(path: str, dtype: np.dtype[Any], offset: int, shape: tuple[int, ...], order: Order) -> npt.NDArray[Any]:
    if 0 in shape:
        return np.empty(shape, dtype)  # of no bytes there is no mapping
    if offset + math.prod(shape) * dtype.itemsize > os.path.getsize(path):
        raise ValueError(f"{dtype} of shape {shape} from byte {offset} on reaches past its {os.path.getsize(path)} bytes")
    with open(path, "rb") as file:
        # Not np.memmap, which keeps a file descriptor open for each mapping.
        data = map_file(file.fileno(), os.fstat(file.fileno()).st_size)
    return np.ndarray(shape, dtype, data, offset, order=order)


def _open(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> npt.NDArray[Any]:
    if info.flag_bits & 1:
        raise ValueError("it is encrypted")
    path = os.fspath(str(archive.filename))
    if not info.compress_type:  # ZIP_STORED
        with open(path, "rb") as file:
            file.seek(info.header_offset)
            name_bytes, extra_bytes = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
            file.seek(name_bytes + extra_bytes, os.SEEK_CUR)
            shape, fortran_order, dtype = read_npy_header(file, info.file_size)
            return _map(path, dtype, file.tell(), shape, "F" if fortran_order else "C")
    if info.file_size > (info.compress_size + 64) * _MAX_DEFLATE_RATIO:
        raise ValueError(f"it claims {info.file_size} bytes, which {info.compress_size} compressed ones cannot hold")
    with archive.open(info) as member:
        shape, fortran_order, dtype = read_npy_header(member, info.file_size)
        data = member.read()
    if len(data) < math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{dtype} of shape {shape} needs more than the {len(data)} bytes that follow its header")
    return np.ndarray(shape, dtype, data, order="F" if fortran_order else "C")  # of bytes: read-only


def read_npy_header(file: IO[bytes], size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, order and dtype of the array whose ``size`` bytes, header included, start here; stop behind the header."""
    start = file.tell()
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"version {version} of the format is not known here")
    with _PARSING:
        shape, fortran_order, dtype = _HEADERS[version](file)
    expected = file.tell() - start + math.prod(shape) * dtype.itemsize
    if dtype.hasobject:
        raise _ObjectsError("it holds Python objects, and loading those can run any code")
    if min(shape, default=0) < 0 or expected > size:
        raise ValueError(f"its header says {dtype} of shape {shape}, which takes {expected} bytes; it has {size}")
    return shape, fortran_order, dtype


class _ObjectsError(ValueError):
    pass


def guarded(path: str, read: Callable[[], T]) -> T:
    """Return what ``read`` gives; whatever NumPy and zipfile say of a damaged file becomes an error that names it."""
    try:
        return read()
    except DataError:
        raise
    except FileNotFoundError:
        raise ShardNotFoundError("no such file", path) from None
    except OSError as error:
        raise DataError(f"cannot be opened: {error.strerror or error}", path) from error
    except _ObjectsError:
        raise DataError(
            "it holds Python objects, and loading those can run any code; store numbers or strings instead", path
        ) from None
    except Exception as error:
        raise CorruptShardError(
            f"no whole {Path(path).suffix or 'NumPy'} file: {error}. It was cut short, is damaged or is something else", path
        ) from error
