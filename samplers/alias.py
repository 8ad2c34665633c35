"""Drawing with given weights in constant time: an alias table, built without a loop and exact to the integer."""

import math
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["AliasTable"]

_U64 = npt.NDArray[np.uint64]

# Weights become integers that sum to n << bits; the sum must stay below 2**62.
_TOTAL_BITS: Final = 62
_MOST_BITS: Final = 32


class AliasTable:
    """Draws ``i`` with a chance proportional to ``weights[i]`` from two random words.

    Walker's alias method (*ACM TOMS* 3(3), 1977): a row of `n` cells of equal mass, each shared by at most two numbers.
    The cells are filled in one sweep, lights from the left and heavies from the left, which prefix sums turn into two
    binary searches (Hübschle-Schneider and Sanders, *Parallel Weighted Random Sampling*, ESA 2019). All sums are of
    integers, so the table is the same on every machine.

    Weights are rounded to a multiple of ``2**-bits / n`` of their sum, where ``bits`` is 32 for up to 2**30 numbers. A
    weight of zero stays zero: it is never drawn. A positive weight below half a unit may be rounded to zero.

    Args:
      weights: float64, one dimension, finite, not negative, at least one positive; fewer than 2**40 of them.
    """

    __slots__ = ("_bits", "alias", "threshold")

    def __init__(self, weights: npt.NDArray[np.float64]) -> None:
        count = len(weights)
        self._bits = min(_MOST_BITS, _TOTAL_BITS - count.bit_length())
        cell = 1 << self._bits
        mass = _round_to_sum(weights, count * cell)
        self.threshold = mass.copy()
        self.alias = np.arange(count)
        light, heavy = np.flatnonzero(mass < cell), np.flatnonzero(mass >= cell)
        if not len(light):
            return
        # Heavies give what lights lack, both in turn. `lack` and `spare` are running totals; where the first passes the
        # second, a heavy has given so much that it is itself short, and the next heavy fills it up.
        lack = np.cumsum(cell - mass[light])
        spare = np.cumsum(mass[heavy] - cell)
        before = np.concatenate(([0], lack[:-1]))
        self.alias[light] = heavy[np.searchsorted(spare, before, side="left")]
        passed = np.searchsorted(lack, spare, side="right")
        short = np.flatnonzero(passed < len(lack))
        self.threshold[heavy] = cell
        self.threshold[heavy[short]] = cell + spare[short] - lack[passed[short]]
        self.alias[heavy[short]] = heavy[np.minimum(short + 1, len(heavy) - 1)]

    def draw(self, cells: _U64, levels: _U64) -> npt.NDArray[np.int64]:
        """Return one number for each pair of uniformly random 64-bit words."""
        size = len(self.alias)
        bits = size.bit_length()
        chosen = (((cells >> np.uint64(bits)) * np.uint64(size)) >> np.uint64(64 - bits)).astype(np.int64)
        level = (levels >> np.uint64(64 - self._bits)).astype(np.int64)
        np.copyto(chosen, self.alias[chosen], where=level >= self.threshold[chosen])
        return chosen


def _round_to_sum(weights: npt.NDArray[np.float64], total: int) -> npt.NDArray[np.int64]:
    """Return integers that are proportional to `weights` to within rounding and sum to `total` exactly."""
    # fsum is exact, so that the scale does not depend on the order in which a machine adds. Divided by the largest
    # first, so that neither the sum nor the scale leaves the range of floats.
    shares = weights / weights.max()
    shares /= math.fsum(shares)
    rounded: npt.NDArray[np.int64] = np.rint(shares * total).astype(np.int64)
    # What rounding added or lost, at most half a unit a number, is settled with the largest.
    rounded[np.argmax(rounded)] += total - int(rounded.sum())
    return rounded
