"""The values of an example's leaves, put into dicts as the features are nested."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..features import FeaturesDict

__all__ = ["make_nest"]


def make_nest(features: FeaturesDict) -> Callable[[list[Any]], dict[str, Any]]:
    """Return a function that does what ``features.nest`` does, from a list which it may change, without recursion.

    That takes a tenth of the time: a slice of the list becomes a dict in its place, the innermost and last one first.
    """
    shape = features.nest(iter(range(len(features.leaves()))))
    names = list(shape)
    folds: list[tuple[int, int, list[str]]] = []
    _find_folds(shape, 0, folds)
    # The first is the example itself; reversed, so that what stands before a slice is still as many values as leaves.
    inner = folds[:0:-1]

    def nest(values: list[Any]) -> dict[str, Any]:
        for start, stop, keys in inner:
            values[start:stop] = [dict(zip(keys, values[start:stop], strict=True))]
        return dict(zip(names, values, strict=True))

    return nest


def _find_folds(shape: dict[str, Any], start: int, folds: list[tuple[int, int, list[str]]]) -> int:
    """Note the slice that each dict will be made of, outer dicts first; return the leaf behind the last of ``shape``."""
    folds.append((start, start + len(shape), list(shape)))
    for value in shape.values():
        start = _find_folds(value, start, folds) if isinstance(value, dict) else start + 1
    return start
