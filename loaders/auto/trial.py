"""Tries one way after the other on the batches of a pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from ..plan import Cursor, Run
from ..runs import Made
from ..workers import Workers
from .choice import HERE, Choice, Way, count_threads, count_workers
from .clock import Clock

if TYPE_CHECKING:
    from ..state.order import Order
    from ..workers.workers import Passing

__all__ = ["AutoWorkers", "Trial", "open_auto"]

#: Batches that are made sooner are not worth sending: bringing one over takes 30 to 100 us, 1 GB/s if it is large.
_WORTH_SENDING_S: Final = 300e-6
_SENT_BYTES_PER_S: Final = 1e9
#: Training that waits for less than this share is not helped by workers.
_WAITS: Final = 0.05


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
        self._count = self._num_threads = 0
        self._following: Way | None = None
        self._enter(HERE)

    def _enter(self, way: Way) -> None:
        """Go on in another way. The one before it has ended: nobody else takes from the list."""
        self._way = way
        self._share = _Share(self._runs)
        self._passing: Passing = self._workers.of(way).open(self._start, None, partial(_take_over, self._share, self._limit))
        self._clock = Clock(skip=1 + 2 * way.count)

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
            self._num_threads = count_threads(clock.made_s, clock.own_s, clock.busy)
        self._try_next()

    def _try_next(self) -> None:
        while (way := self._choice.choose(self._count, self._num_threads)) is not None:
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
