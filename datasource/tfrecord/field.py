"""What one key of a ``tf.train.Example`` holds, for records that no schema came with."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..errors import DecodeError, SchemaError
from ..example.wire import WireValues
from ..features.base import Json
from ..features.shapes import Shape
from ..features.tensor import Tensor

__all__ = ["REQUIRED", "Field"]


class _Required(Enum):
    REQUIRED = "required"

    def __repr__(self) -> str:
        return self.value.upper()


#: The default of a field that must be there.
REQUIRED: Final = _Required.REQUIRED


class Field(Tensor):
    """One key of an example, as a specification for ``decode``; what ``tf.io.parse_single_example`` takes, in one class.

        Field(np.int64)                       FixedLenFeature([], tf.int64)
        Field(np.float32, (2, 3))             FixedLenFeature([2, 3], tf.float32)
        Field(np.int64, default=-1)           FixedLenFeature([], tf.int64, -1)
        Field(bytes, (None,))                 VarLenFeature(tf.string), RaggedFeature(tf.string)
        Field(np.float32, (None, 4))          FixedLenSequenceFeature([4], tf.float32, allow_missing=True)

    A scalar is decoded as a Python number or ``bytes``, all else as an array in C order. A key that is missing, or there
    without a value of any kind, is the default; without one it is an empty array where a length is unknown, else an error. A
    list of no values is a list: too short for a fixed shape. ``read_batch`` needs one shape in all records of a batch.

    Args:
      dtype: As decoded: any integer, bool or floating type, or ``bytes``. The record's int64, float32 or bytes are cast, and
        an integer that does not fit is an error.
      shape: Lengths of the axes, at most one of them ``None``, which is any.
      default: A value of that shape, or a scalar for all of a fixed shape; ``None`` for an optional field.

    Raises:
      SchemaError: There is no such dtype or shape, or the default does not fit.
    """

    def __init__(self, dtype: npt.DTypeLike, shape: Shape = (), *, default: Any = REQUIRED) -> None:
        super().__init__(shape=shape, dtype=dtype, optional=default is None)
        if self.shape.count(None) > 1:
            raise SchemaError(f"{self.shape.count(None)} axes of unknown length cannot be told apart, got shape {self.shape}")
        self._default: WireValues = None
        self._empty_shape: tuple[int, ...] | None = None
        if default is REQUIRED or default is None:
            if None in self.shape:
                self._empty_shape = tuple(size or 0 for size in self.shape)
        else:
            if None not in self.shape and np.ndim(default) == 0:
                for size in reversed(self.shape):  # lists, for arrays would have a dtype that may not fit
                    default = [default] * (size or 0)
            self._default = self.encode(default)

    def decode(self, values: WireValues) -> Any:
        if values is None:
            values = self._default
            if values is None and self._empty_shape is not None:
                return np.empty(self._empty_shape, self.dtype)
            if values is None:
                raise DecodeError("the record has no value for it, and it has no default")
        return super().decode(values)

    def to_content(self) -> Json:
        content = super().to_content()
        if self._default is not None:
            content["default"] = str(np.asarray(self._default).tolist())
        return content

    def short_repr(self) -> str:
        return repr(self)

    def _details(self) -> dict[str, Any]:
        default = {} if self._default is None else {"default": np.asarray(self._default).tolist()}
        return super()._details() | default
