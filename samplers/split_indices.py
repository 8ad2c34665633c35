"""Indices shared out at random between splits, by fractions."""

import math
import operator
from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from .keys import root_words
from .permutation import Permutation

__all__ = ["split_indices"]


def split_indices(length: int, fractions: Mapping[str, float], *, seed: int = 0) -> dict[str, npt.NDArray[np.int64]]:
    """Return which of ``range(length)`` each split gets: disjoint, together all of them, the same on any machine.

        parts = split_indices(len(source), {"train": 0.9, "val": 0.1}, seed=1)
        train, val = source.select(parts["train"]), source.select(parts["val"])

    A random permutation is cut at the fractions' running totals, rounded: no split is off its fraction by one index or
    more. Each split's indices are sorted, so that reading them in order is sequential.

    Args:
      length: ``0 <= length < 2**63``. Memory: 8 bytes an index.
      fractions: Of each split, none negative, 1 in all (but for rounding: 1/3 may be given three times).
      seed: Any integer; each gives another division. So does another order of the splits.

    Raises:
      TypeError: ``length`` or ``seed`` is no integer.
      ValueError: ``length`` is negative, or the fractions are not as described.
    """
    length = operator.index(length)
    for name, fraction in fractions.items():
        if not (math.isfinite(fraction) and fraction >= 0):
            raise ValueError(f"split {name!r} cannot have the fraction {fraction!r}; it must be 0 or more")
    total = math.fsum(fractions.values())
    if abs(total - 1) > 1e-9:
        raise ValueError(
            f"the fractions {dict(fractions)} make {total:g} in all, not 1; name a split for what is to be left over"
        )
    first, second, *_ = root_words(seed, "arrayfeed.split_indices")
    permutation = Permutation(length, (first, second))
    bounds, reached = [0], Fraction(0)
    for fraction in fractions.values():
        reached += Fraction(repr(float(fraction)))  # the decimal that was meant: 0.1 is a tenth
        bounds.append(min(math.floor(reached * length + Fraction(1, 2)), length))
    bounds[-1] = length
    parts = (np.sort(permutation.forward(np.arange(start, stop))) for start, stop in pairwise(bounds))
    return dict(zip(fractions, parts, strict=True))
