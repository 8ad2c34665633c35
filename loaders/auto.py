"""``num_workers="auto"``: tries who makes batches fastest, on batches that are delivered, and goes on with that.

    1. In this process, for a moment. If training does not wait, or a batch takes less than what it costs to bring it over from
       a worker, that is the choice.
    2. In processes, once they have started; until then this process goes on.
    3. In threads, unless the processes have come close to what as many processors can do; then both again.

What counts is how fast training gets on with each, its own time included. The stream is the same whoever makes it, so trying
costs no record and repeats none: the ways share one list of what is to be made, and each goes on where the one before left off.
"""

from __future__ import annotations

import logging
import math
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from ..datasource.tasks import count_cpus
from .plan import Cursor, Run
from .runs import Made
from .telling.watch import Watch
from .workers import Workers, WorkerType

if TYPE_CHECKING:
    from .order import Order
    from .workers.workers import Passing

__all__ = ["AutoWorkers", "Choice", "Trial", "Way", "open_auto"]

_log = logging.getLogger("arrayfeed")

#: A moment: so long, and so many runs of batches, are looked at.
_MOMENT_S: Final = 0.5
_RUNS: Final = 4
#: Batches that are made sooner are not worth sending: bringing one over takes 30 to 100 us, 1 GB/s if it is large.
_WORTH_SENDING_S: Final = 300e-6
_SENT_BYTES_PER_S: Final = 1e9
#: Training that waits for less than this share is not helped by workers.
_WAITS: Final = 0.05
#: Processes that reach this share of what their number promises leave threads nothing to win.
_CLOSE: Final = 0.85
#: Each is measured as often: other programs only ever slow a way down, so that the better measurement is the truer.
_ROUNDS: Final = 2
#: So much faster than processes must another way be: they are what scales, and leave training's own process alone.
_BETTER: Final = 1.1


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

    def choose(self, count: int) -> Way | None:
        """Return the way to try next, with ``count`` workers; None once one is chosen, as it is here."""
        processes, threads = Way(count, "process"), Way(count, "thread")
        close = self.rates.get(processes, 0.0) > _CLOSE * count * self.rates[HERE]
        ways = [way for way in (processes, threads) if way not in self.ruled_out and self.kind in (None, way.kind)]
        following = min(ways, key=lambda way: self.rounds[way], default=HERE)
        if not close and self.rounds[following] < _ROUNDS and following != HERE:
            return following
        best = max(self.rates, key=lambda way: self.rates[way])
        alike = processes in self.rates and self.rates[processes] * _BETTER >= self.rates[best]
        self.settle(processes if alike else best, "as fast as any" if alike and best != processes else "fastest")
        return None


class AutoWorkers:
    """Stands for ``Workers`` where their number is to be found out.

    Args:
      make: Returns the workers of a way; raises ``TypeError`` where there cannot be any.
      choice: What is known already; shared with other workers of the same loader.
    """

    def __init__(self, make: Callable[[Way], Workers], choice: Choice) -> None:
        self._make = make
        self.choice = choice
        self._made: dict[Way, Workers] = {HERE: make(HERE)}

    def of(self, way: Way) -> Workers:
        """Return the workers of a way, made when first asked for."""
        if way not in self._made:
            self._made[way] = self._make(way)
        return self._made[way]

    def open(self, start: Cursor, end_epoch: int | None, cut: Callable[..., Iterator[Run]]) -> Passing | Trial:
        """Begin to make runs as ``Workers.open`` does, in several ways by turns while none is chosen."""
        if self.choice.chosen is not None:
            return self.of(self.choice.chosen).open(start, end_epoch, cut)
        return Trial(self, start, partial(cut, end_epoch))

    def keep(self, runs: Passing | Trial, following: Cursor) -> None:
        """Take back the runs of a pass that has come to its end; see ``Workers.keep``."""
        if isinstance(runs, Trial):
            runs.close()  # it has made nothing of what follows
        else:
            assert self.choice.chosen is not None
            self.of(self.choice.chosen).keep(runs, following)

    def close(self) -> None:
        """End what was started."""
        for workers in self._made.values():
            workers.close()

    def close_others(self, way: Way) -> None:
        """End what was started for any other way."""
        for other, workers in self._made.items():
            if other != way:
                workers.close()


def open_auto(make: Callable[..., Workers], choice: Choice, *, order: Order) -> AutoWorkers:
    """Return workers to be found out; ``make`` is ``Workers`` but for ``order``, ``count`` and ``kind``."""
    return AutoWorkers(lambda way: make(order=order, count=way.count, kind=way.kind, divides=False), choice)


class Trial(Iterator[Made]):
    """The runs of a pass, in order, made in one way after the other."""

    def __init__(self, workers: AutoWorkers, start: Cursor, cut: Callable[[Callable[[], int]], Iterator[Run]]) -> None:
        self._workers = workers
        self._start = start
        self._choice = workers.choice
        self._limit = _Limit()
        self._runs = cut(self._limit.read)
        self._count = 0
        self._following: Way | None = None
        self._enter(HERE)

    def _enter(self, way: Way) -> None:
        """Go on in another way. The one before it has ended: nobody else takes from the list."""
        self._way = way
        self._share = _Share(self._runs)
        self._passing: Passing = self._workers.of(way).open(self._start, None, partial(_take_over, self._share, self._limit))
        self._clock = _Clock(skip=1 + 2 * way.count)

    @property
    def stale(self) -> bool:
        """Whether this cannot go on."""
        return self._passing.stale

    @property
    def ready(self) -> int:
        """How many runs wait to be asked for."""
        return self._passing.ready

    def close(self) -> None:
        """End what is under way."""
        self._passing.close()

    def __next__(self) -> Made:
        while True:
            asked = time.perf_counter()
            made = next(self._passing, None)
            if made is not None:
                self._clock.count(asked, made)
                self._look()
                return made
            if not self._share.stopped:
                raise StopIteration  # the pass is over
            assert self._following is not None
            self._enter(self._following)
            self._following = None
            if self._choice.chosen is not None:
                self._workers.close_others(self._choice.chosen)

    def _look(self) -> None:
        """See whether there is enough to judge by, and what follows from it."""
        if self._share.stopped or self._choice.chosen is not None or not self._clock.is_enough:
            return
        if self._following is not None:  # processes that are starting
            self._share.stopped = self._workers.of(self._following).has_started
            return
        clock = self._clock
        self._choice.note(self._way, clock.rate)
        if self._way == HERE:
            if clock.waits < _WAITS:
                return self._choice.settle(HERE, f"training waits {clock.waits:.0%} of its time")
            if clock.made_s < _WORTH_SENDING_S + clock.nbytes / _SENT_BYTES_PER_S:
                return self._choice.settle(HERE, f"a batch takes {clock.made_s * 1e6:.0f} us, too little to be sent")
            self._count = count_workers(clock.made_s, clock.own_s)
        self._try_next()

    def _try_next(self) -> None:
        while (way := self._choice.choose(self._count)) is not None:
            try:
                starts = self._workers.of(way).start()
            except (TypeError, ValueError) as refusal:
                self._choice.ruled_out[way] = str(refusal)
                continue
            self._following = way
            self._share.stopped = not starts
            return
        assert self._choice.chosen is not None
        if self._choice.chosen != self._way:
            self._following = self._choice.chosen
            self._share.stopped = True


class _Share(Iterator[Run]):
    """What one way is given of the list: all that is left, until it is stopped."""

    def __init__(self, runs: Iterator[Run]) -> None:
        self._runs = runs
        self.stopped = False

    def __next__(self) -> Run:
        if self.stopped:
            raise StopIteration
        return next(self._runs)


class _Limit:
    """How long runs may be: as the way says that makes them now. Refers to no trial, so that a forgotten one ends at once."""

    def __init__(self) -> None:
        self.max_batches: Callable[[], int] = int

    def read(self) -> int:
        return max(1, self.max_batches())


def _take_over(share: _Share, limit: _Limit, end_epoch: int | None, max_batches: Callable[[], int]) -> Iterator[Run]:
    limit.max_batches = max_batches
    return share


class _Clock:
    """Measures how training gets on with one way, but for its first runs, ``skip`` of them: nothing was made ahead of those,
    and memory is touched for the first time."""

    def __init__(self, skip: int) -> None:
        self._skip = skip
        self._now = 0.0
        self._waited_s = 0.0
        self._own_s: list[float] = []
        self._measured_s = 0.0
        self._runs = self._batches = self._records = self._nbytes = 0
        self._made_s: list[float] = []

    def count(self, asked: float, made: Made) -> None:
        """Count a run that was asked for at ``asked`` and has just come."""
        previous, self._now = self._now, time.perf_counter()
        if self._skip:
            self._skip -= 1
            return
        self._own_s.append(asked - previous)
        self._waited_s += self._now - asked
        self._measured_s += self._now - asked + min(asked - previous, _MOMENT_S / _RUNS)
        self._runs += 1
        batches = len(made.run.bounds) - 1
        self._batches += batches
        self._records += made.run.bounds[-1] - made.run.bounds[0]
        self._made_s.append(made.times.made_ns / 1e9 / batches)
        self._nbytes += made.times.nbytes

    @property
    def is_enough(self) -> bool:
        return self._runs >= _RUNS and self._measured_s >= _MOMENT_S

    @property
    def _elapsed_s(self) -> float:
        """Seconds of waiting and of training; pauses, such as for validation, are cut short."""
        longest = 4 * statistics.median(self._own_s) if self._own_s else 0.0
        return max(1e-9, self._waited_s + sum(min(own_s, longest) for own_s in self._own_s))

    @property
    def rate(self) -> float:
        """Records a second, training included."""
        return self._records / self._elapsed_s

    @property
    def waits(self) -> float:
        """Share of the time that training waited."""
        return self._waited_s / self._elapsed_s

    @property
    def made_s(self) -> float:
        """Seconds of work on a batch; the median, which other programs' turns on the processor are not in."""
        return statistics.median(self._made_s)

    @property
    def nbytes(self) -> float:
        """Bytes of a batch."""
        return self._nbytes / self._batches

    @property
    def own_s(self) -> float:
        """Seconds that training takes for a batch when it does not wait."""
        return (self._elapsed_s - self._waited_s) / self._batches


def count_workers(made_s: float, own_s: float) -> int:
    """Return how many workers make batches in ``made_s`` each as fast as training uses them, but no more than processors.

    Ranks that torchrun has started on this machine share its processors.
    """
    ranks = os.environ.get("LOCAL_WORLD_SIZE", "")
    cpus = max(1, count_cpus() // max(1, int(ranks) if ranks.isdecimal() else 1))
    needed = math.ceil(1.25 * made_s / own_s) if own_s > made_s / cpus else cpus
    return max(1, min(cpus, needed))
