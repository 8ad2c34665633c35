"""Sources one behind the other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np

from ..columns import Columns
from ..source import BaseSource, Indices, Source
from ..structure import merge
from .identity import digest, show
from .index import IndexView
from .sequence import as_source

__all__ = ["ConcatenatedView", "concatenate"]

T = TypeVar("T")


def concatenate(*sources: Source[T]) -> BaseSource[T]:
    """Return the elements of all ``sources``, one source behind the other, as one; ``a + b`` is the same for two.

        concatenate(a, b, c)[len(a) + 2]    is b[2], while len(b) > 2

    Lazy. A batch asks each source once, whatever the order, and its columns are joined: dtypes promoted as NumPy promotes
    them. Concatenations in ``sources``, and slices of them, become part of this one. Lengths are taken now.

    Raises:
      TypeError: Something is no source, a list for a start; says what to write instead.
      ValueError: There are none.
    """
    parts = [part for source in sources for part in _flatten(as_source(source, "concatenate"))]
    if not parts:
        raise ValueError("concatenate needs at least one source")
    return parts[0] if len(parts) == 1 else ConcatenatedView(parts)


class ConcatenatedView(BaseSource[Any]):
    """What ``concatenate`` returns for two sources or more."""

    def __init__(self, parts: Sequence[BaseSource[Any]]) -> None:
        self._parts = tuple(parts)
        self._ends = list(accumulate(map(len, parts)))
        self._end_array = np.array(self._ends, np.int64)
        self._starts = [0, *self._ends[:-1]]

    def __len__(self) -> int:
        return self._ends[-1]

    def _read_one(self, index: int) -> Any:
        number = bisect_right(self._ends, index)
        return self._parts[number]._read_one(index - self._starts[number])

    def _read_many(self, indices: Indices) -> list[Any]:
        groups = self._group(indices)
        if len(groups) == 1:
            _, part, local = groups[0]
            return part._read_many(local)
        elements: list[Any] = [None] * indices.size
        for places, part, local in groups:
            for place, element in zip(places.tolist(), part._read_many(local), strict=True):
                elements[place] = element
        return elements

    def _read_columns(self, indices: Indices) -> Columns:
        groups = self._group(indices)
        if len(groups) == 1:
            _, part, local = groups[0]
            return part._read_columns(local)
        return merge(indices.size, [(places, part._read_columns(local)) for places, part, local in groups])

    def _read_batches(self, indices: Indices, bounds: Sequence[int]) -> list[Columns]:
        groups = self._group(indices)
        if len(groups) == 1:
            _, part, local = groups[0]
            return part._read_batches(local, bounds)
        # Each part makes its share of every batch in one call; a share may be empty, and is left out then.
        shares: list[list[tuple[Indices, Columns]]] = [[] for _ in bounds[1:]]
        for places, part, local in groups:
            cuts = np.searchsorted(places, bounds).tolist()
            for number, columns in enumerate(part._read_batches(local, cuts)):
                if cuts[number] < cuts[number + 1]:
                    shares[number].append((places[cuts[number] : cuts[number + 1]] - bounds[number], columns))
        empty = np.empty(0, np.int64)
        return [
            merge(stop - start, share) if share else self._read_columns(empty)
            for start, stop, share in zip(bounds, bounds[1:], shares, strict=False)
        ]

    def _will_need(self, indices: Indices) -> int:
        return sum(part._will_need(local) for _, part, local in self._group(indices))

    def _group(self, indices: Indices) -> list[tuple[Indices, BaseSource[Any], Indices]]:
        """Return for each part that is asked: the places in ``indices``, ascending, the part, and the indices in it."""
        numbers = np.searchsorted(self._end_array, indices, side="right")
        if not indices.size:
            return [(indices, self._parts[0], indices)]
        if (numbers == numbers[0]).all():
            number = int(numbers[0])
            return [(np.arange(indices.size), self._parts[number], indices - self._starts[number])]
        order = np.argsort(numbers, kind="stable")
        cuts = np.flatnonzero(np.diff(numbers[order])) + 1
        groups = []
        for places in np.split(order, cuts):
            number = int(numbers[places[0]])
            groups.append((places, self._parts[number], indices[places] - self._starts[number]))
        return groups

    def _origin(self, index: int) -> str:
        number = bisect_right(self._ends, index)
        return self._parts[number]._origin(index - self._starts[number])

    def _sources(self) -> tuple[BaseSource[Any], ...]:
        return self._parts

    @property
    def fingerprint(self) -> str:
        return digest("concatenate", *(part.fingerprint for part in self._parts))

    def _describe_length(self) -> str:
        return f"{len(self)} elements in {len(self._parts)} sources"

    def __repr__(self) -> str:
        more = f", and {len(self._parts) - 3} more" if len(self._parts) > 3 else ""
        return f"<{len(self)} of concatenate({', '.join(map(show, self._parts[:3]))}{more})>"


def _flatten(source: BaseSource[Any]) -> Iterator[BaseSource[Any]]:
    """Yield what a source is a concatenation of, so that mixing slices and concatenations adds no depth."""
    if isinstance(source, ConcatenatedView):
        yield from source._parts
    elif isinstance(source, IndexView) and isinstance(source._source, ConcatenatedView) and isinstance(source._indices, range):
        yield from list(_cut(source._source, source._indices)) or [source]
    else:
        yield source


def _cut(source: ConcatenatedView, indices: range) -> Iterator[BaseSource[Any]]:
    """Yield the parts of ``source[indices]``, in that order; a range that runs down takes the parts from behind."""
    parts = list(zip(source._parts, source._starts, source._ends, strict=True))
    for part, start, end in parts if indices.step > 0 else reversed(parts):
        if indices.step > 0:
            first = max(0, -((indices.start - start) // indices.step))
            last = max(0, -((indices.start - end) // indices.step))
        else:
            first = max(0, (indices.start - end) // -indices.step + 1)
            last = max(0, (indices.start - start) // -indices.step + 1)
        within = indices[first : min(last, len(indices))]
        if len(within):
            yield part._at(range(within.start - start, within.stop - start, within.step))
