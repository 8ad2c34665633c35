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
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DecodeError, SchemaError
from ..example.wire import WireValues
from .base import LeafFeature, Shape, require

__all__ = ["Rows", "flatten", "row_keys"]


def row_keys(key: str, rank: int) -> tuple[str, ...]:
    """Return the keys of a sequence of ``rank`` levels: of its elements, then of the row lengths, outermost first."""
    if rank < 2:
        return (key,)
    return (f"{key}/ragged_flat_values", *(f"{key}/ragged_row_lengths_{level}" for level in range(rank - 1)))


def flatten(value: Sequence[Any], lengths: Shape) -> tuple[Sequence[Any], list[npt.NDArray[np.int64]]]:
    """Return the elements of nested lists, and the lengths of the rows at each level below the outermost.

    Args:
      value: Lists as deep as ``lengths``, or arrays.
      lengths: What each level's length must be, ``None`` for any.

    Raises:
      SchemaError: A length differs.
    """
    row_lengths: list[npt.NDArray[np.int64]] = []
    rows = value
    _check_lengths(np.array([len(rows)]), lengths[0], SchemaError)
    for expected in lengths[1:]:
        row_lengths.append(np.array([len(row) for row in rows], np.int64))
        _check_lengths(row_lengths[-1], expected, SchemaError)
        rows = [item for row in rows for item in row]
    return rows, row_lengths


def _check_lengths(lengths: npt.NDArray[np.int64], expected: int | None, error: type[SchemaError | DecodeError]) -> None:
    if expected is not None and (lengths != expected).any():
        bad = int(lengths[(lengths != expected).argmax()])
        raise error(f"a sequence of {expected} elements expected, got {bad}")


class Rows:
    """The stored elements of one leaf, in rows of rows; knows what belongs to which without decoding anything.

    Attributes:
      parts: The flat lists of all elements, as ``LeafFeature.parts`` has them.
      counts: Wire values of one element in each part.
      lengths: Lengths of the rows at each level below the outermost.
      size: Elements in all.
      rank: Levels of rows; 0 for a single element.
    """

    __slots__ = ("_offsets", "counts", "lengths", "parts", "rank", "size")

    def __init__(
        self,
        parts: tuple[WireValues, ...],
        counts: tuple[int, ...],
        lengths: tuple[npt.NDArray[np.int64], ...],
        size: int,
        rank: int,
    ) -> None:
        self.parts = parts
        self.counts = counts
        self.lengths = lengths
        self.size = size
        self.rank = rank
        self._offsets: npt.NDArray[np.int64] | None = None

    @classmethod
    def read(cls, wire: Mapping[str, WireValues], key: str, feature: LeafFeature, lengths: Shape) -> Rows:
        """Return the rows that a record has under ``key``.

        Raises:
          DecodeError: A list is missing, of another kind, or the lengths do not add up.
        """
        rank = len(lengths)
        parts: list[WireValues] = []
        counts: list[int] = []
        size = -1
        row_lengths: tuple[npt.NDArray[np.int64], ...] = ()
        for (suffix, kind), count in zip(feature.parts.items(), feature.counts, strict=True):
            keys = row_keys(key + suffix, rank)
            flat, *levels = (_present(wire, each) for each in keys)
            found = [] if flat is None else require(flat, kind)  # A list of no kind is a list of nothing.
            part_lengths = tuple(np.empty(0, np.int64) if level is None else require(level, "int64") for level in levels)
            part_size, count = _divide(len(found), count, lengths, part_lengths)
            _check_rows(part_lengths, part_size, lengths)
            if size not in (-1, part_size) or (parts and not _equal(part_lengths, row_lengths)):
                raise DecodeError(f"{size} and {part_size} elements in lists that must have the same")
            parts.append(found if flat is not None or kind == "bytes" else np.empty(0, np.int64))
            counts.append(count)
            size, row_lengths = part_size, part_lengths
        return cls(tuple(parts), tuple(counts), row_lengths, size, rank)

    def __len__(self) -> int:
        return len(self.lengths[0]) if self.lengths else self.size

    def row(self, place: int) -> Rows:
        """Return row ``0 <= place < len(self)``, of one rank less."""
        if self.rank == 1:
            start, stop = place, place + 1
            lengths: tuple[npt.NDArray[np.int64], ...] = ()
        else:
            start, stop = self._bounds(place)
            below = []
            for level in self.lengths[1:]:
                below.append(level[start:stop])
                start, stop = int(level[:start].sum()), int(level[:stop].sum())
            lengths = tuple(below)
        return Rows(self._elements(start, stop), self.counts, lengths, stop - start, self.rank - 1)

    def _bounds(self, place: int) -> tuple[int, int]:
        if self._offsets is None:
            self._offsets = np.concatenate([np.zeros(1, np.int64), self.lengths[0].cumsum()])
        return int(self._offsets[place]), int(self._offsets[place + 1])

    def _elements(self, start: int, stop: int) -> tuple[WireValues, ...]:
        return tuple(
            part[start * count : stop * count] if part is not None else None
            for part, count in zip(self.parts, self.counts, strict=True)
        )


def _present(wire: Mapping[str, WireValues], key: str) -> WireValues:
    try:
        return wire[key]
    except KeyError:
        raise DecodeError(f"the record has no list {key!r}") from None


def _divide(total: int, count: int | None, lengths: Shape, row_lengths: tuple[npt.NDArray[np.int64], ...]) -> tuple[int, int]:
    """Return how many elements ``total`` wire values are, and how many values each has."""
    if count:
        if total % count:
            raise DecodeError(f"elements of {count} values expected, the record has {total} values")
        return total // count, count
    # Elements of no values, or of a length that differs between examples: only the rows say how many there are.
    size: int | None = int(row_lengths[-1].sum()) if row_lengths else lengths[0]
    if count == 0:
        return size or 0, 0
    if size is None:
        raise DecodeError(
            f'{total} values of elements of unknown length cannot be told apart; encoding="bytes" stores where they end'
        )
    if size == 0 or total % size:
        raise DecodeError(f"{size} elements of equal length expected, the record has {total} values")
    return size, total // size


def _check_rows(row_lengths: tuple[npt.NDArray[np.int64], ...], size: int, lengths: Shape) -> None:
    """Raise ``DecodeError`` unless each level's lengths add up to the number of rows of the level below."""
    outermost = len(row_lengths[0]) if row_lengths else size
    _check_lengths(np.array([outermost]), lengths[0], DecodeError)
    below = [*(len(level) for level in row_lengths[1:]), size]
    for level, expected, total in zip(row_lengths, lengths[1:], below, strict=False):
        # No length beyond the total, so that the sum cannot overflow.
        if level.size and (level.min() < 0 or level.max() > total):
            raise DecodeError(f"row lengths from {level.min()} to {level.max()}, of {total} elements in all")
        if level.sum() != total:
            raise DecodeError(f"row lengths add up to {level.sum()}, the record has {total} elements")
        _check_lengths(level, expected, DecodeError)


def _equal(first: tuple[npt.NDArray[np.int64], ...], second: tuple[npt.NDArray[np.int64], ...]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
