"""Neighbouring elements at a time."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from ..columns import Columns, StructureError, stack
from ..source import BaseSource, Indices
from ..structure import map_structure
from .identity import digest, show

__all__ = ["BatchView"]


class BatchView(BaseSource[Columns]):
    """Element ``k`` is ``source.read_batch`` of ``size`` neighbours from ``k * stride`` on; made by ``batch`` and ``window``.

        elements 0..9, size 4, stride 4                     0 1 2 3 | 4 5 6 7 | 8 9
        elements 0..9, size 4, stride 4, drop_last          0 1 2 3 | 4 5 6 7
        elements 0..9, size 4, stride 3, drop_last          0 1 2 3 | 3 4 5 6 | 6 7 8 9

    Several batches are read from the source in one call.
    """

    def __init__(self, source: BaseSource[Any], size: int, stride: int, *, drop_last: bool) -> None:
        for name, value in (("size", size), ("stride", stride)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be an integer >= 1, got {value!r}")
        self._source = source
        self._size = size
        self._stride = stride
        self._drop_last = drop_last
        length = len(source)
        self._length = max(0, (length - size) // stride + 1) if drop_last else -(-length // stride)

    def __len__(self) -> int:
        return self._length

    def _read_one(self, index: int) -> Columns:
        start = index * self._stride
        rows = np.arange(start, min(start + self._size, len(self._source)), dtype=np.int64)
        try:
            return self._source._read_columns(rows)
        except StructureError as error:
            one, other = (self._source._origin(start + place) for place in error.places)
            error.add_note(f"in batch {index}: {one}, and {other}" if one != other else f"in batch {index}: {one}")
            raise

    def _read_many(self, indices: Indices) -> list[Columns]:
        if not indices.size:
            return self._source._read_many(indices)  # nothing, or that it is closed
        rows, counts = self._rows(indices)
        return self._source._read_batches(rows, [0, *accumulate(counts.tolist())])

    def _read_columns(self, indices: Indices) -> Columns:
        rows, counts = self._rows(indices)
        if (counts == self._size).all():
            shape = (indices.size, self._size)
            return map_structure(lambda leaf: leaf.reshape(shape + leaf.shape[1:]), self._source._read_columns(rows))
        return stack(self._read_many(indices))  # which says that the short one does not fit, if there are others

    def _will_need(self, indices: Indices) -> int:
        return self._source._will_need(self._rows(indices)[0])

    def _rows(self, indices: Indices) -> tuple[Indices, Indices]:
        """Return the source's elements that are in the batches ``indices``, end to end, and how many each batch has."""
        rows = indices[:, None] * self._stride + np.arange(self._size)
        inside = rows < len(self._source)
        return rows[inside], inside.sum(axis=1)

    def _origin(self, index: int) -> str:
        return f"batch {index} of {self!r}"

    def _sources(self) -> tuple[BaseSource[Any], ...]:
        return (self._source,)

    @property
    def fingerprint(self) -> str:
        return digest("batch", self._source.fingerprint, f"{self._size} {self._stride} {self._length}")

    def _describe_length(self) -> str:
        return f"{len(self)} batches"

    def __repr__(self) -> str:
        if self._stride != self._size:
            return f"<{len(self)} of {show(self._source)}.window({self._size}, {self._stride})>"
        return f"<{len(self)} of {show(self._source)}.batch({self._size}{', drop_last=True' * self._drop_last})>"
