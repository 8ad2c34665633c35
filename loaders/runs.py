"""Makes runs of batches: reads, transforms and collates what a plan has cut."""

from __future__ import annotations

import copy
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from ..datasource.columns import count_bytes
from ..datasource.deferred import Deferred
from ..datasource.laps import Laps
from .fetch import Defers, Fetcher
from .in_hand import NOTHING, mark
from .plan import Run
from .rows import Allocate
from .state.order import Order
from .task import Task
from .telling.times import Times
from .worker_info import WorkerInfo, enter_worker

__all__ = ["Made", "RunMaker"]

#: Small batches are made several at a time, up to this many bytes: 2 MiB stay in the last-level cache, and one batch of them
#: that somebody keeps holds no more than these.
_RUN_BYTES = 2 << 20
_RUN_BATCHES = 64
#: Once all records of a source are known, looking up where they are is all that is left: of so many at a time, as the tables of
#: a small source stay in the cache meanwhile. An epoch of 60,000 small images takes 0.93 of the time of runs of 64 batches.
_RUN_RECORDS = 1 << 16
_SETTLED_BATCHES = 512


@dataclass(frozen=True, slots=True)
class Made:
    """The batches of a run, or chunks; where one failed, those before it, and why. ``times`` says what took how long."""

    run: Run
    batches: list[Any]
    error: Exception | None
    times: Times = field(default=Times(), compare=False)

    @property
    def is_light(self) -> bool:
        """Whether making it waited for nothing, and neither will making the next: only small arrays of what is known."""
        last = self.batches[-1] if self.batches else None
        return type(last) is Deferred and last.is_settled


class RunMaker:
    """Turns runs into batches, for one pass. Used by one thread at a time; holds nothing of loader or iterator.

    Args:
      fetcher, order: What makes batches, and of which records.
      info: The worker that it belongs to; None where that is none.
      defers: See ``Fetcher.fetch_run``.
    """

    def __init__(self, fetcher: Fetcher, order: Order, info: WorkerInfo | None = None, *, defers: Defers = "none") -> None:
        self._fetcher = fetcher
        self._order = copy.copy(order)  # passes that run side by side do not disturb each other
        self._ahead = fetcher.read_ahead(self._order)
        self._info = info
        self._defers = defers
        self._max_batches = 1

    def max_batches(self) -> int:
        """Return how many batches the next run may have."""
        return self._max_batches

    def make(self, run: Run, allocate: Allocate = np.empty) -> Made:
        """Return the batches of a run. An error ends it early: the batches before it come all the same, and in their turn.

        Args:
          allocate: Where their large arrays may lie.
        """
        batches: list[Any] = []
        error: Exception | None = None
        mark(NOTHING)
        busy_ns = -time.thread_time_ns()
        try:
            enter_worker(self._info)
            with Laps() as laps:
                run = self._fetch(run, batches, allocate)
        except StopIteration as caught:
            # Passed on as it is, it would end the user's loop as if all was read.
            error = RuntimeError("the source, a transform or collate_fn raised StopIteration")
            error.__cause__ = caught
        except Exception as caught:
            error = caught
        # Texts may differ: two batches are looked at, and the next run is made to fit.
        sizes = [count_bytes(batches[k]) for k in {0, len(batches) - 1}] if batches else [0]
        if batches and self._fetcher.takes_runs:
            self._max_batches = max(1, self._limit(batches[-1], max(sizes), run.bounds[1] - run.bounds[0]))
        worker = 0 if self._info is None else self._info.id
        nbytes = sum(sizes) * len(batches) // len(sizes)
        times = Times(worker, laps.start_ns, tuple(laps.spent_ns), nbytes, busy_ns + time.thread_time_ns())
        return Made(run, batches, error, times)

    def _limit(self, batch: Any, nbytes: int, records: int) -> int:
        """Return how many batches like one of a run the next may be of."""
        # Of deferred batches only the addresses are there: the longer the run, the less its some 30 array operations cost.
        if type(batch) is Deferred and batch.is_settled:
            return max(_RUN_BATCHES, min(_SETTLED_BATCHES, _RUN_RECORDS // records))
        if type(batch) is Deferred or (self._defers == "all" and self._fetcher.lays):
            return _RUN_BATCHES
        return min(_RUN_BATCHES, _RUN_BYTES // max(1, nbytes))

    def _fetch(self, run: Run, batches: list[Any], allocate: Allocate) -> Run:
        """Append the batches of a run to ``batches``, as far as it goes; return the run, as one batch if it was made as one."""
        first = run.bounds[0]
        if self._ahead is not None:
            self._ahead.move(run.epoch, first, run.bounds[-1])
        indices = self._order.records(run.epoch, first, run.bounds[-1])
        bounds = [bound - first for bound in run.bounds]
        if len(bounds) > 2 or self._fetcher.lays:
            with suppress(Exception):  # of which batch it is, the loop below finds out
                made = self._fetcher.fetch_run(indices, bounds, defers=self._defers)
                batches += made
                return run if len(made) == len(bounds) - 1 else replace(run, bounds=(first, run.bounds[-1]))
        for start, stop in pairwise(bounds):
            task = Task(self._order, run.epoch, first + start, indices[start:stop], allocate)
            if not self._fetcher.makes_chunks:
                batches.append(self._fetcher.fetch(task))
                continue
            chunk, error = self._fetcher.fetch_chunk(task)
            batches.append(chunk)
            if error is not None:
                raise error
        return run
