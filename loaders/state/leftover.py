"""What ranks that have come unequally far leave of an epoch, as an order that any number of ranks can share. Pure.

A filter keeps more on one rank than on another, so ranks that have made the same number of batches stand at different
places. Three ranks have used 5, 2 and 3 of their own positions; x is used:

    row               0      1      2      3      4      5
    rank              0 1 2  0 1 2  0 1 2  0 1 2  0 1 2  0 1 2
    global place      0 1 2  3 4 5  6 7 8  9 . .  . . .  15 ...
                      x x x  x x x  x . x  x . .  x . .  . . .
    number                          0      1 2    3 4    5 6 7 ...

What is left is numbered as it stands: the holes below the furthest rank's row, then the rest. New ranks stripe these numbers,
as ranks stripe the places of a whole epoch; when they in turn have come unequally far, a further level is laid upon the first.
A rank that delivers batches out of their order (``in_order=False``) may have used positions ahead of one that is still to come.
Everything is arithmetic over the ranks' positions, whatever lies between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Leftover", "Span"]

Ints = npt.NDArray[np.int64]
#: A rank, and positions ``start <= position < stop`` of its own.
Span: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Leftover:
    """The part of an epoch's global order that is still to be delivered.

    Attributes:
      base: Every global place below it was delivered, where there is no level; see ``places``.
      levels: For each merging, how many positions each rank had used of what the level before had left.
      ahead: Positions that a rank had used beyond those: of which level, which rank, ``start <= position < stop``.
      begun: Of which numbers some outputs were delivered already, and how many: `FlatMap` makes several of one.
    """

    base: int = 0
    levels: tuple[tuple[int, ...], ...] = ()
    begun: Mapping[int, int] = field(default_factory=dict)
    ahead: tuple[tuple[int, int, int, int], ...] = ()

    def count(self, length: int) -> int:
        """Return how many places are left of an order of ``length``."""
        left = max(0, length - self.base)
        for level, used in enumerate(self.levels):
            left = _count_unused(used, self._ahead_of(level), left)
        return left

    def places(self, numbers: Ints) -> Ints:
        """Return the global places of what is left; int64, ``0 <= number``."""
        for level in reversed(range(len(self.levels))):
            numbers = _find_unused(np.array(self.levels[level]), self._ahead_of(level), numbers)
        return numbers + self.base

    def merge(self, used: Sequence[int], begun: Mapping[int, int], ahead: Sequence[Span] = ()) -> Leftover:
        """Return what is left of this once each of several ranks has used so many of its numbers.

        Args:
          used: For each rank, how many of the numbers ``rank, rank + ranks, rank + 2 * ranks ...`` it has used up.
          begun: Outputs delivered of each rank's next number, by rank.
          ahead: What ranks have used beyond: rank, and ``start <= position < stop`` of its own, behind ``used[rank]``.
        """
        ranks = len(used)
        opened = {
            number: outputs
            for number, outputs in self.begun.items()
            if number // ranks >= used[number % ranks]
            and not any(rank == number % ranks and start <= number // ranks < stop for rank, start, stop in ahead)
        }
        opened |= {used[rank] * ranks + rank: outputs for rank, outputs in begun.items() if outputs}
        renumbered = {_count_unused(used, ahead, number): outputs for number, outputs in sorted(opened.items())}
        level = len(self.levels)
        spans = (*self.ahead, *((level, *span) for span in ahead))
        return Leftover(self.base, (*self.levels, tuple(used)), renumbered, spans)._simplify()

    def advance(self, numbers: int) -> Leftover:
        """Return what is left once the first ``numbers`` are used."""
        return self.merge([numbers], {})

    def _ahead_of(self, level: int) -> list[Span]:
        return [(rank, start, stop) for at, rank, start, stop in self.ahead if at == level]

    def _simplify(self) -> Leftover:
        """Return the same without the levels whose holes are all filled, nor the rows that all ranks have used."""
        base, levels, ahead = self.base, list(self.levels), self.ahead
        while levels:
            used, spans = levels[0], [span for span in ahead if span[0] == 0]
            rows = max(*used, *(stop for *_, stop in spans), 0)
            total = sum(used) + sum(stop - start for *_, start, stop in spans)
            holes = rows * len(used) - total
            after = min(own * len(levels[1]) + rank for rank, own in enumerate(levels[1])) if len(levels) > 1 else 0
            if after < holes:
                break
            # Behind its holes, a level only counts on.
            base += total
            del levels[0]
            ahead = tuple((level - 1, rank, start, stop) for level, rank, start, stop in ahead if level)
        if levels:
            rows = min(levels[0])
            base += rows * len(levels[0])
            levels[0] = tuple(used - rows for used in levels[0])
            ahead = tuple(
                (n, rank, start - rows, stop - rows) if n == 0 else (n, rank, start, stop) for n, rank, start, stop in ahead
            )
        return Leftover(base, tuple(levels), self.begun, ahead)


def _share(count: int, rank: int, ranks: int) -> int:
    """Return how many of ``range(count)`` are a rank's when ranks take turns."""
    return (count - rank + ranks - 1) // ranks


def _find_unused(used: Ints, ahead: Sequence[Span], numbers: Ints) -> Ints:
    """Return the unused places with these numbers, where rank ``r`` has used the first ``used[r]`` of its stripe."""
    ranks = len(used)
    # Between two of these, the same ranks have something left in each row.
    rows = np.unique([*used.tolist(), *(bound for span in ahead for bound in span[1:])])
    widths = np.searchsorted(np.sort(used), rows, side="right")
    for _, start, stop in ahead:
        widths[(start <= rows) & (rows < stop)] -= 1
    starts = np.concatenate([[0], np.cumsum(np.diff(rows) * widths[:-1])])
    segments = np.searchsorted(starts, numbers, side="right") - 1
    places = np.empty_like(numbers)
    for segment in np.unique(segments):
        chosen = np.flatnonzero(segments == segment)
        row, column = np.divmod(numbers[chosen] - starts[segment], widths[segment])
        is_left = used <= rows[segment]
        is_left[[rank for rank, start, stop in ahead if start <= rows[segment] < stop]] = False
        places[chosen] = (row + rows[segment]) * ranks + np.flatnonzero(is_left)[column]
    return places


def _count_unused(used: Sequence[int], ahead: Sequence[Span], place: int) -> int:
    """Return how many unused places stand before ``place``."""
    ranks = len(used)
    left = sum(max(0, _share(place, rank, ranks) - own) for rank, own in enumerate(used))
    return left - sum(max(0, min(stop, _share(place, rank, ranks)) - start) for rank, start, stop in ahead)
