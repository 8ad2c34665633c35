"""What an example is made of, told from one example."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import SchemaError
from ..features import Feature, FeaturesDict, Sequence, Tensor, Text
from ..features.dtypes import STRING

__all__ = ["infer_features", "warn_of_inference"]


def infer_features(example: Mapping[str, Any]) -> FeaturesDict:
    """Return features under which ``example`` is stored without loss, and every other of the same types and shapes.

        value                                   feature
        str, bytes                              Text()
        bool, int, NumPy's integers             that dtype; int64 for int
        NumPy's half and single                 that dtype
        float, NumPy's double, complex          Tensor of shape () as raw bytes: a record's own floats are single precision
        array of numbers or bools               Tensor of its shape, as raw bytes
        array of strings                        Tensor of its shape
        list, tuple                             Sequence of what its elements are, of any length
        dict                                    the same, nested

    Pictures, labels and boxes are not told from other numbers; who wants ``Image`` or ``ClassLabel`` says so.

    Raises:
      SchemaError: A value says too little (``None``, an empty list), is mixed, or cannot be stored; names it.
    """
    if not isinstance(example, Mapping):
        raise SchemaError(f"a dict of values expected, to tell the features from, got {type(example).__name__}")
    return FeaturesDict({name: _infer(value, str(name)) for name, value in example.items()})


def warn_of_inference(path: str | os.PathLike[str], features: FeaturesDict, stacklevel: int) -> None:
    """Show what was told from the first example: all others will be held to it."""
    warnings.warn(
        f"{os.fspath(path)}: no features were given; told from the first example, they are {features!r}",
        stacklevel=stacklevel + 1,
    )


def _infer(value: Any, path: str) -> Feature:
    if isinstance(value, Mapping):
        return FeaturesDict({name: _infer(item, f"{path}/{name}") for name, item in value.items()})
    if isinstance(value, (str, bytes)):
        return Text()
    if isinstance(value, (list, tuple)):
        return _infer_sequence(value, path)
    if isinstance(value, int) and not isinstance(value, bool):
        return Tensor(shape=(), dtype=np.int64)
    if isinstance(value, (np.ndarray, np.generic, bool, float, complex)):
        return _infer_array(np.asarray(value), path)
    raise SchemaError(f"feature {path!r}: {type(value).__name__} does not tell what to store; give features")


def _infer_sequence(value: Any, path: str) -> Feature:
    if not value:
        raise SchemaError(f"feature {path!r}: an empty list does not tell what it is to hold; give features")
    found = [_infer(item, path) for item in value]
    if any(feature != found[0] for feature in found):
        raise SchemaError(f"feature {path!r}: a list of different things, {found[0]!r} first; give features")
    return Sequence(found[0])


def _infer_array(value: np.ndarray[Any, Any], path: str) -> Feature:
    dtype = value.dtype
    if dtype == STRING and not all(isinstance(item, (str, bytes)) for item in value.reshape(-1).tolist()):
        raise SchemaError(f"feature {path!r}: objects that are no strings cannot be stored; give features")
    try:
        if dtype.kind in "OSU":
            return Tensor(shape=value.shape, dtype=dtype)
        if not value.shape and (dtype.kind in "biu" or dtype in (np.float16, np.float32)):
            return Tensor(shape=(), dtype=dtype)
        return Tensor(shape=value.shape, dtype=dtype, encoding="bytes")
    except SchemaError as error:
        raise SchemaError(f"feature {path!r}: {error.message}; give features") from None
