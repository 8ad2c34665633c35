"""Packed batches of which it is known what goes where, and nothing is copied yet."""

from __future__ import annotations

from collections.abc import Sequence

from ..datasource.columns import Columns
from ..datasource.deferred import Deferred
from ..datasource.end_to_end import EndToEnd
from .chunk import Piece
from .transforms.pack import Pack

__all__ = ["PackedLater", "copied"]


class PackedLater(Deferred):
    """A batch of packed rows that ``make`` gives, once: copied straight from where records lie into the batch.

    Args:
      packing: How it is cut.
      pieces: Of what, each a part of ``EndToEnd``.
    """

    __slots__ = ("_packing", "_pieces")

    def __init__(self, packing: Pack, pieces: Sequence[Piece]) -> None:
        self._packing = packing
        self._pieces = [(piece.rows, piece.start, piece.stop) for piece in pieces]
        self.nbytes = sum(laid.nbytes // len(laid) * (stop - start) for laid, start, stop in self._pieces)

    def make(self) -> Columns:
        return self._packing.cut_laid(self._pieces)


def copied(packing: Pack, piece: Piece) -> Piece:
    """Return a piece of a chunk as one of columns."""
    if type(piece.rows) is not EndToEnd:
        return piece
    size = piece.stop - piece.start
    return Piece(packing.copy(piece.rows, piece.start, piece.stop), 0, size, size)
