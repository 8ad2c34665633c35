"""The feature that keeps every bit of an array's rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import SchemaError
from ..features import Feature, FeaturesDict, Scalar, Tensor, Text
from ..features.dtypes import STRING, as_dtype, wire_kind
from ..features.shapes import Shape

__all__ = ["features_of_arrays", "infer_array"]


def infer_array(dtype: np.dtype[Any], shape: Shape, *, optional: bool = False) -> Feature:
    """Return the feature of values of a dtype and shape.

        numbers       scalar, stored as a number where that is exact (float64 is stored as its 8 bytes)
        text          text, or a tensor of strings
        arrays        tensor, stored as its bytes: exact, compact, and read without parsing

    Raises:
      SchemaError: Nothing stores such values.
    """
    dtype = as_dtype(dtype)
    if dtype == STRING:
        return Tensor(shape=shape, dtype=STRING, optional=optional) if shape else Text(optional=optional)
    is_exact = wire_kind(dtype) is not None and dtype != np.float64
    if shape or not is_exact:
        return Tensor(shape=shape, dtype=dtype, encoding="bytes", optional=optional)
    return Tensor(shape=(), dtype=dtype, optional=True) if optional else Scalar(dtype)


def features_of_arrays(arrays: Mapping[str, Any]) -> FeaturesDict:
    """Return the features of the rows of arrays, nested as they are.

    Raises:
      SchemaError: Nothing stores the rows of one of them; names it.
    """
    found: dict[str, Feature] = {}
    for name, array in arrays.items():
        try:
            found[name] = features_of_arrays(array) if isinstance(array, Mapping) else _infer_rows(array)
        except SchemaError as error:
            raise SchemaError(f"array {name!r}: {error.message}") from None
    return FeaturesDict(found)


def _infer_rows(array: Any) -> Feature:
    if array.dtype == object:
        # In memory there are lists of texts; anything else than texts is refused when its turn comes.
        return Text() if array.ndim == 1 else Tensor(shape=array.shape[1:], dtype=STRING)
    return infer_array(array.dtype, array.shape[1:])
