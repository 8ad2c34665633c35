"""One pass over a loader: batches in their turn, what is ahead of them, and what stands in their way."""

from __future__ import annotations

import copy
import json
from collections import deque
from collections.abc import Iterator
from functools import partial
from time import perf_counter, perf_counter_ns
from typing import TYPE_CHECKING, Any

from ..datasource.deferred import Deferred
from ..samplers import StateError
from .batches import Batches, Ready
from .plan import Cursor, Run
from .state.progress import Pass

if TYPE_CHECKING:
    from .auto import Trial
    from .loader import DataLoader
    from .workers.workers import Passing

__all__ = ["LoaderIterator"]


class LoaderIterator(Iterator[Any]):
    """One pass, which begins when something is first asked for: frameworks make iterators to see whether they can.

    Holds the loader; the prefetch thread holds neither.

    ``get_state``, ``set_state`` and ``start_prefetch`` are what Grain's iterators have, and what Orbax saves and restores with
    ``grain.checkpoint.CheckpointSave`` and ``CheckpointRestore``.
    """

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
        self._pass: Pass
        self._begun = False

    def get_state(self) -> bytes:
        """Return ``state_dict`` of the loader as JSON text: where this pass stands.

        Raises:
          RuntimeError: Another pass has begun after this one; see ``set_state``.
        """
        self._ready_for_state()
        return json.dumps(self._loader.state_dict()).encode()

    def set_state(self, state: bytes) -> None:
        """Go on in this pass, and the loader with it, where ``get_state`` or ``state_dict`` was taken.

        Raises:
          RuntimeError: Another pass has begun after this one: a loader has one place, which is the latest pass's.
          StateError: It is no such state, or of another stream; says what differs.
        """
        self._ready_for_state()
        try:
            state_dict = json.loads(state)
        except ValueError as error:
            raise StateError(f"the state of {len(state)} bytes is no JSON: {error}") from error
        self._loader.load_state_dict(state_dict)

    def start_prefetch(self) -> None:
        """Let workers, or the prefetch thread, start before the first ``next``. May be called at any time."""
        self._ensure_begun()
        if self._runs is None and not (self._ready or self._converted or self._finished) and not self._open_runs():
            self._finished = True

    def _ready_for_state(self) -> None:
        self._ensure_begun()
        if not self._loader._progress.is_latest(self._pass):
            raise RuntimeError("another pass over this loader has begun after this one, and the loader's place is that one's")

    def _ensure_begun(self) -> None:
        """Begin, if that was not done yet, or a state was loaded meanwhile."""
        if not self._begun or self._loader._progress.stale is self._pass:
            self._begin()

    def _begin(self) -> None:
        loader = self._loader
        loader._heed_sampler()
        self._pass = loader._progress.begin()
        self._begun = True
        self._cursor = self._pass.start
        self._drop()
        loader._go_to(self._pass.anchor)
        # What this pass goes by, should a state be loaded for a later one.
        self._workers, self._plan, self._order = loader._workers, loader._plan, copy.copy(loader._order)

    def __next__(self) -> Any:
        loader = self._loader
        progress = loader._progress
        if not (self._ready and self._is_plain) or progress.stale is self._pass:
            return self._next_slowly()
        # The next batch is there, and nothing is to be done to it: by far the most of all small ones.
        try:
            batch, cursor, rows, _ = self._ready.popleft()
            began = None
            if isinstance(batch, Deferred):
                began = perf_counter()
                batch = batch.make()
            progress.deliver(self._pass, cursor)
            self._cursor = cursor
        except BaseException:
            self._drop()
            raise
        self._previous = loader._watch.delivered(rows, None, self._previous, began)
        return batch

    def _next_slowly(self) -> Any:
        """Return the next batch, whatever has to be begun, waited for or done to it."""
        loader = self._loader
        # A batch that is there is not waited for.
        asked = None if self._ready and loader._converter is None else perf_counter()
        try:
            self._ensure_begun()
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

    def _fill(self) -> None:
        """Get the next batch ready, and start on those after it that are there already. Raises what stands in the way."""
        loader = self._loader
        ahead = 0 if loader._converter is None else loader._converter.ahead
        while len(self._converted) <= ahead:
            first = not self._converted
            if not self._ready and not ((first or (self._runs is not None and self._runs.ready)) and self._refill()):
                return
            batch, cursor, rows, stop = self._ready[0]
            try:
                if isinstance(batch, Deferred):
                    start = perf_counter()
                    batch = batch.make()
                    loader._watch.finished(perf_counter() - start)
                if loader._mask is not None:
                    batch = loader._mask.add(batch, self._order.counts(cursor.epoch, stop - rows, stop))
                if loader._converter is not None:
                    start = perf_counter_ns()
                    batch = loader._converter.start(batch)
                    loader._watch.converted(perf_counter_ns() - start)
            except Exception:
                if first:
                    raise
                return  # not yet its turn
            self._ready.popleft()
            self._converted.append(Ready(batch, cursor, rows, stop))

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
            if self._error is None and made.run.epoch + 1 == self._pass.end_epoch and self._ends_epoch(made.run):
                # What comes now is the next pass's.
                self._workers.keep(self._runs, Cursor(self._pass.end_epoch, 0))
                self._runs, self._finished = None, True
        return True

    def _ends_epoch(self, run: Run) -> bool:
        """Whether nothing of its epoch comes after a run."""
        return run.ends_epoch if self._loader.in_order else self._plan.normalise(self._fetched).epoch > run.epoch

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
            start=None if loader.in_order else start,
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
