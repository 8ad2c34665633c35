"""Elements in rows, and rows in rows: how sequences lie in a record.

The elements of all rows are joined to one flat list, and beside it stand the lengths of the rows. A sequence of sequences
of sequences, ``[[[a, b], []], [[c]]]``, is stored as

    key/ragged_flat_values      a b c
    key/ragged_row_lengths_0    2 1         rows in each row of the outermost sequence, whose own length is len of this
    key/ragged_row_lengths_1    2 0 1       elements in each of those

and a simple sequence as its elements alone, under ``key``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from ..errors import DecodeError, SchemaError
from ..example.wire import WireValues
from .dtypes import Kind
from .leaf_feature import LeafFeature
from .shapes import Shape
from .values import require

__all__ = ["Rows", "flatten", "row_keys"]


def row_keys(key: str, rank: int) -> tuple[str, ...]:
    """Return the keys of a sequence of ``rank`` levels: of its elements, then of the row lengths, outermost first."""
    if rank < 2:
        return (key,)
    return (f"{key}/ragged_flat_values", *(f"{key}/ragged_row_lengths_{level}" for level in range(rank - 1)))


def flatten(value: Sequence[Any], lengths: Shape) -> tuple[Sequence[Any], list[list[int]]]:
    """Return the elements of nested lists, and the lengths of the rows at each level below the outermost.

    Args:
      value: Lists as deep as ``lengths``, or arrays.
      lengths: What each level's length must be, ``None`` for any.

    Raises:
      SchemaError: A length differs.
    """
    row_lengths: list[list[int]] = []
    rows = value
    _check_lengths([len(rows)], lengths[0], SchemaError)
    for expected in lengths[1:]:
        row_lengths.append([len(row) for row in rows])
        _check_lengths(row_lengths[-1], expected, SchemaError)
        rows = [item for row in rows for item in row]
    return rows, row_lengths


def _check_lengths(lengths: list[int], expected: int | None, error: type[SchemaError | DecodeError]) -> None:
    if expected is not None:
        for length in lengths:
            if length != expected:
                raise error(f"a sequence of {expected} elements expected, got {length}")


class Rows:
    """The stored elements of one leaf, in rows of rows; knows what belongs to which without decoding anything.

    Lengths are Python integers: rows are few, mostly, and their sums cannot overflow.

    Attributes:
      parts: The flat lists of all elements, as ``LeafFeature.parts`` has them.
      counts: Wire values of one element in each part.
      lengths: Lengths of the rows at each level below the outermost.
      size: Elements in all.
      rank: Levels of rows; 0 for a single element.
    """

    __slots__ = ("_ends", "counts", "lengths", "parts", "rank", "size")

    def __init__(
        self, parts: tuple[WireValues, ...], counts: tuple[int, ...], lengths: list[list[int]], size: int, rank: int
    ) -> None:
        self.parts = parts
        self.counts = counts
        self.lengths = lengths
        self.size = size
        self.rank = rank
        self._ends: list[list[int]] | None = None

    @classmethod
    def read(cls, wire: Mapping[str, WireValues], key: str, feature: LeafFeature, lengths: Shape) -> Rows:
        """Return the rows that a record has under ``key``.

        Raises:
          DecodeError: A list is missing, of another kind, or the lengths do not add up.
        """
        parts: list[WireValues] = []
        counts: list[int] = []
        known: tuple[int, list[list[int]]] | None = None
        for (suffix, kind), count in zip(feature.parts.items(), feature.counts, strict=True):
            keys = row_keys(key + suffix, len(lengths))
            part = _present(wire, keys[0], kind)
            levels = [_present(wire, each, "int64").tolist() for each in keys[1:]]
            size, count = _divide(len(part), count, lengths, levels)
            if known not in (None, (size, levels)):
                raise DecodeError(f"lists that belong together have {known} and {(size, levels)} elements and rows"[:300])
            _check_rows(levels, size, lengths)
            known = size, levels
            parts.append(part)
            counts.append(count)
        assert known is not None, "every feature has a part"
        return cls(tuple(parts), tuple(counts), known[1], known[0], len(lengths))

    def __len__(self) -> int:
        return len(self.lengths[0]) if self.lengths else self.size

    def row(self, place: int) -> Rows:
        """Return row ``0 <= place < len(self)``, of one rank less."""
        start, stop = place, place + 1
        below: list[list[int]] = []
        if self._ends is None:
            self._ends = [[0, *accumulate(level)] for level in self.lengths]
        for ends, level in zip(self._ends, self.lengths, strict=True):
            if ends is not self._ends[0]:
                below.append(level[start:stop])
            start, stop = ends[start], ends[stop]
        parts = tuple(
            part[start * count : stop * count] if part is not None else None
            for part, count in zip(self.parts, self.counts, strict=True)
        )
        return Rows(parts, self.counts, below, stop - start, self.rank - 1)


def _present(wire: Mapping[str, WireValues], key: str, kind: Kind) -> Any:
    """Return the list under ``key``; one that is there without saying its kind is a list of nothing."""
    values = wire.get(key)
    if values is None:
        if key not in wire:
            raise DecodeError(f"the record has no list {key!r}")
        return [] if kind == "bytes" else np.empty(0, np.int64 if kind == "int64" else np.float32)
    return require(values, kind)


def _divide(total: int, count: int | None, lengths: Shape, row_lengths: list[list[int]]) -> tuple[int, int]:
    """Return how many elements ``total`` wire values are, and how many values each has."""
    if count:
        if total % count:
            raise DecodeError(f"elements of {count} values expected, the record has {total} values")
        return total // count, count
    # Elements of no values, or of a length that differs between examples: only the rows say how many there are.
    size = sum(row_lengths[-1]) if row_lengths else lengths[0]
    if count == 0:
        return size or 0, 0
    if size is None:
        raise DecodeError(
            f'{total} values of elements of unknown length cannot be told apart; encoding="bytes" keeps them apart'
        )
    if size == 0 or total % size:
        raise DecodeError(f"{size} elements of equal length expected, the record has {total} values")
    return size, total // size


def _check_rows(row_lengths: list[list[int]], size: int, lengths: Shape) -> None:
    """Raise ``DecodeError`` unless each level's lengths add up to the number of rows of the level below."""
    totals = [*(len(level) for level in row_lengths), size]  # At each level, how many.
    _check_lengths(totals[:1], lengths[0], DecodeError)
    for level, expected, total in zip(row_lengths, lengths[1:], totals[1:], strict=True):
        if min(level, default=0) < 0 or sum(level) != total:
            raise DecodeError(f"row lengths from {min(level, default=0)}, {sum(level)} in all, the record has {total} elements")
        _check_lengths(level, expected, DecodeError)
