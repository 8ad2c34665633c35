"""How far a set of orders is from uniformly random ones, in standard deviations, by several measures."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["chi_square", "deviations"]

_I64 = npt.NDArray[np.int64]


def chi_square(counts: npt.NDArray[np.float64] | _I64, expected: npt.NDArray[np.float64] | float, freedom: int) -> float:
    """Return Pearson's statistic of counts as standard deviations from its mean (for many degrees of freedom)."""
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return float((statistic - freedom) / (2 * freedom) ** 0.5)


def deviations(orders: _I64) -> dict[str, float]:
    """Return measures of orders of ``range(n)``, one a row; each is about normal, with mean 0 and variance 1 or less.

    position        does every record come at every place equally often, over all orders?
    locality        is, within each order, a stretch of places filled from all over the data set?
    successor       is each distance from a record to the next one, modulo n, equally likely?
    displacement    are records as far from their own places as chance puts them?
    same_place      how many records have the same place in two orders that follow each other? (1 on average)
    """
    rows, n = orders.shape
    found = {"position": _position(orders, min(n, 32)), "successor": _successor(orders)}
    found["displacement"] = _displacement(orders)
    if n >= 1000:
        blocks = 10
        single = [_position(order[None], blocks) for order in orders]
        found["locality"] = float(np.sum(single)) / len(single) ** 0.5
    if rows > 1:
        same = int((orders[1:] == orders[:-1]).sum())
        found["same_place"] = (same - (rows - 1)) / (rows - 1) ** 0.5
    return found


def _position(orders: _I64, blocks: int) -> float:
    """Compare how many records of each stretch of the data set come in each stretch of places."""
    rows, n = orders.shape
    edges = np.arange(n) * blocks // n
    sizes = np.bincount(edges).astype(np.float64)
    table = np.bincount((edges * blocks + edges[orders]).ravel(), minlength=blocks * blocks).reshape(blocks, blocks)
    expected = rows * np.outer(sizes, sizes) / n
    # Every place has one record and every record one place: that leaves (n - 1) / n of the variance of free counts.
    spread = (n / (n - 1)) ** 0.5
    return chi_square(expected + (table - expected) / spread, expected, (blocks - 1) ** 2)


def _successor(orders: _I64) -> float:
    n = orders.shape[1]
    distance = (orders[:, 1:] - orders[:, :-1]) % n
    bins = min(n - 1, 64)
    counts = np.bincount((distance.ravel() - 1) * bins // (n - 1), minlength=bins)
    sizes = np.bincount(np.arange(n - 1) * bins // (n - 1), minlength=bins)
    return chi_square(counts, distance.size * sizes / (n - 1), bins - 1)


def _displacement(orders: _I64) -> float:
    """Compare the sum of displacements with its mean and variance in random permutations (Diaconis, Graham 1977)."""
    rows, n = orders.shape
    total = float(np.abs(orders - np.arange(n)).sum(dtype=np.float64))
    mean = (n * n - 1) / 3
    variance = (n + 1) * (2 * n * n + 7) / 45
    return float((total - rows * mean) / (rows * variance) ** 0.5)
