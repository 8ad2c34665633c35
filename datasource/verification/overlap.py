"""Which records stand in two splits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from .report import Overlap

__all__ = ["Hashes", "find_overlaps"]

Hashes = npt.NDArray[np.uint64]

#: Records of an overlap that are named.
_MAX_NAMED = 10


def find_overlaps(hashes: Mapping[str, Hashes], read: Callable[[str, Sequence[int]], list[bytes]]) -> list[Overlap]:
    """Return what each pair of splits shares.

    Sorted hashes of 64 bits tell which records to compare; so no two records are taken for equal that are not.

    Args:
      hashes: Of each split, one a record, in the records' order. Memory: three times theirs.
      read: Gives records of a split by their indices.
    """
    overlaps = []
    for first, second in combinations(hashes, 2):
        # The lowest index of each hash in the second split.
        values, lowest = np.unique(hashes[second], return_index=True)
        if not values.size:
            continue
        places = np.minimum(np.searchsorted(values, hashes[first]), values.size - 1)
        found = np.flatnonzero(values[places] == hashes[first])
        count = 0
        named: list[tuple[int, int]] = []
        for start in range(0, found.size, 256):
            ours = found[start : start + 256]
            theirs = lowest[places[ours]]
            for one, other, a, b in zip(
                ours.tolist(), theirs.tolist(), read(first, ours.tolist()), read(second, theirs.tolist()), strict=True
            ):
                if a == b:
                    count += 1
                    if len(named) < _MAX_NAMED:
                        named.append((one, other))
        if count:
            overlaps.append(Overlap(first, second, count, tuple(named)))
    return overlaps
