"""Plain values straight from their payload: what stands packed in a record, without the array that a parser makes of it.

See ``LeafFeature.payload_decoder`` and ``payload_form`` for what is promised. ``PlainCodec`` is the plain version of all this.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..varint import decode_packed
from .dtypes import STRING
from .shapes import Shape

__all__ = ["array_decoder", "list_decoder", "scalar_decoder", "scalar_form"]

_FLOAT32 = np.dtype("<f4")
_UNPACK_FLOAT = struct.Struct("<f").unpack
#: Varints of one byte; there is no such number for a byte that goes on.
_ONE_BYTE = {bytes([number]): number for number in range(128)}
_BOOLS = {b"\x00": False, b"\x01": True}
_HALF = struct.Struct("<e")


def scalar_form(dtype: np.dtype[Any], nbytes: int) -> tuple[str, Callable[[Any], Any] | None] | None:
    """Return ``LeafFeature.payload_form`` of a scalar of ``dtype``."""
    if nbytes == 4 and dtype in (np.float32, np.float64):
        return "f", None
    if nbytes == 1 and dtype.kind in "iu":
        return "1s", _ONE_BYTE.__getitem__
    return ("1s", _BOOLS.__getitem__) if nbytes == 1 and dtype.kind == "b" else None


def scalar_decoder(dtype: np.dtype[Any], bounds: tuple[int, int] | None) -> Callable[[bytes], Any] | None:
    """Return what makes a Python scalar of ``dtype`` from a payload of any length; None for bool.

    Args:
      bounds: Least and greatest value of an integer that is narrower than 64 bits.
    """
    if dtype == STRING:
        return bytes
    if dtype.kind == "f":
        return _read_half if dtype == np.float16 else _read_float
    if dtype.kind == "b":
        return None
    is_signed = dtype != np.uint64  # as it is stored
    low, high = bounds or (-(1 << 63), (1 << 64) - 1)

    def read(payload: bytes) -> int:
        value = shift = 0
        for byte in payload:
            value |= (byte & 127) << shift
            if byte < 128:
                break
            shift += 7
        if shift + 7 != 7 * len(payload) or shift > 63 or value >> 64:
            raise ValueError("not one varint of 64 bits")
        if is_signed and value >> 63:
            value -= 1 << 64
        if not low <= value <= high:
            raise ValueError("out of range")
        return value

    return read


def array_decoder(dtype: np.dtype[Any], count: int, shape: Shape) -> Callable[[bytes], npt.NDArray[Any]] | None:
    """Return what makes a new array of ``shape``, ``count`` values of float32 or float64, from a payload; None for others."""
    if dtype not in (np.float32, np.float64) or count < 1:
        return None

    def read(payload: bytes) -> npt.NDArray[Any]:
        if len(payload) != 4 * count:
            raise ValueError("another number of values")
        # Over memory of its own: a third of the time of a view of the payload that is copied.
        return np.ndarray(shape, _FLOAT32, bytearray(payload))  # type: ignore[arg-type]  # without None

    def widen(payload: bytes) -> npt.NDArray[Any]:
        return read(payload).astype(dtype)

    return read if dtype == np.float32 else widen


def list_decoder(dtype: np.dtype[Any], count: int, shape: Shape) -> Callable[[bytes], list[Any]] | None:
    """Return what makes a list of arrays of ``shape``, or of NumPy scalars, from the payload of all; None for most dtypes."""
    if dtype == np.int64 and not shape:

        def read_ints(payload: bytes) -> list[Any]:
            return list(decode_packed(payload, 0, len(payload)))  # type: ignore[arg-type]  # None raises

        return read_ints
    if dtype != np.float32 or count < 1:
        return None
    nbytes = 4 * count

    def read_floats(payload: bytes) -> list[Any]:
        size, rest = divmod(len(payload), nbytes)
        if rest:
            raise ValueError("no whole number of elements")
        return list(np.ndarray((size, *shape), _FLOAT32, bytearray(payload)))  # type: ignore[arg-type]  # without None

    return read_floats


def _read_float(payload: bytes) -> float:
    value: float = _UNPACK_FLOAT(payload)[0]
    return value


def _read_half(payload: bytes) -> float:
    # Rounded as NumPy rounds, to the nearest, ties to even; what is too large for float16 is an error here and inf there.
    value: float = _HALF.unpack(_HALF.pack(_UNPACK_FLOAT(payload)[0]))[0]
    return value
