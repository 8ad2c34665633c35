"""Some elements of a source, by number: slices and selections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from ..columns import Columns
from ..source import BaseSource, Indices
from .identity import digest, show

__all__ = ["IndexView"]

T = TypeVar("T")


class IndexView(BaseSource[T]):
    """Some elements of a source, by number; made by slicing and ``select``. Reads nothing until asked.

    Views of views collapse into one: however deep, an element costs one lookup.
    """

    def __init__(self, source: BaseSource[T], indices: range | Indices) -> None:
        self._source = source
        # Of a range its step may be past 64 bits, as long as it leads nowhere: source[5 :: 2**70].
        self._indices = _as_range(indices) if isinstance(indices, range) else indices

    def __len__(self) -> int:
        return len(self._indices)

    def _read_one(self, index: int) -> T:
        return self._source._read_one(int(self._indices[index]))

    def _read_many(self, indices: Indices) -> list[T]:
        return self._source._read_many(self._lookup(indices))

    def _read_columns(self, indices: Indices) -> Columns:
        return self._source._read_columns(self._lookup(indices))

    def _read_batches(self, indices: Indices, bounds: Sequence[int]) -> list[Columns]:
        return self._source._read_batches(self._lookup(indices), bounds)

    def _will_need(self, indices: Indices) -> int:
        return self._source._will_need(self._lookup(indices))

    def _lookup(self, indices: Indices) -> Indices:
        if isinstance(self._indices, range):
            return indices * self._indices.step + self._indices.start
        return self._indices[indices]

    def _at(self, indices: range | Indices) -> BaseSource[T]:
        return IndexView(self._source, _compose(self._indices, indices))

    def _origin(self, index: int) -> str:
        return self._source._origin(int(self._indices[index]))

    def _sources(self) -> tuple[BaseSource[Any], ...]:
        return (self._source,)

    @property
    def fingerprint(self) -> str:
        # However the view was made, by a slice or by select: what counts are the elements and their order.
        which, whole = _as_range(self._indices), self._source.fingerprint
        if not isinstance(which, range):
            return digest("index", whole, which.astype("<i8", copy=False).tobytes())
        if which == range(len(self._source)):
            return whole
        return digest("index", whole, f"{which.start} {len(which)} {which.step}")

    def __repr__(self) -> str:
        which = self._indices
        if not isinstance(which, range):
            return f"<{len(self)} of {show(self._source)}.select(...)>"
        # Down to the first element, which a stop of -1 would not say.
        stop = which.stop if which.stop >= 0 else ""
        return f"<{len(self)} of {show(self._source)}[{which.start}:{stop}:{which.step}]>"


def _as_range(indices: range | Indices) -> range | Indices:
    """Return indices with a regular step as a range, equal ones always as the same."""
    if len(indices) < 2:
        return range(int(indices[0]), int(indices[0]) + 1) if len(indices) else range(0)
    start, step = int(indices[0]), int(indices[1]) - int(indices[0])
    if isinstance(indices, range) or (step and (np.diff(indices) == step).all()):
        return range(start, start + len(indices) * step, step)
    return indices


def _compose(outer: range | Indices, inner: range | Indices) -> range | Indices:
    """Return ``outer[inner]``."""
    if isinstance(inner, range):
        start, stop, step = inner.start, inner.stop, inner.step
        if isinstance(outer, range):
            # An empty range, or one that runs down past 0, has ends that are no positions; len() is what counts.
            first = outer.start + start * outer.step
            return range(first, first + len(inner) * step * outer.step, step * outer.step)
        return outer[start : None if stop < 0 else stop : step] if len(inner) else outer[:0]
    return np.asarray(inner) * outer.step + outer.start if isinstance(outer, range) else outer[inner]
