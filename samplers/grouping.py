"""Shuffling within groups, all groups at once."""

import numpy as np
import numpy.typing as npt

from .permutation import Permutation

__all__ = ["shuffle_within_groups"]


def shuffle_within_groups(groups: npt.NDArray[np.int64], permutation: Permutation) -> npt.NDArray[np.int64]:
    """Return the numbers ``0 .. len(groups) - 1`` group by group, in ascending order of group and shuffled inside each.

    All numbers are shuffled together and then sorted by group and shuffled place: one sort, however many groups there
    are.

    Args:
      groups: The group of each number, ``0 <= group``, and ``(groups.max() + 1) * len(groups) < 2**63``.
      permutation: Of ``range(len(groups))``.
    """
    count = len(groups)
    places = np.arange(count, dtype=np.int64)
    numbers = permutation.forward(places)
    # No two sort keys are equal, so that every sorting algorithm gives the same result.
    keys = groups[numbers] * count + places
    keys.sort()
    keys -= keys // max(1, count) * count
    grouped: npt.NDArray[np.int64] = numbers[keys]
    return grouped
