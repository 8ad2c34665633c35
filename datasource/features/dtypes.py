"""The element types of features: NumPy's, strings (as ``object``), and those of ml_dtypes by name."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import SchemaError

__all__ = ["STRING", "Kind", "as_dtype", "dtype_name", "wire_kind"]

# Which list of a tf.train.Feature holds the values.
Kind: TypeAlias = Literal["bytes", "float", "int64"]

STRING: np.dtype[Any] = np.dtype(object)

# TensorFlow's names that NumPy does not know, or knows as something else.
_ALIASES = {"string": "object", "str": "object", "half": "float16", "double": "float64", "float": "float32"}


def as_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Return what ``dtype`` names: anything NumPy takes, ``"string"``, ``"bfloat16"``, ``"float8_e4m3fn"`` and the like.

    Strings of any kind become ``object``: their values are bytes. TensorFlow's own dtype objects are taken too.

    Raises:
      SchemaError: Nothing goes by that name (or ml_dtypes, which knows it, is not installed).
    """
    dtype = getattr(dtype, "as_numpy_dtype", dtype)
    if isinstance(dtype, str):
        dtype = _ALIASES.get(dtype, dtype)
    try:
        result = np.dtype(dtype)
    except TypeError:
        result = _extension_dtype(str(dtype))
    if result.kind in "SU":
        return STRING
    if result.kind in "mM" or (result.kind == "V" and result.names is not None):
        raise SchemaError(f"dtype {result} cannot be stored; use int64, or one feature for each field")
    return result.newbyteorder("=") if result.kind in "iufcb" else result


def _extension_dtype(name: str) -> np.dtype[Any]:
    try:
        import ml_dtypes
    except ImportError:
        raise SchemaError(
            f"dtype {name!r} is not one of NumPy's; if it is a machine-learning type, install ml_dtypes"
        ) from None
    try:
        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return dtype
    except (AttributeError, TypeError):
        raise SchemaError(f"no dtype is called {name!r}") from None


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return the name that features.json uses: NumPy's, or ``"string"``."""
    return "string" if dtype == STRING else dtype.name


def wire_kind(dtype: np.dtype[Any]) -> Kind | None:
    """Return the list that holds plain values of ``dtype``; ``None`` if none does (complex, bfloat16, float8, int4)."""
    if dtype.kind in "biu":
        return "int64"
    if dtype.kind == "f" and dtype.itemsize <= 8:
        return "float"
    return "bytes" if dtype == STRING else None
