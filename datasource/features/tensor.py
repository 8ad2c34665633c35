"""Arrays and scalars of any dtype, stored as plain values, raw bytes or zlib-compressed bytes."""

from __future__ import annotations

import math
import zlib
from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from ..errors import DecodeError, SchemaError
from ..example.wire import WireValues
from .base import Json, LeafFeature, Shape, require
from .checks import check_shape, shape_to_json, to_array
from .dtypes import STRING, as_dtype, dtype_name, wire_kind

__all__ = ["Encoding", "Tensor"]

Encoding: TypeAlias = Literal["none", "bytes", "zlib"]

# A zlib stream may claim a thousand times its size; what no declared shape bounds stops here.
_MAX_INFLATED_BYTES = 1 << 31


class Tensor(LeafFeature):
    """An array of fixed dtype; axes may differ between examples where ``shape`` says ``None``.

        encoding   stored as                                        decoded as
        "none"     ints and bools: int64 list; floats: float32      a new array; Python scalar (or bytes) for shape ()
                   list; strings: bytes list
        "bytes"    one value: little-endian, C order                a read-only array
        "zlib"     the same, compressed                             a read-only array

    ``"none"`` keeps float64 to float32's precision only; ``"bytes"`` keeps every bit. Two or more axes of unknown length
    need ``"bytes"`` or ``"zlib"``, and so do complex numbers, bfloat16 and the like. Strings need ``"none"``.

    Args:
      minimum, maximum: Bounds of the values, for readers of the schema; not checked.
      optional: ``None`` may be written and read.
    """

    json_class = "tensor_feature.Tensor"
    content_key = "tensor"

    def __init__(
        self,
        *,
        shape: Shape,
        dtype: npt.DTypeLike,
        encoding: Encoding = "none",
        minimum: int | None = None,
        maximum: int | None = None,
        optional: bool = False,
        description: str = "",
        value_range: str = "",
    ) -> None:
        super().__init__(description=description, value_range=value_range)
        self._shape = check_shape(shape)
        self._dtype = as_dtype(dtype)
        self.encoding = encoding
        self.minimum = minimum
        self.maximum = maximum
        self.optional = optional
        unknown = self._shape.count(None)
        self._rest = math.prod(size for size in self._shape if size is not None)
        if encoding not in get_args(Encoding):
            raise SchemaError(f"encoding must be one of {get_args(Encoding)}, got {encoding!r}")
        if encoding == "none":
            kind = wire_kind(self._dtype)
            if kind is None:
                raise SchemaError(f'{dtype_name(self._dtype)} values have no plain form; use encoding="bytes"')
            self._kind = kind
            self.parts = {"": kind}
            self.counts = (None if unknown else self._rest,)
        else:
            if self._dtype == STRING:
                raise SchemaError('strings have no raw bytes; use encoding="none"')
            if unknown > 1:
                self.parts, self.counts = {"/shape": "int64", "/value": "bytes"}, (len(self._shape), 1)
            else:
                self.parts = {"": "bytes"}
        # A bool's bytes must be looked at: some are no bool.
        self.stored_raw = len(self.parts) == 1 and (
            (encoding == "bytes" and self._dtype.kind != "b") or (encoding == "none" and self._dtype == np.float32)
        )
        self._is_scalar = encoding == "none" and not self._shape
        # Wire values that are decoded values already, and the integers that need no array to be checked.
        self._is_exact = self._dtype in (np.int64, np.float32, np.float64)
        self._bounds = _narrow_bounds(self._dtype)

    @property
    def shape(self) -> Shape:
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._dtype

    @property
    def is_plain(self) -> bool:
        """Whether the record has the values themselves, not bytes that encode them."""
        return self.encoding == "none"

    # -- encoding -------------------------------------------------------------------------------------------------

    def encode(self, value: Any) -> WireValues:
        array = to_array(value, self._dtype, self._shape)
        if self.encoding != "none":
            data = np.ascontiguousarray(array, self._dtype.newbyteorder("<")).tobytes()
            return [data if self.encoding == "bytes" else zlib.compress(data)]
        if self._shape.count(None) > 1:
            raise SchemaError(f'{self._shape.count(None)} axes of unknown length need encoding="bytes" or "zlib"')
        return self._encode_plain(array)

    def _encode_plain(self, array: npt.NDArray[Any]) -> WireValues:
        flat = array.reshape(-1)
        if self._kind == "bytes":
            return [item.encode() if isinstance(item, str) else bytes(item) for item in flat.tolist()]
        if self._kind == "int64":
            return flat.view(np.int64) if self._dtype == np.uint64 else flat.astype(np.int64, copy=False)
        with np.errstate(over="ignore"):
            stored = flat.astype(np.float32)
        if self._dtype == np.float64 and (np.isinf(stored) & ~np.isinf(flat)).any():
            raise SchemaError('a float64 beyond the range of float32, in which encoding="none" stores; use "bytes"')
        return stored

    def encode_parts(self, value: Any) -> tuple[WireValues, ...]:
        if len(self.parts) == 1:
            return (self.encode(value),)
        array = to_array(value, self._dtype, self._shape)
        return np.array(array.shape, np.int64), self.encode(array)

    def encode_many(self, elements: Any) -> tuple[WireValues, ...]:
        if self.encoding != "none":
            return super().encode_many(elements)
        if len(elements) == 0:
            elements = np.empty((0, *(size or 0 for size in self._shape)), self._dtype)
        return (self._encode_plain(to_array(elements, self._dtype, (None, *self._shape))),)

    # -- decoding -------------------------------------------------------------------------------------------------

    def decode(self, values: WireValues) -> Any:
        if self._is_scalar:
            return self._decode_scalar(values)
        if self.encoding != "none":
            (data,) = self._single(values)
            return self._from_bytes(data, self._shape)
        values = require(values, self._kind)
        shape = self._fit(len(values))
        if isinstance(values, list):
            array = np.empty(len(values), object)
            array[:] = values
            return array.reshape(shape)
        return self._cast(values).reshape(shape)

    def decode_parts(self, parts: tuple[WireValues, ...]) -> Any:
        if len(parts) == 1:
            return self.decode(parts[0])
        shape = tuple(require(parts[0], "int64").tolist())
        fits = len(shape) == len(self._shape) and all(
            size >= 0 and expected in (None, size) for size, expected in zip(shape, self._shape, strict=True)
        )
        if not fits:
            raise DecodeError(f"shape {self._shape} expected, the record says {shape}")
        (data,) = self._single(parts[1])
        return self._from_bytes(data, shape)

    def decode_many(self, parts: tuple[WireValues, ...], size: int) -> Any:
        if self.encoding != "none":
            return super().decode_many(parts, size)
        values = require(parts[0], self._kind)
        shape = self._fit(len(values) // size if size else self._rest)
        if isinstance(values, list):
            array = np.empty(len(values), object)
            array[:] = values
        else:
            array = self._cast(values)
        return array.reshape(size, *shape)

    def join(self, elements: Any) -> Any:
        if len(self.parts) > 1 and elements and all(array.shape == elements[0].shape for array in elements):
            return np.asarray(elements)  # As tfds.data_source has it; it cannot read other sequences of these.
        return super().join(elements)

    def decode_columns(self, values: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
        n, size = values.shape
        if self.encoding == "zlib" or len(self.parts) > 1 or self._dtype == STRING:
            return None
        if self.encoding == "bytes":
            itemsize = self._dtype.itemsize
            if size % itemsize or (self._dtype.kind == "b" and values.size and values.max() > 1):
                return None
            values = values.view(self._dtype.newbyteorder("<") if itemsize > 1 else self._dtype)
            size //= itemsize
        try:
            shape = self._fit(size)
            columns = values if self.encoding == "bytes" else self._cast(values, copy=False)
        except DecodeError:
            return None  # The record at fault is found, and named, one by one.
        return columns.reshape(n, *shape)

    def _decode_scalar(self, values: WireValues) -> Any:
        values = require(values, self._kind)
        if len(values) != 1:
            raise DecodeError(f"one value expected, the record has {len(values)}")
        if isinstance(values, list):
            return values[0]
        value = values.item()
        if self._is_exact:
            return value
        if self._bounds is None:
            return self._cast(values).item()
        low, high = self._bounds
        if not low <= value <= high:
            raise DecodeError(f"{value} is no {dtype_name(self._dtype)}")
        return value

    def _single(self, values: WireValues) -> list[bytes]:
        stored: list[bytes] = require(values, "bytes")
        if len(stored) != 1:
            raise DecodeError(f"one bytes value expected, the record has {len(stored)}")
        return stored

    def _from_bytes(self, data: bytes, shape: Shape) -> npt.NDArray[Any]:
        itemsize = self._dtype.itemsize
        if self.encoding == "zlib":
            known = math.prod(size for size in shape if size is not None) * itemsize
            data = _inflate(data, _MAX_INFLATED_BYTES if None in shape else min(known, _MAX_INFLATED_BYTES))
        count, rest = divmod(len(data), itemsize)
        if rest:
            raise DecodeError(f"{len(data)} bytes are no whole number of {dtype_name(self._dtype)} values")
        fitted = self._fit(count, shape)
        array = np.frombuffer(data, self._dtype.newbyteorder("<") if itemsize > 1 else self._dtype)
        if self._dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
            raise DecodeError("a byte that is neither 0 nor 1 in bool values")
        try:
            return array.reshape(fitted)
        except ValueError:
            raise DecodeError(f"no array can have shape {fitted}") from None

    def _fit(self, count: int, shape: Shape | None = None) -> tuple[int, ...]:
        """Return the shape with its unknown axis, if any, filled in for ``count`` values."""
        shape, rest = (self._shape, self._rest) if shape is None else (shape, math.prod(s for s in shape if s is not None))
        unknown = shape.count(None)
        if unknown > 1:
            raise DecodeError(f'{unknown} axes of unknown length cannot be told apart; encoding="bytes" stores them')
        if unknown == 0 and count == rest:
            return shape  # type: ignore[return-value]  # no None left
        if unknown == 1 and (count % rest == 0 if rest else count == 0):
            return tuple(size if size is not None else count // rest if rest else 0 for size in shape)
        raise DecodeError(f"shape {shape} expected, the record has {count} values")

    def _cast(self, values: npt.NDArray[Any], *, copy: bool = True) -> npt.NDArray[Any]:
        """Return wire values as the declared dtype, or raise ``DecodeError`` for an integer outside its range."""
        if self._dtype == np.uint64:
            values = values.view(np.uint64)
        if values.dtype == self._dtype:
            return values.copy() if copy else values
        if self._dtype.kind == "f":
            with np.errstate(over="ignore"):
                return values.astype(self._dtype)
        array = values.astype(self._dtype)
        if not np.array_equal(array, values):
            bad = values[array != values][0]
            raise DecodeError(f"{bad} is no {dtype_name(self._dtype)}")
        return array

    # -- description ----------------------------------------------------------------------------------------------

    def to_content(self) -> Json:
        content: Json = {
            "shape": shape_to_json(self._shape),
            "dtype": dtype_name(self._dtype),
            "encoding": self.encoding,
        }
        if self.minimum is not None:
            content["minimum"] = str(self.minimum)
        if self.maximum is not None:
            content["maximum"] = str(self.maximum)
        if self.optional:
            content["optional"] = True
        return content

    @classmethod
    def from_content(cls, content: Json) -> Self:
        return cls(
            shape=content["shape"],
            dtype=content["dtype"],
            encoding=content.get("encoding") or "none",
            minimum=content.get("minimum"),
            maximum=content.get("maximum"),
            optional=bool(content.get("optional")),
        )

    def short_repr(self) -> str:
        return dtype_name(self._dtype) if type(self) is Tensor and not self._shape else repr(self)


def _narrow_bounds(dtype: np.dtype[Any]) -> tuple[int, int] | None:
    if dtype.kind not in "iu" or dtype.itemsize == 8:
        return None
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def _inflate(data: bytes, limit: int) -> bytes:
    """Return zlib-compressed ``data`` as it was; never makes more than ``limit + 1`` bytes of it."""
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
