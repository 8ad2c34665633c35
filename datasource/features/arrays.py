"""What a caller gives to be encoded, as an array of the declared dtype and shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import SchemaError
from .dtypes import STRING, dtype_name
from .shapes import Shape, fits

__all__ = ["to_array"]


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
    if np.can_cast(array.dtype, dtype, "safe") and (dtype.kind not in "fc" or _has_float64s(array)):
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


def _has_float64s(array: npt.NDArray[Any]) -> bool:
    """Whether each value is a float64: of 64-bit integers, which NumPy casts as "safe", those up to 2**53 all are."""
    if array.dtype.kind not in "iu" or array.itemsize < 8 or array.size == 0:
        return True
    return -(1 << 53) <= int(array.min()) and int(array.max()) <= 1 << 53


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
