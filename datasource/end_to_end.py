"""Sequences of many records, end to end where they lie in memory: what is cut from them is copied once, when it is wanted."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["EndToEnd", "Field"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of the sequences.

    Attributes:
      starts: The address of each sequence, int64.
      dtype: Of the elements.
      inner: Their shape.
    """

    starts: Ints
    dtype: np.dtype[Any]
    inner: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of one element."""
        return math.prod(self.inner) * self.dtype.itemsize


class EndToEnd:
    """Sequences end to end, element ``k`` of all of them being element ``k`` of this. Immutable.

    Args:
      fields: By name; of all of them the sequences are equally long.
      lengths: Elements of each sequence, which may be 0; int64.
      held: What keeps the memory.

    Attributes:
      fields, lengths: As given.
    """

    def __init__(self, fields: Mapping[str, Field], lengths: Ints, held: object) -> None:
        self.fields = fields
        self.lengths = lengths
        self._held = held
        kept: Any = slice(None) if lengths.all() else lengths > 0
        lengths = lengths[kept]
        ends = np.cumsum(lengths)
        self._begins = ends - lengths
        # Lists: a batch is cut with a few bisections and slices, which arrays take ten times as long for.
        self._ends: list[int] = ends.tolist()
        self._spans = {
            name: list(zip((at := field.starts[kept]).tolist(), (at + lengths * field.nbytes).tolist(), strict=True))
            for name, field in fields.items()
        }

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @property
    def nbytes(self) -> int:
        """How large they all are."""
        return len(self) * sum(field.nbytes for field in self.fields.values())

    def spans(self, name: str, start: int, stop: int) -> Sequence[tuple[int, int]]:
        """Return the addresses between which the elements ``start <= k < stop`` of a field lie, at least one."""
        first, last = bisect_right(self._ends, start), bisect_left(self._ends, stop)
        spans = self._spans[name][first : last + 1]
        nbytes = self.fields[name].nbytes
        begin, end = spans[-1]
        spans[-1] = begin, end - (self._ends[last] - stop) * nbytes
        begin, end = spans[0]
        spans[0] = begin + (start - (self._ends[first - 1] if first else 0)) * nbytes, end
        return spans

    def begins(self, start: int, stop: int) -> Ints:
        """Return which of the elements ``start <= k < stop`` are the first of a sequence, ascending."""
        first, last = self._begins.searchsorted((start, stop))
        return self._begins[first:last]
