"""DataLoader: wires source, sampler, prefetch and state together."""

from __future__ import annotations

import os
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..datasource.source import Source
from ..samplers import IndexSampler, Sampler
from .fetch import Fetcher
from .plan import BatchPlan, Cursor
from .prefetch import Prefetcher
from .runs import Made, RunMaker
from .state import Place, read_state, write_state
from .stats import LoaderStats, StopWatch
from .threads import ThreadPass

__all__ = ["DataLoader"]

if TYPE_CHECKING:
    from .passes import WorkerPass
    from .pool import WorkerPool

    Ahead: TypeAlias = Prefetcher[Made] | ThreadPass[Made] | WorkerPass

Output = Literal["numpy", "torch", "jax"]
WorkerType = Literal["process", "thread"]
StartMethod = Literal["forkserver", "spawn", "fork"]


class DataLoader:
    """Delivers batches of a source's examples, in an order that depends on nothing but the arguments.

    Each ``for`` is one pass of ``num_epochs`` epochs; the next one goes on with the epochs after it, reshuffled. ``len`` counts
    the batches of a pass. A thread works ahead, so that reading and decoding overlap with training. A loader is for one
    consumer thread; it is not picklable, its source and sampler are.

    Args:
      source: Anything with ``__len__`` and ``__getitem__(int)``; sources of this library give whole columns at once.
      batch_size: Examples in a batch, ``>= 1``.
      shuffle: Whether each epoch is a new permutation of all records. Not together with ``sampler``.
      sampler: The order, where ``shuffle`` is not enough: one of this library's samplers.
      transforms: A function of an example, or several, applied in turn.
      seed: Any integer; decides the shuffle, with the epoch.
      drop_last: Leave out an epoch's last batch where it is short, so that all have the same shape.
      collate_fn: List of examples -> batch, in place of stacking.
      num_epochs: Epochs in a pass; None is endless.
      num_workers: Processes or threads that make batches; 0 works in this process, ahead in one thread. The batches are the
        same for any number.
      worker_type: ``"process"``, or ``"thread"`` where transforms release the GIL.
      prefetch_factor: How many batches to work ahead, a worker, small ones counted by 2 MiB; 0, without workers, works in the
        caller's thread only.
      multiprocessing_context: How processes are started. ``"forkserver"``, the default, forks them from a clean process that
        has one thread; ``"spawn"`` starts an interpreter for each; ``"fork"`` needs nothing to be picklable, and is unsafe
        once this process has threads.
      worker_init_fn: Called in each worker process with its number, before its first batch.
      timeout: Seconds after which a batch that does not come raises ``WorkerError``; 0 waits for ever.
      output: ``"numpy"``, or ``"torch"`` for tensors that share the batch's memory, or ``"jax"`` for device arrays.

    Batches belong to the caller: no array is used again. Small arrays of neighbouring batches may share memory, never elements.
    What comes from worker processes lies in memory shared with them, which is used for other batches once no array, tensor
    or view looks at it any more; after a ``fork``, child and parent must not both use a batch from before it.

    Worker processes start with the first batch and live as long as the loader, over all passes: ``close`` ends them, and so
    do garbage collection and the end of this process, however it ends. One that dies is replaced, and its batches are made
    again: the stream stays the same. A batch that three workers died of raises ``WorkerError``.

    An error of the source, a transform or ``collate_fn`` is raised in its turn, after the batches before it, of its own type
    and with a note that names the record. Nothing is lost: the next ``next`` tries the same batch again.
    """

    def __init__(
        self,
        source: Source[Any],
        *,
        batch_size: int = 1,
        shuffle: bool = False,
        sampler: Sampler | None = None,
        transforms: Callable[[Any], Any] | Sequence[Callable[[Any], Any]] = (),
        seed: int = 0,
        drop_last: bool = False,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        num_epochs: int | None = 1,
        num_workers: int = 0,
        worker_type: WorkerType = "process",
        prefetch_factor: int = 2,
        multiprocessing_context: StartMethod | None = None,
        worker_init_fn: Callable[[int], None] | None = None,
        timeout: float = 0,
        output: Output = "numpy",
    ) -> None:
        _check_arguments(source, batch_size, shuffle, sampler, num_epochs, num_workers, prefetch_factor)
        _check_workers(num_workers, worker_type, prefetch_factor, multiprocessing_context, timeout)
        self.dataset = source
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.num_epochs = num_epochs
        self.num_workers = num_workers
        self.worker_type = worker_type
        self.prefetch_factor = prefetch_factor
        self.multiprocessing_context = multiprocessing_context
        self.worker_init_fn = worker_init_fn
        self.timeout = timeout
        self.sampler: Sampler = IndexSampler(len(source), shuffle=shuffle, seed=seed) if sampler is None else sampler
        self._fetcher = Fetcher(source, (transforms,) if callable(transforms) else tuple(transforms), collate_fn)
        self._convert = _converter(output)
        self._plan = BatchPlan(self.sampler.epoch_length, batch_size, drop_last)
        self._watch = StopWatch()
        # The latest iterator started at _anchor and stands at _cursor; the next one will start at _next.
        self._latest: weakref.ref[_LoaderIterator] | None = None
        self._anchor = self._next = Place(0, 0, 0)
        self._cursor = Cursor(0, 0)
        self._loaded = False
        self._pool: WorkerPool | None = None
        if num_workers and worker_type == "process" and multiprocessing_context != "fork":
            from .payload import check_picklable

            parts = {**self._fetcher.parts(), "worker_init_fn": worker_init_fn}
            check_picklable({name: part for name, part in parts.items() if name != "source"})

    def __len__(self) -> int:
        if self.num_epochs is None:
            raise TypeError("a loader with num_epochs=None is endless and has no length")
        return self.num_epochs * self._plan.batches_per_epoch

    def __iter__(self) -> Iterator[Any]:
        iterator = _LoaderIterator(self)
        self._latest = weakref.ref(iterator)
        return iterator

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass begin with ``epoch >= 0``. Never needed: epochs advance by themselves.

        After ``load_state_dict`` in the middle of that same epoch the position is kept, so that the usual
        ``loader.set_epoch(epoch)`` at the head of a training loop does no harm on resuming.
        """
        if epoch < 0:
            raise ValueError(f"epoch must be >= 0, got {epoch}")
        if self._next.epoch != epoch:
            self._seek(Place(epoch, 0, epoch))

    # -- state ----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return where the stream stands: plain JSON, under 1 kB, the same on every rank at the same step.

        Counts what was delivered, whatever was read ahead. Of several iterators the one that was made last is told about.
        """
        shard = self.sampler.shard
        place = self._anchor.advance(self._plan.normalise(self._cursor), shard.index, shard.count)
        return write_state(place, self.dataset, self.sampler)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was taken, in constant time: in the next pass, and at once in one that is under way.

        The batch size, transforms and prefetching may differ from the ones it was saved with.

        Raises:
          StateError: It was saved over another data set, seed or order; says which differs. The loader is unchanged then.
        """
        self._seek(read_state(state, self.dataset, self.sampler))
        self._loaded = True

    def close(self) -> None:
        """End the worker processes. Batches stay valid; the next pass starts new ones. May be called twice."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def stats(self) -> LoaderStats:
        """Return what was delivered so far, and how long training waited for it."""
        return self._watch.read()

    def __repr__(self) -> str:
        return f"DataLoader({self.dataset!r}, batch_size={self.batch_size}, sampler={self.sampler!r})"

    # -- for the iterator -----------------------------------------------------------------------------------------

    def _open_pool(self) -> WorkerPool:
        """Return the worker processes, which are started with the first pass and serve all."""
        if self._pool is None or not self._pool.alive:
            from .payload import Payload
            from .pool import WorkerPool

            self._pool = WorkerPool(
                Payload(self._fetcher, self.sampler, self.worker_init_fn),
                num_workers=self.num_workers,
                method=self.multiprocessing_context or "forkserver",
                ahead=self.num_workers * self.prefetch_factor,
                watch=self._watch,
            )
        return self._pool

    def _seek(self, place: Place) -> None:
        """Let the next pass, and the state until then, begin at ``place``."""
        self._anchor = self._next = place
        self._cursor = place.to_cursor(self.sampler.shard.index, self.sampler.shard.count)

    def _claim(self) -> tuple[Cursor, int | None]:
        """Return where a pass starts and the epoch it ends before; the pass after it starts there."""
        self._seek(self._next)
        self._loaded = False
        if self.num_epochs is None:
            self._next = Place(self._cursor.epoch + 1, 0, self._cursor.epoch + 1)
            return self._cursor, None
        # A pass resumed in its middle ends where it would have; one saved at its very end is over.
        end = self._next.first_epoch + self.num_epochs
        if end <= self._plan.normalise(self._cursor).epoch:
            end = self._plan.normalise(self._cursor).epoch + self.num_epochs
        self._next = Place(end, 0, end)
        return self._cursor, end


class _LoaderIterator(Iterator[Any]):
    """One pass. Holds the loader; the prefetch thread holds neither."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader
        self._previous: float | None = None
        self._start()

    def _start(self) -> None:
        """Begin where the loader stands."""
        self._cursor, self._end_epoch = self._loader._claim()
        self._ready: deque[tuple[Any, Cursor, int]] = deque()
        self._runs: Ahead | map[Made] | None = None
        self._error: BaseException | None = None
        self._finished = False

    def __next__(self) -> Any:
        asked = time.perf_counter()
        loader = self._loader
        latest = loader._latest is not None and loader._latest() is self
        if latest and loader._loaded:
            self._drop_runs()
            self._start()
        if not self._ready:
            self._refill()
        batch, self._cursor, records = self._ready.popleft()
        if latest:
            loader._cursor = self._cursor
        if loader._convert is not None:
            batch = loader._convert(batch)
        loader._watch.delivered(records)
        self._previous = loader._watch.waited(asked, self._previous)
        return batch

    def _refill(self) -> None:
        """Get the next batches, at least one; raises what stands in the way, in its turn."""
        if self._error is not None:
            # What was read ahead is dropped: the batch that failed is tried again when the next one is asked for.
            error, self._error = self._error, None
            self._drop_runs()
            raise error
        if self._finished:
            raise StopIteration
        if self._runs is None or (not isinstance(self._runs, map) and self._runs.stale):
            self._runs = self._open_runs()
        made = next(self._runs, None)
        if made is None:
            self._finished = True
            raise StopIteration
        bounds, self._error = made.run.bounds, made.error
        for batch, start, stop in zip(made.batches, bounds, bounds[1:], strict=False):
            self._ready.append((batch, Cursor(made.run.epoch, stop), stop - start))
        if not self._ready:
            self._refill()

    def _open_runs(self) -> Ahead | map[Made]:
        loader = self._loader
        start, end_epoch = loader._plan.normalise(self._cursor), self._end_epoch
        ahead = loader.prefetch_factor * max(1, loader.num_workers)
        if loader.num_workers and loader.worker_type == "process":
            from .passes import WorkerPass

            cut = partial(loader._plan.cut, start, end_epoch)
            return WorkerPass(loader._open_pool(), cut, ahead=ahead, timeout_s=loader.timeout)
        makers = [RunMaker(loader._fetcher, loader.sampler, loader._watch) for _ in range(max(1, loader.num_workers))]
        runs = loader._plan.cut(start, end_epoch, makers[0].max_batches)
        if loader.num_workers:
            return ThreadPass(runs, [maker.make for maker in makers], ahead=ahead, timeout_s=loader.timeout)
        if ahead:
            return Prefetcher(runs, makers[0].make, ahead=ahead)
        return map(makers[0].make, runs)

    def _drop_runs(self) -> None:
        if self._runs is not None and not isinstance(self._runs, map):
            self._runs.close()
        self._runs = None


def _check_arguments(
    source: Source[Any],
    batch_size: int,
    shuffle: bool,
    sampler: Sampler | None,
    num_epochs: int | None,
    num_workers: int,
    prefetch_factor: int,
) -> None:
    """Raise for anything that could only fail later, or silently mean something else."""
    if not hasattr(source, "__len__") or not hasattr(source, "__getitem__"):
        raise TypeError(f"source needs __len__ and __getitem__, {type(source).__name__} has not both")
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise ValueError(f"batch_size must be an integer >= 1, got {batch_size!r}")
    if num_epochs is not None and (not isinstance(num_epochs, int) or num_epochs < 1):
        raise ValueError(f"num_epochs must be an integer >= 1, or None for endless, got {num_epochs!r}")
    if prefetch_factor < 0:
        raise ValueError(f"prefetch_factor must be >= 0, got {prefetch_factor}")
    if sampler is not None and shuffle:
        raise ValueError("shuffle and sampler exclude each other: give the sampler shuffle=True instead")
    if sampler is not None and not isinstance(sampler, Sampler):
        raise TypeError(f"sampler must be one of arrayfeed's samplers, got {type(sampler).__name__}")


def _check_workers(num_workers: int, worker_type: str, prefetch_factor: int, method: str | None, timeout: float) -> None:
    if isinstance(num_workers, bool) or not isinstance(num_workers, int) or not 0 <= num_workers <= 1024:
        raise ValueError(f"num_workers must be an integer, 0 <= num_workers <= 1024, got {num_workers!r}")
    if worker_type not in ("process", "thread"):
        raise ValueError(f"worker_type must be 'process' or 'thread', got {worker_type!r}")
    if method not in (None, "forkserver", "spawn", "fork"):
        raise ValueError(f"multiprocessing_context must be 'forkserver', 'spawn' or 'fork', got {method!r}")
    if num_workers and not prefetch_factor:
        raise ValueError("prefetch_factor must be >= 1 with workers, got 0: they would have nothing to do")
    if timeout < 0:
        raise ValueError(f"timeout must be >= 0 seconds, got {timeout}")
    if num_workers and worker_type == "process" and not hasattr(os, "fork"):
        raise ValueError(
            f'num_workers={num_workers}: worker processes need fork, which {sys.platform} has not; use worker_type="thread"'
        )


def _converter(output: str) -> Callable[[Any], Any] | None:
    """Return what turns a NumPy batch into the wished kind; imports the framework now, not in the first batch."""
    if output == "torch":
        from .torch import to_torch

        return to_torch
    if output == "jax":
        from .jax import to_jax

        return to_jax
    if output != "numpy":
        raise ValueError(f"output must be 'numpy', 'torch' or 'jax', got {output!r}")
    return None
