"""Batches cut from chunks: full ones, whatever each chunk gave."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .chunk import Chunk, Piece
from .plan import Cursor

__all__ = ["Group", "Regrouper"]

Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class _Held:
    """Rows ``row <= r < stop`` of a chunk that no batch has had yet; ``ends`` are where each position's rows end."""

    rows: Any
    start: int
    ends: Ints
    row: int
    stop: int

    def cursor(self, epoch: int) -> Cursor:
        """Return the place of the next row."""
        position = int(np.searchsorted(self.ends, self.row, side="right"))
        return Cursor(epoch, self.start + position, self.row - int(self.ends[position - 1] if position else 0))


@dataclass(frozen=True, slots=True)
class Group:
    """The rows of one batch.

    Attributes:
      pieces: Where they are.
      positions: The positions of the epoch that they came from, one a row; int64.
      cursor: Where the next batch begins.
    """

    pieces: list[Piece]
    positions: Ints
    cursor: Cursor

    @property
    def size(self) -> int:
        """How many rows there are."""
        return sum(piece.stop - piece.start for piece in self.pieces)


class Regrouper:
    """Takes chunks in order, gives batches in order.

    Args:
      size: Rows in a batch; None makes each chunk one.
      drop_last: Whether what is left at an epoch's end is left out.
      begun: How many rows of a position, by epoch and position, were delivered before.
    """

    def __init__(self, size: int | None, *, drop_last: bool, begun: Mapping[tuple[int, int], int]) -> None:
        self._size = size
        self._drop_last = drop_last
        self._begun = dict(begun)
        self._held: deque[_Held] = deque()
        self._count = 0
        self._end = Cursor(0, 0)
        self._flush = False

    def add(self, chunk: Chunk, epoch: int, start: int, *, ends_epoch: bool) -> None:
        """Take the chunk of the positions from ``start`` on; the batches of those before have been taken out."""
        self._end = Cursor(epoch, start + len(chunk.counts))
        self._flush = ends_epoch or self._size is None
        ends = np.cumsum(chunk.counts)
        row = 0
        for (_, position), rows in self._begun_in(epoch, start, len(chunk.counts)):
            stop = int(ends[position - start] - chunk.counts[position - start])
            self._hold(_Held(chunk.rows, start, ends, row, stop))
            row = min(stop + rows, int(ends[position - start]))
        self._hold(_Held(chunk.rows, start, ends, row, int(ends[-1]) if len(ends) else 0))

    def pop(self) -> Group | None:
        """Return the next batch, if its rows are there."""
        size = self._size or self._count
        if not self._count or (self._count < size and not (self._flush and not self._drop_last)):
            if self._flush:
                self._held.clear()
                self._count = 0
            return None
        wanted = min(size, self._count)
        self._count -= wanted
        pieces: list[Piece] = []
        positions: list[Ints] = []
        while wanted:
            held = self._held[0]
            stop = min(held.stop, held.row + wanted)
            wanted -= stop - held.row
            pieces.append(Piece(held.rows, held.row, stop, int(held.ends[-1])))
            positions.append(held.start + np.searchsorted(held.ends, np.arange(held.row, stop), side="right"))
            held.row = stop
            if held.row == held.stop:
                self._held.popleft()
        cursor = self._held[0].cursor(self._end.epoch) if self._held else self._end
        return Group(pieces, np.concatenate(positions), cursor)

    def _hold(self, held: _Held) -> None:
        if held.row < held.stop:
            self._held.append(held)
            self._count += held.stop - held.row

    def _begun_in(self, epoch: int, start: int, count: int) -> list[tuple[tuple[int, int], int]]:
        return sorted(item for item in self._begun.items() if item[0][0] == epoch and 0 <= item[0][1] - start < count)
