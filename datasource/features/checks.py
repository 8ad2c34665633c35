"""What a caller passes to a feature, checked: shapes when it is made, values when they are encoded."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import SchemaError
from .base import Shape, fits
from .dtypes import STRING, dtype_name

__all__ = ["check_shape", "shape_to_json", "to_array"]


def check_shape(shape: Iterable[int | None]) -> Shape:
    """Return ``shape`` as a tuple of lengths of 0 or more and ``None``.

    Raises:
      SchemaError: A length is negative or no integer.
    """
    try:
        result = tuple(None if size is None else operator.index(size) for size in shape)
    except TypeError:
        raise SchemaError(f"a shape is a tuple of integers and None, got {shape!r}") from None
    if any(size is not None and size < 0 for size in result):
        raise SchemaError(f"a shape has no negative lengths (None means unknown), got {result}")
    return result


def shape_to_json(shape: Shape) -> dict[str, list[str]]:
    """Return ``shape`` as features.json has it: int64 are strings in protocol-buffer JSON, -1 is unknown."""
    return {"dimensions": [str(-1 if size is None else size) for size in shape]} if shape else {}


def to_array(value: Any, dtype: np.dtype[Any], shape: Shape) -> npt.NDArray[Any]:
    """Return ``value`` as an array of ``dtype`` and ``shape``, if that changes no value.

    Arrays and NumPy scalars may be cast where every value of the one type has a place in the other, and between integer
    types where these values have one. Python numbers, and lists of them, may also lose a float's precision: they have no
    type of their own.

    Raises:
      SchemaError: The shape differs, or the cast would change values; says what was expected and what came.
    """
    if value is None:
        raise SchemaError(f"{dtype_name(dtype)} of shape {shape} expected, got None")
    if dtype == STRING:
        return _to_strings(value, shape)
    try:
        array = np.asarray(value)
    except ValueError:
        raise SchemaError(f"shape {shape} expected, got nested lists of unequal lengths") from None
    if array.size == 0 and not isinstance(value, (np.ndarray, np.generic)):
        array = array.astype(dtype)  # An empty list has no type.
    if not fits(array.shape, shape):
        raise SchemaError(f"shape {shape} expected, got {array.shape}")
    if array.dtype == dtype:
        return array
    if np.can_cast(array.dtype, dtype, "safe"):
        return array.astype(dtype)
    if array.dtype.kind in "iu" and dtype.kind in "iu":
        low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        if array.size == 0 or (low <= int(array.min()) and int(array.max()) <= high):
            return array.astype(dtype)
        bad = int(array.min()) if int(array.min()) < low else int(array.max())
        raise SchemaError(f"{dtype_name(dtype)} expected, got {bad}, which is out of its range")
    typeless = not isinstance(value, (np.ndarray, np.generic)) and array.dtype.kind in "biuf"
    if typeless and dtype.kind not in "biu":
        with np.errstate(over="ignore"):
            return array.astype(dtype)
    raise SchemaError(f"{dtype_name(dtype)} expected, got {array.dtype} values; cast them yourself if that is meant")


def _to_strings(value: Any, shape: Shape) -> npt.NDArray[Any]:
    # An array, so that its shape shows; of objects, because NumPy's own strings drop trailing zero bytes.
    if isinstance(value, (str, bytes)):
        array = np.empty((), object)
        array[()] = value
    else:
        try:
            array = np.asarray(value, dtype=object)
        except ValueError:
            raise SchemaError(f"shape {shape} expected, got nested lists of unequal lengths") from None
    for item in array.reshape(-1).tolist():
        if not isinstance(item, (str, bytes)):
            raise SchemaError(f"bytes or str expected, got {type(item).__name__}")
    if not fits(array.shape, shape):
        raise SchemaError(f"shape {shape} expected, got {array.shape}")
    return array
