"""One pass over a loader: batches in their turn, what is ahead of them, and what stands in their way."""

from __future__ import annotations

import copy
import time
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from ..datasource.deferred import Deferred
from .batches import Batches, Ready
from .plan import Cursor

if TYPE_CHECKING:
    from .auto import Trial
    from .loader import DataLoader
    from .workers.workers import Passing

__all__ = ["LoaderIterator"]


class LoaderIterator(Iterator[Any]):
    """One pass. Holds the loader; the prefetch thread holds neither."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader
        self._previous: float | None = None
        self._runs: Passing | Trial | None = None
        self._ready: deque[Ready] = deque()
        self._converted: deque[Ready] = deque()
        self._error: Exception | None = None
        self._finished = False
        self._is_plain = loader._mask is None and loader._converter is None
        self._batches: Batches
        self._begin()

    @property
    def begun(self) -> Cursor:
        """How far the pass was when it began: whole epochs of it, and positions."""
        return Cursor(self._pass.start.epoch - self._pass.anchor.first_epoch, self._pass.start.position)

    def _begin(self) -> None:
        loader = self._loader
        self._pass = loader._progress.begin()
        self._cursor = self._pass.start
        self._drop()
        loader._go_to(self._pass.anchor)
        # What this pass goes by, should a state be loaded for a later one.
        self._workers, self._plan, self._order = loader._workers, loader._plan, copy.copy(loader._order)

    def __next__(self) -> Any:
        loader = self._loader
        if self._ready and self._is_plain and not loader._progress.is_stale(self._pass):
            return self._take_ready(loader)
        # A batch that is there is not waited for.
        asked = None if self._ready and loader._converter is None else time.perf_counter()
        try:
            if loader._progress.is_stale(self._pass):
                self._begin()
            self._fill()
            if not self._converted:
                loader._progress.finish(self._pass)
                raise StopIteration
            ready = self._converted.popleft()
            batch = ready.batch
            if loader._converter is not None:
                batch = loader._converter.finish(batch)
            loader._progress.deliver(self._pass, ready.cursor)
            self._cursor = ready.cursor
        except StopIteration:
            raise
        except BaseException:
            # An error in its turn, or Ctrl-C at any point: the next ``next`` starts anew behind the last batch delivered.
            self._drop()
            raise
        self._previous = loader._watch.delivered(ready.rows, asked, self._previous)
        return batch

    def _take_ready(self, loader: DataLoader) -> Any:
        """Return the next batch, which is there, and which nothing is to be done to: by far the most of all small ones."""
        try:
            batch, cursor, rows = self._ready.popleft()
            if type(batch) is Deferred:
                batch = self._make(batch)
            loader._progress.deliver(self._pass, cursor)
            self._cursor = cursor
        except BaseException:
            self._drop()
            raise
        self._previous = loader._watch.delivered(rows, None, self._previous)
        return batch

    def _make(self, deferred: Deferred) -> Any:
        start = time.perf_counter_ns()
        batch = deferred.make()
        self._loader._watch.finished(time.perf_counter_ns() - start)
        return batch

    def _fill(self) -> None:
        """Get the next batch ready, and start on those after it that are there already. Raises what stands in the way."""
        loader = self._loader
        ahead = 0 if loader._converter is None else loader._converter.ahead
        while len(self._converted) <= ahead:
            first = not self._converted
            if not self._ready and not ((first or (self._runs is not None and self._runs.ready)) and self._refill()):
                return
            batch, cursor, rows = self._ready[0]
            try:
                if type(batch) is Deferred:
                    batch = self._make(batch)
                if loader._mask is not None:
                    batch = loader._mask.add(batch, self._order.counts(cursor.epoch, cursor.position - rows, cursor.position))
                if loader._converter is not None:
                    start = time.perf_counter_ns()
                    batch = loader._converter.start(batch)
                    loader._watch.converted(time.perf_counter_ns() - start)
            except Exception:
                if first:
                    raise
                return  # not yet its turn
            self._ready.popleft()
            self._converted.append(Ready(batch, cursor, rows))

    def _refill(self) -> bool:
        """Get the next batches, at least one; return False if there are none left. Raises what stands in the way."""
        while not self._ready:
            if self._error is not None:
                if not self._converted:
                    raise self._error
                return False  # not yet its turn
            if self._finished:
                return False
            if (self._runs is None or self._runs.stale) and not self._open_runs():
                self._finished = True
                return False
            assert self._runs is not None
            queued = self._runs.ready
            try:
                made = next(self._runs)
            except Exception as error:
                self._error = error
                continue
            bounds = made.run.bounds
            self._loader._watch.refilled(made.times, bounds[len(made.batches)] - bounds[0], queued)
            if self._loader._warning is not None:
                self._loader._warning.look(self._loader._watch)
            ready, self._error = self._batches.take(made)
            if ready:
                self._fetched = ready[-1].cursor
                self._ready.extend(ready)
            if made.run.ends_epoch and made.run.epoch + 1 == self._pass.end_epoch and self._error is None:
                # What comes now is the next pass's.
                self._workers.keep(self._runs, Cursor(self._pass.end_epoch, 0))
                self._runs, self._finished = None, True
        return True

    def _open_runs(self) -> bool:
        """Begin to make what is not delivered yet; return False if there is nothing."""
        loader, end_epoch = self._loader, self._pass.end_epoch
        start = self._plan.normalise(self._fetched)
        if end_epoch is not None and (start.epoch >= end_epoch or not self._plan.batches_per_epoch):
            return False
        self._batches = Batches(
            loader._fetcher,
            self._order,
            self._plan,
            loader._faults,
            batch_size=loader.batch_size,
            drop_last=loader.drop_last,
            begun=self._order.begun() | ({(start.epoch, start.position): start.outputs} if start.outputs else {}),
            endless=self._pass.end_epoch is None,
        )
        self._runs = self._workers.open(start, end_epoch, partial(self._plan.cut, start))
        return True

    def _drop(self) -> None:
        """Forget what was read ahead."""
        runs, self._runs = self._runs, None
        self._error = None
        self._finished = False
        self._ready.clear()
        self._converted.clear()
        self._fetched = self._cursor
        if runs is not None:
            runs.close()
