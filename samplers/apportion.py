"""Turns taken in exact proportion: which of several sources comes at any turn, without counting up to it.

A binary tree over the sources. At each node the turns that reach it are shared between its two sides as evenly as whole
numbers allow: of the first ``t`` turns the left side, with weight ``a`` of ``a + b``, gets ``t * a / (a + b)`` rounded
  to the
nearest. Each count is a closed formula in integers, so any turn is found in as many steps as the tree is deep, and the
pattern repeats itself exactly after ``sum(weights)`` turns.
"""

import heapq
import math
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["Apportionment", "whole_weights"]

_I64 = npt.NDArray[np.int64]

# Weights sum to at most this, so that the products of two of them, doubled, fit in an int64.
_MOST: Final = 1 << 30
# Up to this period the drift is measured, over one period, in 2 ms a tree.
_MEASURED: Final = 1 << 14
# With more sources, joining like with like (quadratic in their number) takes longer than a tenth of a second.
_MANY: Final = 256


def whole_weights(weights: Sequence[float | Fraction]) -> tuple[int, ...]:
    """Return the smallest whole numbers in the same proportion: 0.7, 0.2 and 0.1 are 7, 2 and 1.

    A float counts as the decimal that `repr` shows. Where no whole numbers that sum to 2**30 or less will do, the
    closest ones that do, each at least 1: off by at most one in 2**30 turns.

    Raises:
      TypeError: If a weight is no number.
      ValueError: If there is none, or one is not positive and finite.
    """
    exact = []
    for place, weight in enumerate(weights):
        try:
            exact.append(Fraction(repr(float(weight))) if isinstance(weight, float) else Fraction(weight))
        except (ValueError, OverflowError):
            raise ValueError(f"weights[{place}] is {weight!r}; it must be positive and finite") from None
        if exact[-1] <= 0:
            raise ValueError(f"weights[{place}] is {weight!r}; it must be positive. Leave a source out to give it no turn")
    if not exact:
        raise ValueError("there are no weights; at least one source is needed")
    unit = math.lcm(*(weight.denominator for weight in exact))
    whole = [int(weight * unit) for weight in exact]
    factor = math.gcd(*whole)
    whole = [weight // factor for weight in whole]
    total = sum(whole)
    if total > _MOST:
        room = _MOST - len(whole)
        whole = [max(1, round(Fraction(weight * room, total))) for weight in whole]
    return tuple(whole)


@dataclass(frozen=True, slots=True)
class _Node:
    """A leaf is a source; any other node has two sides."""

    weight: int
    source: int
    left: "_Node | None" = None
    right: "_Node | None" = None


class Apportionment:
    """Who takes each turn, and for which time, when sources take turns in proportion to whole weights.

    For weights 3 and 1:

        turn      0  1  2  3  4  5  6  7
        source    0  0  1  0  0  0  1  0
        draw      0  1  0  2  3  4  1  5

    Immutable; threads may share it. Memory: 40 bytes a source.

    Args:
      weights: Positive integers that sum to at most 2**30 (see `whole_weights`).

    Attributes:
      period: Turns after which the pattern repeats, each source having had exactly its weight.
      drift: By how much the draws of any source differ at most from ``turns * weight / period``, after any number of
        turns: exact for periods up to 16,384, else a bound. Below 1 for up to four sources and for equal weights; of
          weights in
        whole percents for five to ten sources, 3 in 100 give more than 1, and hardly any more than 1.15.
    """

    def __init__(self, weights: Sequence[int]) -> None:
        self.weights = tuple(weights)
        self.period = sum(self.weights)
        leaves = [_Node(weight, source) for source, weight in enumerate(self.weights)]
        # Which tree drifts least depends on the weights: folding keeps it shallow, Huffman's keeps heavy sources near
        # the top, and joining like with like keeps both sides of a node in balance.
        found: tuple[float, _Node] | None = None
        builders = (_join_like, _huffman, _fold) if len(leaves) <= _MANY else (_huffman, _fold)
        for build in builders:
            root = build(leaves)
            self._flatten(root)
            drift = self._measure() if self.period <= _MEASURED else _bound(root)
            if found is None or drift < found[0]:
                found = drift, root
        assert found is not None
        self.drift = found[0]
        self._flatten(found[1])

    def split(self, turns: _I64) -> tuple[_I64, _I64]:
        """Return the source that takes each turn, and how many turns it took before.

        Args:
          turns: Any shape, ``turn >= 0``.
        """
        node = np.zeros(turns.shape, np.int64)
        draws = turns.copy()
        for _ in range(self._depth):
            # A leaf is a node whose left side is itself with all the weight: its turns stay what they are.
            left, total = self._left_weight[node], self._weight[node]
            rounds = draws // total
            rest = draws - rounds * total
            double = 2 * total
            before = (2 * rest * left + total) // double
            goes_left = (2 * (rest + 1) * left + total) // double > before
            before += rounds * left
            draws = np.where(goes_left, before, draws - before)
            node = np.where(goes_left, self._left[node], self._right[node])
        return self._source[node], draws

    def counts(self, turns: int) -> list[int]:
        """Return how many of the first `turns` turns each source takes."""
        counts = [0] * len(self.weights)
        todo = [(0, turns)]
        while todo:
            node, here = todo.pop()
            if self._left[node] == node:
                counts[self._source[node]] = here
                continue
            total = int(self._weight[node])
            left = (2 * here * int(self._left_weight[node]) + total) // (2 * total)
            todo += [(int(self._left[node]), left), (int(self._right[node]), here - left)]
        return counts

    def turn_of(self, source: int, draw: int) -> int:
        """Return the turn at which a source takes its draw number `draw`, from 0 on: the inverse of `split`."""
        for total, weight, on_left in self._paths[source]:
            # The smallest number of turns whose share, rounded as in `split`, is draw + 1; minus one.
            odd = (2 * draw + 1) * total
            draw = -(-odd // (2 * weight)) - 1 if on_left else odd // (2 * weight)
        return draw

    def _measure(self) -> float:
        """Return the largest drift in a period; it is largest right before a draw or right after one."""
        turns = np.arange(self.period)
        sources, draws = self.split(turns)
        shares = np.array(self.weights)[sources]
        before = np.abs(draws * self.period - turns * shares).max()
        after = np.abs((draws + 1) * self.period - (turns + 1) * shares).max()
        return float(max(before, after)) / self.period

    def _flatten(self, root: _Node) -> None:
        """Lay the tree out as arrays, the root first."""
        order: list[_Node] = []
        paths: dict[int, list[tuple[int, int, bool]]] = {}
        todo: list[tuple[_Node, list[tuple[int, int, bool]]]] = [(root, [])]
        while todo:
            node, path = todo.pop()
            order.append(node)
            if node.left is None or node.right is None:
                paths[node.source] = path[::-1]
                continue
            todo.append((node.left, [*path, (node.weight, node.left.weight, True)]))
            todo.append((node.right, [*path, (node.weight, node.right.weight, False)]))
        number = {id(node): place for place, node in enumerate(order)}
        self._depth = max(map(len, paths.values()))
        self._paths = [tuple(paths[source]) for source in range(len(self.weights))]
        self._weight = np.array([node.weight for node in order])
        self._left_weight = np.array([(node.left or node).weight for node in order])
        self._left = np.array([number[id(node.left or node)] for node in order])
        self._right = np.array([number[id(node.right or node)] for node in order])
        self._source = np.array([node.source for node in order])


def _join_like(nodes: list[_Node]) -> _Node:
    """Join the two neighbours by weight that are lightest and most alike, until one node is left."""
    nodes = sorted(nodes, key=lambda node: (node.weight, node.source))
    while len(nodes) > 1:
        # (a + b)**2 * b / a for a <= b, compared as whole numbers would be: ties go to the first pair.
        costs = [Fraction((a.weight + b.weight) ** 2 * b.weight, a.weight) for a, b in pairwise(nodes)]
        place = costs.index(min(costs))
        light, heavy = nodes[place : place + 2]
        del nodes[place : place + 2]
        insort(nodes, _join(heavy, light), key=lambda node: node.weight)
    return nodes[0]


def _fold(nodes: list[_Node]) -> _Node:
    """Pair the heaviest with the lightest, and so on inwards, until one node is left."""
    while len(nodes) > 1:
        nodes = sorted(nodes, key=lambda node: (-node.weight, node.source))
        middle = [nodes[len(nodes) // 2]] if len(nodes) % 2 else []
        pairs = zip(nodes[: len(nodes) // 2], reversed(nodes), strict=False)
        nodes = [*(_join(heavy, light) for heavy, light in pairs), *middle]
    return nodes[0]


def _huffman(nodes: list[_Node]) -> _Node:
    """Join the two lightest until one node is left."""
    heap = [(node.weight, order, node) for order, node in enumerate(nodes)]
    heapq.heapify(heap)
    for order in range(len(nodes), 2 * len(nodes) - 1):
        _, _, light = heapq.heappop(heap)
        _, _, heavy = heapq.heappop(heap)
        node = _join(heavy, light)
        heapq.heappush(heap, (node.weight, order, node))
    return heap[0][2]


def _join(left: _Node, right: _Node) -> _Node:
    return _Node(left.weight + right.weight, -1, left, right)


def _bound(root: _Node) -> float:
    """Return a bound on how far any source drifts: each node adds half a turn to its share of the drift above it."""
    worst = 0.0
    todo = [(root, 0.0)]
    while todo:
        node, above = todo.pop()
        worst = max(worst, above)
        for side in (node.left, node.right):
            if side is not None:
                todo.append((side, above * side.weight / node.weight + 0.5))
    return worst
