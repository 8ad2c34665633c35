"""The rows of batches."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ..columns import Columns
from ..distinct import distinct
from ..source import BaseSource, Indices
from ..structure import map_structure, merge
from .identity import digest, show

__all__ = ["UnbatchView", "unbatch"]


def unbatch(source: BaseSource[Columns]) -> BaseSource[Any]:
    """Return the rows of a source of columns; see ``BaseSource.unbatch``."""
    if not len(source):
        return source
    size, last = _count_rows(source._read_one(0)), _count_rows(source._read_one(len(source) - 1))
    if last > size:
        raise ValueError(f"the last batch has {last} rows, the first has {size}: only the last may have fewer")
    return UnbatchView(source, size, last)


class UnbatchView(BaseSource[Any]):
    """Element ``k`` is row ``k % size`` of ``source[k // size]``.

    Args:
      size: Rows of every batch but the last.
      last: Rows of the last batch, ``last <= size``.
    """

    def __init__(self, source: BaseSource[Columns], size: int, last: int) -> None:
        self._source = source
        self._size = size
        self._last = last

    def __len__(self) -> int:
        return (len(self._source) - 1) * self._size + self._last

    def _read_one(self, index: int) -> Any:
        batch, row = divmod(index, self._size)
        return _take_row(self._check(self._source._read_one(batch), batch), row)

    def _read_many(self, indices: Indices) -> list[Any]:
        wanted, which = np.unique(indices // self._size, return_inverse=True)
        batches = self._read_wanted(wanted)
        rows = (indices % self._size).tolist()
        return [_take_row(batches[place], row) for place, row in zip(which.tolist(), rows, strict=True)]

    def _read_columns(self, indices: Indices) -> Columns:
        wanted, which = np.unique(indices // self._size, return_inverse=True)
        rows = indices % self._size
        if wanted.size == 0:
            return map_structure(lambda leaf: leaf[rows], self._source._read_one(0))
        parts = []
        for place, batch in enumerate(self._read_wanted(wanted)):
            here = np.flatnonzero(which == place)
            parts.append((here, map_structure(operator.itemgetter(rows[here]), batch)))
        return merge(indices.size, parts)

    def _will_need(self, indices: Indices) -> int:
        return self._source._will_need(distinct(indices // self._size))

    def _read_wanted(self, wanted: Indices) -> list[Columns]:
        return [
            self._check(batch, number) for batch, number in zip(self._source._read_many(wanted), wanted.tolist(), strict=True)
        ]

    def _check(self, batch: Columns, number: int) -> Columns:
        expected = self._size if number < len(self._source) - 1 else self._last
        if _count_rows(batch) != expected:
            raise ValueError(
                f"{self._source._origin(number)} has {_count_rows(batch)} rows, {expected} were expected: all batches but the "
                "last must be equally long"
            )
        return batch

    def _origin(self, index: int) -> str:
        return f"row {index % self._size} of {self._source._origin(index // self._size)}"

    def _sources(self) -> tuple[BaseSource[Any], ...]:
        return (self._source,)

    @property
    def fingerprint(self) -> str:
        return digest("unbatch", self._source.fingerprint)

    def __repr__(self) -> str:
        return f"<{len(self)} of {show(self._source)}.unbatch()>"


def _take_row(batch: Columns, row: int) -> Any:
    # A copy: a view of one row would keep the whole batch in memory.
    return map_structure(lambda leaf: leaf[row].copy() if isinstance(leaf[row], np.ndarray) else leaf[row], batch)


def _count_rows(batch: Columns) -> int:
    counts: set[int] = set()

    def count(leaf: Any) -> None:
        if not isinstance(leaf, np.ndarray) or leaf.ndim == 0:
            raise TypeError(f"unbatch needs columns, arrays with a leading axis; got {type(leaf).__name__} {leaf!r:.60}")
        counts.add(len(leaf))

    map_structure(count, batch)
    if len(counts) != 1:
        raise ValueError(f"the columns of a batch must be equally long, got {sorted(counts)}")
    return counts.pop()
