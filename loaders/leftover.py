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
Everything is arithmetic over the ranks' positions, whatever lies between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

__all__ = ["Leftover"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Leftover:
    """The part of an epoch's global order that is still to be delivered.

    Attributes:
      base: Every global place below it was delivered, where there is no level; see ``places``.
      levels: For each merging, how many positions each rank had used of what the level before had left.
      begun: Of which numbers some outputs were delivered already, and how many: `FlatMap` makes several of one.
    """

    base: int = 0
    levels: tuple[tuple[int, ...], ...] = ()
    begun: Mapping[int, int] = field(default_factory=dict)

    def count(self, length: int) -> int:
        """Return how many places are left of an order of ``length``."""
        left = max(0, length - self.base)
        for used in self.levels:
            left = sum(max(0, _share(left, rank, len(used)) - own) for rank, own in enumerate(used))
        return left

    def places(self, numbers: Ints) -> Ints:
        """Return the global places of what is left; int64, ``0 <= number``."""
        for used in reversed(self.levels):
            numbers = _find_unused(np.array(used), numbers)
        return numbers + self.base

    def merge(self, used: Sequence[int], begun: Mapping[int, int]) -> Leftover:
        """Return what is left of this once each of several ranks has used so many of its numbers.

        Args:
          used: For each rank, how many of the numbers ``rank, rank + ranks, rank + 2 * ranks ...`` it has used up.
          begun: Outputs delivered of each rank's next number, by rank.
        """
        ranks = len(used)
        opened = {number: outputs for number, outputs in self.begun.items() if number // ranks >= used[number % ranks]}
        opened |= {used[rank] * ranks + rank: outputs for rank, outputs in begun.items() if outputs}
        renumbered = {_count_unused(used, number): outputs for number, outputs in sorted(opened.items())}
        return Leftover(self.base, (*self.levels, tuple(used)), renumbered)._simplify()

    def advance(self, numbers: int) -> Leftover:
        """Return what is left once the first ``numbers`` are used."""
        return self.merge([numbers], {})

    def _simplify(self) -> Leftover:
        """Return the same without the levels whose holes are all filled."""
        base, levels = self.base, list(self.levels)
        while levels:
            used, rows = levels[0], max(levels[0])
            holes = rows * len(used) - sum(used)
            after = min(own * len(levels[1]) + rank for rank, own in enumerate(levels[1])) if len(levels) > 1 else 0
            if after < holes:
                break
            # Behind its holes, a level only counts on.
            base += sum(used)
            del levels[0]
        return Leftover(base, tuple(levels), self.begun)


def _share(count: int, rank: int, ranks: int) -> int:
    """Return how many of ``range(count)`` are a rank's when ranks take turns."""
    return (count - rank + ranks - 1) // ranks


def _find_unused(used: Ints, numbers: Ints) -> Ints:
    """Return the unused places with these numbers, where rank ``r`` has used the first ``used[r]`` of its stripe."""
    ranks = len(used)
    rows = np.unique(used)  # between two of these, the same ranks have something left in each row
    widths = np.searchsorted(np.sort(used), rows, side="right")
    starts = np.concatenate([[0], np.cumsum(np.diff(rows) * widths[:-1])])
    segments = np.searchsorted(starts, numbers, side="right") - 1
    places = np.empty_like(numbers)
    for segment in np.unique(segments):
        chosen = np.flatnonzero(segments == segment)
        row, column = np.divmod(numbers[chosen] - starts[segment], widths[segment])
        places[chosen] = (row + rows[segment]) * ranks + np.flatnonzero(used <= rows[segment])[column]
    return places


def _count_unused(used: Sequence[int], place: int) -> int:
    """Return how many unused places stand before ``place``."""
    return sum(max(0, _share(place, rank, len(used)) - own) for rank, own in enumerate(used))
