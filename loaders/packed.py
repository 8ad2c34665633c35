"""Packed batches of which it is known what goes where, and nothing is copied yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..datasource.columns import Columns
from ..datasource.deferred import Deferred
from ..datasource.end_to_end import EndToEnd
from .chunk import Piece
from .transforms.pack import Pack, Sequences

__all__ = ["PackedLater", "copied", "pack_later"]

#: So many tokens are numbered at a time: a batch that somebody keeps holds the numbers of no more.
_NUMBERED = 1 << 16


class PackedLater(Deferred):
    """A batch of packed rows that ``make`` gives, once: copied straight from where records lie into the batch.

    Args:
      packing: How rows are cut.
      pieces: Of what, each a part of ``EndToEnd``.
      numbers: Segments and positions of the rows.
    """

    __slots__ = ("_nbytes", "_numbers", "_packing", "_pieces", "_size")

    def __init__(self, packing: Pack, pieces: Sequence[Piece], size: int, numbers: Sequences) -> None:
        self._packing = packing
        self._pieces = [(piece.rows, piece.start, piece.stop) for piece in pieces]
        self._size = size
        self._numbers = numbers
        laid: EndToEnd = pieces[0].rows
        token_bytes = sum(field.nbytes for field in laid.fields.values())
        self._nbytes = size * token_bytes + sum(array.nbytes for array in numbers.values())

    @property
    def nbytes(self) -> int:
        return self._nbytes

    def make(self) -> Columns:
        return {**self._packing.copy_rows(self._pieces, self._size), **self._numbers}


def pack_later(packing: Pack, groups: Sequence[Sequence[Piece]]) -> list[PackedLater]:
    """Return batches of pieces that follow one another, each a part of ``EndToEnd``; all but the last are full.

    Their segments and positions are made together: batch by batch, the dozen small arrays behind them take longer.
    """
    return [batch for few in _divide(groups) for batch in _pack_few(packing, few)]


def _divide(groups: Sequence[Sequence[Piece]]) -> Iterator[list[tuple[Sequence[Piece], int]]]:
    few: list[tuple[Sequence[Piece], int]] = []
    for pieces in groups:
        few.append((pieces, sum(piece.stop - piece.start for piece in pieces)))
        if sum(size for _, size in few) >= _NUMBERED:
            yield few
            few = []
    if few:
        yield few


def _pack_few(packing: Pack, few: Sequence[tuple[Sequence[Piece], int]]) -> Iterator[PackedLater]:
    begins, at = [], 0
    for piece in (piece for pieces, _ in few for piece in pieces):
        begins.append(piece.rows.begins(piece.start, piece.stop) + (at - piece.start))
        at += piece.stop - piece.start
    numbers = packing.number(np.concatenate(begins), at)
    row = 0
    for pieces, size in few:
        rows = slice(row, row := row + -(-size // packing.length))
        yield PackedLater(packing, pieces, size, {name: array[rows] for name, array in numbers.items()})


def copied(packing: Pack, piece: Piece) -> Piece:
    """Return a piece of a chunk as one of columns."""
    if type(piece.rows) is not EndToEnd:
        return piece
    size = piece.stop - piece.start
    return Piece(packing.copy(piece.rows, piece.start, piece.stop), 0, size, size)
