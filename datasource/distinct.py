"""The distinct values of an array, as ``np.unique`` finds them, without the 10 ms that it takes to import numpy.ma first."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["distinct", "first_places"]

Ints = npt.NDArray[np.int64]

#: Where numbers are at most so many times as large as they are many, marking them takes less than sorting them.
_DENSE = 16


def distinct(numbers: Ints) -> Ints:
    """Return the distinct ones of some numbers, none of which is negative, in ascending order."""
    if not numbers.size:
        return numbers
    highest = int(numbers.max())
    if highest <= _DENSE * numbers.size:  # a tenth of the time of sorting 8,192
        seen = np.zeros(highest + 1, np.bool_)
        seen[numbers] = True
        return seen.nonzero()[0]
    return numbers[first_places(numbers)]


def first_places(numbers: Ints) -> Ints:
    """Return where each number stands first, in ascending order of the numbers, none of which is negative."""
    order = np.argsort(numbers, kind="stable")
    firsts: Ints = order[np.flatnonzero(np.diff(numbers[order], prepend=-1))]
    return firsts
