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
      origins: Of each piece, the first position of its chunk and where each position's rows end there.
      cursor: Where the next batch begins.
    """

    pieces: list[Piece]
    origins: list[tuple[int, Ints]]
    cursor: Cursor

    @property
    def positions(self) -> Ints:
        """The positions of the epoch that they came from, one a row; int64."""
        pairs = zip(self.pieces, self.origins, strict=True)
        return np.concatenate(
            [start + np.searchsorted(ends, np.arange(piece.start, piece.stop), side="right") for piece, (start, ends) in pairs]
        )

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
        self._begun = sorted(begun.items())
        self._held: deque[_Held] = deque()
        self._count = 0
        self._end = Cursor(0, 0)
        self._flush = False

    def is_batch(self, chunk: Chunk) -> bool:
        """Whether a chunk, the next one, is a batch as it stands."""
        return chunk.counts is None and not self._count and not self._begun and self._size in (None, chunk.size)

    def add(self, chunk: Chunk, epoch: int, start: int, *, ends_epoch: bool) -> None:
        """Take the chunk of the positions from ``start`` on; the batches of those before have been taken out."""
        self._end = Cursor(epoch, start + chunk.size)
        self._flush = ends_epoch or self._size is None
        counts = np.ones(chunk.size, np.int64) if chunk.counts is None else chunk.counts
        ends = np.cumsum(counts)
        row = 0
        for (begun_in, position), rows in self._begun:
            if begun_in != epoch or not 0 <= position - start < len(ends):
                continue
            stop = int(ends[position - start] - counts[position - start])
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
        origins: list[tuple[int, Ints]] = []
        while wanted:
            held = self._held[0]
            stop = min(held.stop, held.row + wanted)
            wanted -= stop - held.row
            pieces.append(Piece(held.rows, held.row, stop, int(held.ends[-1])))
            origins.append((held.start, held.ends))
            held.row = stop
            if held.row == held.stop:
                self._held.popleft()
        cursor = self._held[0].cursor(self._end.epoch) if self._held else self._end
        return Group(pieces, origins, cursor)

    def _hold(self, held: _Held) -> None:
        if held.row < held.stop:
            self._held.append(held)
            self._count += held.stop - held.row
