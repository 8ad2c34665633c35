"""Which ways of making batches there are, what was measured of each, and which follows from that. Starts nothing."""

from __future__ import annotations

import logging
import math
import os
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from ...datasource.processors import count_cpus
from ..telling.watch import Watch
from ..workers import WorkerType

__all__ = ["HERE", "Choice", "Way", "count_threads", "count_workers"]

_log = logging.getLogger("arrayfeed")

#: Processes that reach this share of what their number promises leave threads nothing to win.
_CLOSE: Final = 0.85
#: Each is measured as often: other programs only ever slow a way down, so that the better measurement is the truer.
_ROUNDS: Final = 2
#: So much faster than processes must another way be: they are what scales, and leave training's own process alone.
_BETTER: Final = 1.1
#: Work that has a processor for less than this share of its time is done by more threads than there are processors. Threads
#: cost little, should it turn out that they wait for their turn on a busy machine; but each has batches made ahead, so that
#: there are at most so many for each processor.
_BUSY: Final = 0.5
_MOST_THREADS: Final = 4


@dataclass(frozen=True, slots=True)
class Way:
    """How batches can be made: ``count`` workers of a kind, 0 for none."""

    count: int
    kind: WorkerType = "process"

    def __str__(self) -> str:
        if not self.count:
            return "in this process"
        plural = ("es" if self.kind == "process" else "s") if self.count > 1 else ""
        return f"in {self.count} {self.kind}{plural}"


HERE: Final = Way(0)


@dataclass(slots=True)
class Choice:
    """What was found out so far, for one loader.

    Attributes:
      rates: Records a second that training got through, by way; the best of several measurements.
      rounds: How often each was measured.
      ruled_out: Ways that cannot be, and why.
      chosen: The way to go on with; None while that is not known.
      kind: The only type of worker to try; None tries both.
    """

    watch: Watch
    kind: WorkerType | None = None
    rates: dict[Way, float] = field(default_factory=dict)
    rounds: Counter[Way] = field(default_factory=Counter)
    ruled_out: dict[Way, str] = field(default_factory=dict)
    chosen: Way | None = None

    def note(self, way: Way, rate: float) -> None:
        """Note a measurement."""
        self.rates[way] = max(rate, self.rates.get(way, 0.0))
        self.rounds[way] += 1

    def settle(self, way: Way, reason: str) -> None:
        """Choose a way for good, and say why."""
        self.chosen = way
        found = "; ".join(f"{rate:,.0f} records/s {tried}" for tried, rate in self.rates.items())
        out = "".join(f"; not {way}: {reason}" for way, reason in self.ruled_out.items())
        self.watch.num_workers, self.watch.worker_type = way.count, way.kind
        self.watch.choice = f'num_workers="auto" makes batches {way}: {reason} ({found}{out})'
        _log.info(self.watch.choice)

    def choose(self, count: int, num_threads: int | None = None) -> Way | None:
        """Return the way to try next, of ``count`` processes, or ``num_threads`` threads, None for as many; None once one is
        chosen, as it is here."""
        processes, threads = Way(count, "process"), Way(num_threads or count, "thread")
        close = self.rates.get(processes, 0.0) > _CLOSE * threads.count * self.rates[HERE]
        ways = [way for way in (processes, threads) if way not in self.ruled_out and self.kind in (None, way.kind)]
        following = min(ways, key=lambda way: self.rounds[way], default=HERE)
        if not close and self.rounds[following] < _ROUNDS and following != HERE:
            return following
        best = max(self.rates, key=lambda way: self.rates[way])
        alike = processes in self.rates and self.rates[processes] * _BETTER >= self.rates[best]
        self.settle(processes if alike else best, "as fast as any" if alike and best != processes else "fastest")
        return None


def count_workers(made_s: float, own_s: float) -> int:
    """Return how many workers make batches in ``made_s`` each as fast as training uses them, but no more than processors."""
    cpus = _count_own_cpus()
    needed = math.ceil(1.25 * made_s / own_s) if own_s > made_s / cpus else cpus
    return max(1, min(cpus, needed))


def count_threads(made_s: float, own_s: float, busy: float) -> int:
    """Return how many threads do so, of which each has a processor for ``busy`` of the time that it works."""
    cpus = _count_own_cpus()
    most = cpus if busy > _BUSY else min(_MOST_THREADS * cpus, math.ceil(cpus / max(1e-9, busy)))
    needed = math.ceil(1.25 * made_s / own_s) if own_s > made_s / most else most
    return max(1, min(most, needed))


def _count_own_cpus() -> int:
    """Return this rank's processors: those that torchrun has started on this machine share them."""
    ranks = os.environ.get("LOCAL_WORLD_SIZE", "")
    return max(1, count_cpus() // max(1, int(ranks) if ranks.isdecimal() else 1))
