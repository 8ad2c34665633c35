"""Arrays and scalars of any dtype, stored as plain values, raw bytes or zlib-compressed bytes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from ..errors import DecodeError, SchemaError
from ..example.wire import WireValues
from .arrays import to_array
from .base import Json
from .dtypes import STRING, as_dtype, dtype_name
from .leaf_feature import LeafFeature
from .plain import PlainCodec
from .raw import RawCodec
from .shapes import Shape, check_shape, fits, shape_to_json
from .values import require, single

__all__ = ["Encoding", "Tensor"]

Encoding: TypeAlias = Literal["none", "bytes", "zlib"]


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
        if encoding not in get_args(Encoding):
            raise SchemaError(f"encoding must be one of {get_args(Encoding)}, got {encoding!r}")
        self._plain: PlainCodec | None = None
        if encoding == "none":
            self._plain = PlainCodec(self._dtype, self._shape)
            self.parts = {"": self._plain.kind}
            self.counts = (None if None in self._shape else math.prod(self._shape),)  # type: ignore[arg-type]  # without None
            self.stored_raw = self._dtype == np.float32
            return
        if self._dtype == STRING:
            raise SchemaError('strings have no raw bytes; use encoding="none"')
        self._raw = RawCodec(self._dtype, self._shape, is_compressed=encoding == "zlib")
        if self._shape.count(None) > 1:
            self.parts, self.counts = {"/shape": "int64", "/value": "bytes"}, (len(self._shape), 1)
        else:
            self.parts = {"": "bytes"}
            # A bool's bytes must be looked at: some are no bool.
            self.stored_raw = encoding == "bytes" and self._dtype.kind != "b"

    @property
    def shape(self) -> Shape:
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._dtype

    @property
    def is_plain(self) -> bool:
        """Whether the record has the values themselves, not bytes that encode them."""
        return self._plain is not None

    # -- encoding -------------------------------------------------------------------------------------------------

    def encode(self, value: Any) -> WireValues:
        array = to_array(value, self._dtype, self._shape)
        return [self._raw.encode(array)] if self._plain is None else self._plain.encode(array)

    def encode_parts(self, value: Any) -> tuple[WireValues, ...]:
        if len(self.parts) == 1:
            return (self.encode(value),)
        array = to_array(value, self._dtype, self._shape)
        return np.array(array.shape, np.int64), self.encode(array)

    def encode_many(self, elements: Any) -> tuple[WireValues, ...]:
        if self._plain is None:
            return super().encode_many(elements)
        if len(elements) == 0:
            elements = np.empty((0, *(size or 0 for size in self._shape)), self._dtype)
        return (self._plain.encode(to_array(elements, self._dtype, (None, *self._shape))),)

    # -- decoding -------------------------------------------------------------------------------------------------

    def decode(self, values: WireValues) -> Any:
        if self._plain is None:
            return self._raw.decode(single(values))
        return self._plain.decode(values) if self._shape else self._plain.decode_scalar(values)

    def decoder(self) -> Callable[[WireValues], Any]:
        if self._plain is None or type(self).decode is not Tensor.decode:
            return self.decode
        return self._plain.decode if self._shape else self._plain.decode_scalar

    def payload_decoder(self) -> Callable[[bytes], Any] | None:
        if type(self).decode is not Tensor.decode:
            return None
        return self._raw.payload_decoder() if self._plain is None else self._plain.payload_decoder()

    def list_decoder(self) -> Callable[[bytes], list[Any]] | None:
        if self._plain is None or self.joins_to_arrays or type(self).decode_many is not Tensor.decode_many:
            return None
        return self._plain.list_decoder()

    def payload_form(self, nbytes: int) -> tuple[str, Callable[[Any], Any] | None] | None:
        if self._plain is None or type(self).decode is not Tensor.decode:
            return None
        return self._plain.payload_form(nbytes)

    def decode_parts(self, parts: tuple[WireValues, ...]) -> Any:
        if len(parts) == 1:
            return self.decode(parts[0])
        shape = tuple(require(parts[0], "int64").tolist())
        if min(shape, default=0) < 0 or not fits(shape, self._shape):
            raise DecodeError(f"shape {self._shape} expected, the record says {shape}")
        return self._raw.decode(single(parts[1]), shape)

    def decode_many(self, parts: tuple[WireValues, ...], size: int) -> Any:
        return super().decode_many(parts, size) if self._plain is None else self._plain.decode_many(parts[0], size)

    def join(self, elements: Any) -> Any:
        if len(self.parts) > 1 and elements and all(array.shape == elements[0].shape for array in elements):
            return np.asarray(elements)  # As tfds.data_source has it; it cannot read other sequences of these.
        return super().join(elements)

    def decode_columns(self, values: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
        if self._plain is not None:
            return self._plain.decode_columns(values)
        return self._raw.decode_columns(values) if len(self.parts) == 1 else None

    # -- description ----------------------------------------------------------------------------------------------

    def to_content(self) -> Json:
        content: Json = {"shape": shape_to_json(self._shape), "dtype": dtype_name(self._dtype), "encoding": self.encoding}
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
