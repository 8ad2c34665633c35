"""Whether two examples are the same, types and every bit included."""

from __future__ import annotations

from typing import Any

import numpy as np

from arrayfeed.datasource.features import NestedExamples

__all__ = ["difference"]


def difference(found: Any, expected: Any, where: str = "") -> str:
    """Return how ``found`` differs from ``expected``, "" if it does not.

    Types must agree, the order of keys, dtypes, shapes, and every bit of a number (NaN equals NaN, 0.0 is not -0.0).
    ``NestedExamples`` are the same as ``("examples", [...])``, see ``neutral``.
    """
    found, expected = (("examples", [*x]) if isinstance(x, NestedExamples) else x for x in (found, expected))
    if type(found) is not type(expected):
        return f"{where}: {type(found).__name__} instead of {type(expected).__name__}"
    if isinstance(found, dict):
        if list(found) != list(expected):
            return f"{where}: keys {list(found)} instead of {list(expected)}"
        return next((d for key in found if (d := difference(found[key], expected[key], f"{where}/{key}"))), "")
    if isinstance(found, (list, tuple)):
        if len(found) != len(expected):
            return f"{where}: length {len(found)} instead of {len(expected)}"
        pairs = enumerate(zip(found, expected, strict=True))
        return next((d for place, (a, b) in pairs if (d := difference(a, b, f"{where}[{place}]"))), "")
    if isinstance(found, (np.ndarray, np.generic)):
        if (found.dtype, found.shape) != (expected.dtype, expected.shape):
            return f"{where}: {found.dtype}{found.shape} instead of {expected.dtype}{expected.shape}"
        if found.dtype == object:
            return difference(found.tolist(), expected.tolist(), where)
        return "" if found.tobytes() == expected.tobytes() else f"{where}: {found} instead of {expected}"
    if isinstance(found, complex):
        return difference([found.real, found.imag], [expected.real, expected.imag], where)
    if isinstance(found, float):
        found, expected = found.hex(), expected.hex()
    return "" if found == expected else f"{where}: {found!r} instead of {expected!r}"
