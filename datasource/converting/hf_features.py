"""Features of Hugging Face data sets, from the JSON that Parquet files and ``Features.to_dict()`` have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import SchemaError
from ..features import ClassLabel, Feature, FeaturesDict, Image, Sequence, Tensor, Text
from ..features.dtypes import STRING
from .infer_array import infer_array

__all__ = ["from_hugging_face"]

_DTYPES = {"bool": "bool", "float": "float32", "double": "float64"}
_TEXTS = ("string", "large_string", "binary", "large_binary")
#: Stored as the integers that Arrow keeps them as.
_TIMES = ("timestamp", "date32", "date64", "time32", "time64", "duration")


def from_hugging_face(form: Any, *, optional: bool = False) -> Feature:
    """Return the feature that one form stands for.

        ClassLabel                    class label with the same names
        Image                         image, stored byte for byte
        Value                         scalar or text; times as integers
        Array2D ... Array5D           tensor
        List, LargeList, Sequence     tensor of one axis, of numbers and strings; else sequence
        a dict                        dict

    Args:
      form: As the entry ``"features"`` of the metadata has it.
      optional: Whether values may be missing.

    Raises:
      SchemaError: There is no feature for it.
    """
    if isinstance(form, (list, tuple)) and len(form) == 1:
        return _list_of(form[0], -1, optional)
    if not isinstance(form, Mapping):
        raise SchemaError(f"no feature of Hugging Face's: {str(form)[:80]!r}")
    kind = form.get("_type")
    if not isinstance(kind, str):
        return FeaturesDict({name: from_hugging_face(each, optional=optional) for name, each in form.items()})
    if kind == "Value":
        return _value(str(form.get("dtype")), optional)
    if kind == "ClassLabel":
        names = form.get("names")
        return ClassLabel(names=names) if names else ClassLabel(form.get("num_classes"))
    if kind == "Image":
        return Image()
    if kind in ("Array2D", "Array3D", "Array4D", "Array5D"):
        shape = tuple(form["shape"])
        return Tensor(shape=shape, dtype=_known(str(form["dtype"])), encoding="bytes", optional=optional)
    if kind in ("Sequence", "List", "LargeList"):
        return _list_of(form["feature"], int(form.get("length", -1)), optional)
    raise SchemaError(f"a Hugging Face feature of the type {kind} is not known here; leave its column out, or cast it before")


def _value(dtype: str, optional: bool) -> Feature:
    if dtype in _TEXTS:
        return Text(optional=optional)
    if dtype.startswith(_TIMES):
        dtype = "int32" if dtype.startswith(("date32", "time32")) else "int64"
    return infer_array(np.dtype(_known(dtype)), (), optional=optional)


def _list_of(form: Any, length: int, optional: bool) -> Feature:
    size = None if length < 0 else length
    if isinstance(form, Mapping) and form.get("_type") == "Value":
        dtype = str(form.get("dtype"))
        if dtype in _TEXTS:
            return Tensor(shape=(size,), dtype=STRING, optional=optional)
        return infer_array(np.dtype(_known(dtype)), (size,), optional=optional)
    return Sequence(from_hugging_face(form), size)


def _known(dtype: str) -> str:
    dtype = _DTYPES.get(dtype, dtype)
    if dtype.startswith(("decimal", "null")):
        raise SchemaError(f"values of Arrow's type {dtype} cannot be stored; cast them to float64 or string before")
    if dtype.startswith(_TIMES):
        return "int64"
    return dtype
