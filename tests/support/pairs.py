"""Two ways of doing the same, measured by turns: a machine that is slow for a while is slow for both."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["compare", "read_all"]


def compare(what: str, ours: Callable[[], float], theirs: Callable[[], float], count: int, pairs: int) -> float:
    """Print and return how many times faster ``ours`` is than ``theirs``: the median of the ratios of ``pairs`` pairs.

    Args:
      ours, theirs: Do the same ``count`` things, and return the seconds that took.
    """
    our_s: list[float] = []
    their_s: list[float] = []
    for pair in range(pairs):
        ways = [(ours, our_s), (theirs, their_s)]
        for way, seconds in ways if pair % 2 else reversed(ways):
            seconds.append(way())
    ratios = sorted(theirs / ours for ours, theirs in zip(our_s, their_s, strict=True))
    median: float = statistics.median(ratios)
    our_us, their_us = (statistics.median(seconds) / count * 1e6 for seconds in (our_s, their_s))
    print(
        f"{what}: {our_us:.2f} us against {their_us:.2f} us, {median:.2f} times as fast "
        f"({ratios[0]:.2f} to {ratios[-1]:.2f} in {pairs} pairs)"
    )
    return median


def read_all(source: Sequence[Any], indices: Sequence[int], clock: Callable[[], float] = time.process_time) -> float:
    """Return the seconds it takes to read the elements at ``indices`` one by one.

    Args:
      clock: By default the processor's time: two ways that both wait for nothing are told apart on a machine that has other
        things to do, too. One that waits, for threads of its own, needs ``time.perf_counter``, and so does the other then.
    """
    start = clock()
    for index in indices:
        source[index]
    return clock() - start
