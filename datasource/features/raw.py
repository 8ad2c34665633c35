"""Tensors stored as their bytes: little-endian, in C order, compressed with zlib or not."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DecodeError
from .dtypes import dtype_name
from .shapes import Shape, fill_shape

__all__ = ["RawCodec"]

# A zlib stream may claim a thousand times its size; what no declared shape bounds stops here.
_MAX_INFLATED_BYTES = 1 << 31


class RawCodec:
    """Arrays of one dtype to bytes and back.

    Args:
      is_compressed: Whether the bytes are zlib's.
    """

    def __init__(self, dtype: np.dtype[Any], shape: Shape, *, is_compressed: bool) -> None:
        self._dtype = dtype
        self._shape = shape
        self._is_compressed = is_compressed
        # Extension dtypes, and single bytes, have no other order.
        self._stored = dtype.newbyteorder("<") if dtype.itemsize > 1 else dtype

    def encode(self, array: npt.NDArray[Any]) -> bytes:
        """Return an array of the dtype as bytes."""
        data = np.ascontiguousarray(array, self._stored).tobytes()
        return zlib.compress(data) if self._is_compressed else data

    def decode(self, data: bytes, shape: Shape | None = None) -> npt.NDArray[Any]:
        """Return the array that ``data`` holds, read-only; of ``shape`` if the declared one does not tell.

        Raises:
          DecodeError: The bytes are too few or too many, cannot be decompressed, or are no values of the dtype.
        """
        shape = self._shape if shape is None else shape
        itemsize = self._dtype.itemsize
        if self._is_compressed:
            known = math.prod(size for size in shape if size is not None) * itemsize
            data = _inflate(data, _MAX_INFLATED_BYTES if None in shape else known)
        count, rest = divmod(len(data), itemsize)
        if rest:
            raise DecodeError(f"{len(data)} bytes are no whole number of {dtype_name(self._dtype)} values")
        filled = fill_shape(shape, count)
        array = np.frombuffer(data, self._stored)
        if self._dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
            raise DecodeError("a byte that is neither 0 nor 1 in bool values")
        try:
            return array.reshape(filled)
        except ValueError:
            raise DecodeError(f"no array can have shape {filled}") from None

    def payload_decoder(self) -> Callable[[bytes], npt.NDArray[Any]]:
        """Return the function that is fastest to decode the bytes of many arrays; see ``LeafFeature.payload_decoder``."""
        shape, dtype = self._shape, self._stored
        if self._is_compressed or None in shape or 0 in shape or dtype.kind == "b":
            return self.decode
        nbytes = math.prod(shape) * dtype.itemsize  # type: ignore[arg-type]  # without None

        def look(payload: bytes) -> npt.NDArray[Any]:
            if len(payload) != nbytes:
                raise DecodeError(f"{nbytes} bytes expected")
            return np.ndarray(shape, dtype, payload)  # type: ignore[arg-type]  # without None

        return look

    def decode_columns(self, values: npt.NDArray[np.uint8]) -> npt.NDArray[Any] | None:
        """Return n stored values, uint8 of shape ``(n, nbytes)``, as a view ``(n, *shape)``; ``None`` if it cannot be."""
        if self._is_compressed or values.shape[1] % self._dtype.itemsize:
            return None
        if self._dtype.kind == "b" and values.size and values.max() > 1:
            return None
        try:
            return values.view(self._stored).reshape(
                len(values), *fill_shape(self._shape, values.shape[1] // self._dtype.itemsize)
            )
        except DecodeError:
            return None  # The record at fault is found, and named, one by one.


def _inflate(data: bytes, limit: int) -> bytes:
    """Return zlib-compressed ``data`` as it was; makes no more than ``limit + 1`` bytes of it, nor 2 GiB."""
    limit = min(limit, _MAX_INFLATED_BYTES)
    stream = zlib.decompressobj()
    try:
        inflated = stream.decompress(data, limit + 1)
    except zlib.error as error:
        raise DecodeError(f"zlib-compressed bytes expected: {error}") from None
    if len(inflated) > limit:
        raise DecodeError(f"{len(data)} zlib-compressed bytes grow beyond the {limit} that the shape allows")
    if not stream.eof:
        raise DecodeError(f"zlib-compressed bytes are cut short after {len(data)}")
    return inflated
