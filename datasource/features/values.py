"""The lists of a record, checked against what a feature is to find there."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DecodeError
from ..example.wire import WireValues
from .dtypes import Kind

__all__ = ["require", "single"]


def require(values: WireValues, kind: Kind) -> Any:
    """Return ``values`` if they are of ``kind``, else raise ``DecodeError`` saying what they are."""
    if values is None:
        raise DecodeError("the record has no value for it, and it is not optional")
    found = "bytes" if type(values) is list else "int64" if values.dtype == np.int64 else "float"  # type: ignore[union-attr]
    if found != kind:
        raise DecodeError(f"a list of {kind} expected, the record has {len(values)} values of {found}")
    return values


def single(values: WireValues) -> bytes:
    """Return the one bytes value of a list, else raise ``DecodeError``."""
    if type(values) is list and len(values) == 1:
        return values[0]
    found: list[bytes] = require(values, "bytes")
    raise DecodeError(f"one bytes value expected, the record has {len(found)}")
