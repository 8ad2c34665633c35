"""Tensors stored as plain values: each element a value in one of the three lists of a record."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DecodeError, SchemaError
from ..example.wire import WireValues
from .dtypes import STRING, Kind, dtype_name, wire_kind
from .packed import array_decoder, list_decoder, scalar_decoder, scalar_form
from .shapes import Shape, fill_shape
from .values import require

__all__ = ["PlainCodec"]

# Up to so many integers, finding the extremes of a Python list is faster than two reductions of an array.
_FEW = 32


class PlainCodec:
    """Values of one dtype and shape to flat lists and back.

        bool, integers           int64 list (uint64 by its bits)
        float16, 32, 64          float32 list
        strings                  bytes list

    Raises:
      SchemaError: The record has no list for values of ``dtype``.
    """

    def __init__(self, dtype: np.dtype[Any], shape: Shape) -> None:
        kind = wire_kind(dtype)
        if kind is None:
            raise SchemaError(f'{dtype_name(dtype)} values have no plain form; use encoding="bytes"')
        self.kind: Kind = kind
        self._dtype = dtype
        self._shape = shape
        # Wire values in one element; -1, which no list has, if examples differ.
        self._count = -1 if None in shape else math.prod(shape)  # type: ignore[arg-type]  # without None
        # Python's value of what is stored is that of the dtype.
        self._is_exact = dtype in (np.int64, np.float32, np.float64)
        # Bounds of the integers that are narrower than what is stored.
        self._bounds: tuple[int, int] | None = None
        if dtype.kind == "b":
            self._bounds = (0, 1)
        elif dtype.kind in "iu" and dtype.itemsize < 8:
            self._bounds = (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))

    # -- encoding -------------------------------------------------------------------------------------------------

    def encode(self, array: npt.NDArray[Any]) -> WireValues:
        """Return an array of the dtype as a list.

        Raises:
          SchemaError: A float64 is out of float32's range, or too many axes are of unknown length to be read back.
        """
        if self._shape.count(None) > 1:
            raise SchemaError(f'{self._shape.count(None)} axes of unknown length need encoding="bytes" or "zlib"')
        flat = array.reshape(-1)
        if self.kind == "bytes":
            return [item.encode() if isinstance(item, str) else bytes(item) for item in flat.tolist()]
        if self.kind == "int64":
            return flat.view(np.int64) if self._dtype == np.uint64 else flat.astype(np.int64, copy=False)
        with np.errstate(over="ignore"):
            stored = flat.astype(np.float32)
        if self._dtype == np.float64 and (np.isinf(stored) & ~np.isinf(flat)).any():
            raise SchemaError('a float64 beyond the range of float32, in which encoding="none" stores; use "bytes"')
        return stored

    # -- decoding -------------------------------------------------------------------------------------------------

    def decode_scalar(self, values: WireValues) -> Any:
        """Return the one value of a list: bool, int, float or bytes."""
        if type(values) is list:
            if len(values) != 1 or self.kind != "bytes":
                raise DecodeError(f"one value expected, the record has {len(require(values, self.kind))}")
            return values[0]
        numbers: npt.NDArray[Any] = require(values, self.kind)
        if numbers.size != 1:
            raise DecodeError(f"one value expected, the record has {numbers.size}")
        value = numbers.item()
        if self._is_exact:
            return value
        if self._bounds is not None:
            low, high = self._bounds
            if not low <= value <= high:
                raise DecodeError(f"{value} is no {dtype_name(self._dtype)}")
            return value == 1 if self._dtype.kind == "b" else value
        return self.cast(numbers).item()

    def decode(self, values: WireValues) -> npt.NDArray[Any]:
        """Return a list as a new array of the shape."""
        values = require(values, self.kind)
        shape = self._shape if len(values) == self._count else fill_shape(self._shape, len(values))
        return self._new_array(values).reshape(shape)  # type: ignore[arg-type]  # without None

    def payload_decoder(self) -> Callable[[bytes], Any] | None:
        """Return a faster ``decode``, or ``decode_scalar``, of a payload; see ``LeafFeature.payload_decoder``."""
        if self._shape == ():
            return scalar_decoder(self._dtype, self._bounds)
        return array_decoder(self._dtype, self._count, self._shape)

    def list_decoder(self) -> Callable[[bytes], list[Any]] | None:
        """Return a faster ``decode_many`` of a payload, the elements as a list; see ``LeafFeature.list_decoder``."""
        return list_decoder(self._dtype, self._count, self._shape)

    def payload_form(self, nbytes: int) -> tuple[str, Callable[[Any], Any] | None] | None:
        """Return how a scalar in ``nbytes`` is unpacked at once; see ``LeafFeature.payload_form``."""
        return scalar_form(self._dtype, nbytes) if self._shape == () else None

    def decode_many(self, values: WireValues, size: int) -> npt.NDArray[Any]:
        """Return ``size`` elements that are joined in a list as a new array, one axis more than the shape."""
        values = require(values, self.kind)
        if not self._shape and len(values) == size:
            return self._new_array(values)
        shape = fill_shape(self._shape, len(values) // size if size else max(self._count, 0))
        return self._new_array(values).reshape(size, *shape)

    def decode_columns(self, values: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
        """Return n lists of equal length, shape ``(n, count)``, as ``(n, *shape)``; ``None`` if one of them is at fault."""
        if self._dtype == STRING:
            return None
        try:
            return self.cast(values, copy=False).reshape(len(values), *fill_shape(self._shape, values.shape[1]))
        except DecodeError:
            return None  # The record at fault is found, and named, one by one.

    def cast(self, values: npt.NDArray[Any], *, copy: bool = True) -> npt.NDArray[Any]:
        """Return int64 or float32 ``values`` as the dtype.

        Raises:
          DecodeError: An integer is out of the dtype's range.
        """
        if self._bounds is not None:
            low, high = self._bounds
            if values.size <= _FEW:
                few = values.reshape(-1).tolist()
                least, most = (min(few), max(few)) if few else (low, high)
            else:
                least, most = int(values.min()), int(values.max())
            if not low <= least <= most <= high:
                raise DecodeError(f"{least if least < low else most} is no {dtype_name(self._dtype)}")
        elif self._dtype.kind == "u":
            return values.view(np.uint64).copy() if copy else values.view(np.uint64)
        elif self._dtype.itemsize == 2:
            with np.errstate(over="ignore"):
                return values.astype(self._dtype)
        return values.astype(self._dtype, copy=copy)

    def _new_array(self, values: Any) -> npt.NDArray[Any]:
        if self.kind != "bytes":
            return self.cast(values)
        array = np.empty(len(values), object)
        array[:] = values
        return array
