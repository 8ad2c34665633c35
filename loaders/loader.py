"""DataLoader: wires source, sampler, prefetch and state together."""

from __future__ import annotations

import operator
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Unpack

from ..datasource.source import Source
from ..samplers import IndexSampler, Sampler, SequentialSampler, ShardOptions
from .fetch import Fetcher, describe_source
from .from_function import ENDLESS, FunctionOptions, FunctionSource, take_only
from .mask import BatchMask
from .order import Order
from .output import Output, OutputOptions
from .plan import BatchPlan, Cursor
from .progress import Progress
from .state import place_of, read_state, write_state
from .telling import LoaderStats
from .telling.bar import with_bar
from .telling.report import format_html, format_report
from .telling.waiting import WaitingWarning
from .telling.watch import Watch
from .workers import StartMethod, Workers, WorkerType

if TYPE_CHECKING:
    import jax
    import numpy as np
    import torch
    from matplotlib.figure import Figure

    from .workers.workers import Passing

__all__ = ["DataLoader"]


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
      prefetch_factor: How many batches each worker works ahead, small ones counted by 2 MiB; 0, without workers, works in the
        caller's thread only.
      multiprocessing_context: How processes are started. ``"forkserver"``, the default, forks them from a clean process that
        has one thread; ``"spawn"`` starts an interpreter for each; ``"fork"`` needs nothing to be picklable, and is unsafe
        once this process has threads.
      worker_init_fn: Called in each worker process with its number, before its first batch.
      timeout: Seconds after which a batch that does not come raises ``WorkerError``; 0 waits for ever.
      output: ``"numpy"``, or ``"torch"`` for tensors that share the batch's memory, or ``"jax"`` for device arrays.
      pin_memory: Whether tensors lie in page-locked memory, where there is a GPU: that which worker processes write to is
        locked once, and nothing is copied.
      device: Where tensors go, ahead of their turn and beside the training, as ``"cuda"``; None leaves them in memory.
      sharding: How JAX arrays lie on devices, of several processes too: each brings its part of the batch.
      prefetch_to_device: So many batches are on their way to ``device`` or ``sharding`` while one is in use.
      mask: A key under which each batch, a dict, tells which of its examples count: bool, ``[batch_size]``, False where a
        sampler with ``tail="pad"`` repeats an example. So sums over all ranks are those of one.
      warn_waiting: Log a warning, once, if training has waited for more than this share of its time, after 10 s; None for none.
      progress: Whether each pass draws a progress bar; needs tqdm.

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
        pin_memory: bool = False,
        device: torch.device | str | int | None = None,
        sharding: jax.sharding.Sharding | None = None,
        prefetch_to_device: int = 2,
        mask: str | None = None,
        warn_waiting: float | None = 0.2,
        progress: bool = False,
    ) -> None:
        self.dataset = source
        self.batch_size = _check_count("batch_size", batch_size, at_least=1)
        self.drop_last = drop_last
        self.num_epochs = None if num_epochs is None else _check_count("num_epochs", num_epochs, at_least=1)
        self.num_workers = _check_count("num_workers", num_workers, at_least=0)
        self.prefetch_factor = _check_count("prefetch_factor", prefetch_factor, at_least=0)
        _check_source(source)
        if sampler is None:
            sampler = IndexSampler(len(source), shuffle=shuffle, seed=seed)
        else:
            _check_sampler(sampler, source, shuffle, self.num_epochs)
        self.sampler: Sampler = sampler
        self._sampler_epoch = sampler.epoch
        self._converter = OutputOptions(output, pin_memory, device, sharding, prefetch_to_device).open()
        self._mask = None if mask is None else BatchMask(mask, sampler)
        self._plan = BatchPlan(sampler.epoch_length, self.batch_size, drop_last)
        self._progress = Progress(
            place_of(sampler), num_epochs=self.num_epochs, batch_size=self.batch_size, shard=sampler.shard
        )
        self._watch = Watch(self.num_workers, worker_type)
        self._warning = None if warn_waiting is None else WaitingWarning(warn_waiting)
        self._draws_bar = progress
        self._workers = Workers(
            Fetcher(source, (transforms,) if callable(transforms) else tuple(transforms), collate_fn),
            Order(sampler),
            self._watch,
            count=self.num_workers,
            kind=worker_type,
            prefetch_factor=self.prefetch_factor,
            method=multiprocessing_context,
            init=worker_init_fn,
            timeout_s=timeout,
            pin_memory=pin_memory,
            seed=seed,
        )

    @classmethod
    def from_callable(
        cls,
        function: Callable[[int, np.random.Generator], Any],
        *,
        steps: int | None = None,
        seed: int = 0,
        shard: ShardOptions | None = None,
        **options: Unpack[FunctionOptions],
    ) -> DataLoader:
        """Return a loader whose batches are ``function(step, rng)``, made ahead as all batches are, in the order of the steps.

        Batch ``step`` depends on the function, ``seed`` and ``step`` alone, whoever makes it, and the state is the next step.
        Each ``for`` begins with step 0 again, unless a state was loaded.

        Args:
          function: Returns a batch. Called in workers, where there are any.
          steps: How many there are, ``>= 1``; None goes on for ever.
          seed: Any integer; decides what ``rng`` draws.
          shard: This rank and the number of ranks, which take turns with the steps.
          options: ``num_workers``, ``output`` and others that mean the same as for any loader.
        """
        source = FunctionSource(function, ENDLESS if steps is None else _check_count("steps", steps, at_least=1), seed)
        order = SequentialSampler(len(source), shard=shard)
        num_epochs = 1 if steps is not None else None
        return cls(source, sampler=order, collate_fn=take_only, num_epochs=num_epochs, seed=seed, **options)

    def __len__(self) -> int:
        if self.num_epochs is None:
            raise TypeError("a loader with num_epochs=None is endless and has no length")
        return self.num_epochs * self._plan.batches_per_epoch

    def __iter__(self) -> Iterator[Any]:
        if self.sampler.epoch != self._sampler_epoch:
            # Lightning and others set the sampler's epoch, and mean the loader's.
            self._sampler_epoch = self.sampler.epoch
            self._progress.set_epoch(self._sampler_epoch)
        batches = _LoaderIterator(self)
        if not self._draws_bar:
            return batches
        begun, size = batches.begun, self._plan.batches_per_epoch
        total = None if self.num_epochs is None else len(self)
        return with_bar(batches, total=total, initial=begun.epoch * size + begun.position // self.batch_size)

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass begin with ``0 <= epoch < 2**62``. Never needed: epochs advance by themselves.

        After ``load_state_dict`` the place in the pass is kept where the pass began with that same epoch, so that the usual
        ``loader.set_epoch(epoch)`` at the head of a training loop does no harm on resuming.
        """
        if not 0 <= operator.index(epoch) < 1 << 62:
            raise ValueError(f"epoch is {epoch}; it must lie in 0 <= epoch < 2**62")
        self._progress.set_epoch(operator.index(epoch))

    def state_dict(self) -> dict[str, Any]:
        """Return where the stream stands: plain JSON, under 2 kB, the same on every rank at the same step.

        Counts what was delivered, whatever was read ahead; of several iterators, by the one that was made last. With the last
        batch of a pass in hand the pass is not over: resumed, it has nothing left, and the one after it is the next epoch's.
        """
        return write_state(self._progress.place, self.dataset, self.sampler)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was taken, in constant time: in the next pass, and at once in one that is under way.

        The batch size, the number of ranks, transforms and prefetching may differ from the ones it was saved with.

        Raises:
          StateError: It was saved over another data set, seed or order; says which differs. The loader is unchanged then.
        """
        self._progress.load(read_state(state, self.dataset, self.sampler))

    def close(self) -> None:
        """End the worker processes. Batches stay valid, and the next pass starts new ones. May be called twice."""
        self._workers.close()

    def stats(self) -> LoaderStats:
        """Return what was delivered so far, how long training waited for it, and where the time went."""
        return self._watch.read()

    def report(self) -> str:
        """Return the same as tables to print, with the bottleneck named and what to change."""
        return format_report(self.stats())

    def plot(self) -> Figure:
        """Return a picture of the last few thousand runs of batches: who made them when, and when training waited.

        Needs matplotlib; no window opens. ``figure.savefig("loading.png")`` writes it.
        """
        from .telling.plot import plot_timeline

        return plot_timeline(self._watch)

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{format_html(self.stats())}"

    def __repr__(self) -> str:
        return f"DataLoader({describe_source(self.dataset)}, batch_size={self.batch_size}, sampler={self.sampler!r})"


class _LoaderIterator(Iterator[Any]):
    """One pass. Holds the loader; the prefetch thread holds neither."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader
        self._previous: float | None = None
        self._runs: Passing | None = None
        self._ready: deque[tuple[Any, Cursor, int]] = deque()
        self._converted: deque[tuple[Any, Cursor, int]] = deque()
        self._error: Exception | None = None
        self._begin()

    @property
    def begun(self) -> Cursor:
        """How far the pass was when it began: whole epochs of it, and positions."""
        return Cursor(self._pass.start.epoch - self._pass.anchor.first_epoch, self._pass.start.position)

    def _begin(self) -> None:
        self._pass = self._loader._progress.begin()
        self._cursor = self._pass.start
        self._finished = False
        self._drop()

    def __next__(self) -> Any:
        asked = time.perf_counter()
        loader = self._loader
        try:
            if loader._progress.is_stale(self._pass):
                self._begin()
            self._fill()
            if not self._converted:
                loader._progress.finish(self._pass)
                raise StopIteration
            batch, cursor, records = self._converted.popleft()
            if loader._converter is not None:
                batch = loader._converter.finish(batch)
            loader._progress.deliver(self._pass, cursor)
            self._cursor = cursor
        except StopIteration:
            raise
        except BaseException:
            # An error in its turn, or Ctrl-C at any point: the next ``next`` starts anew behind the last batch delivered.
            self._drop()
            raise
        loader._watch.delivered(records)
        self._previous = loader._watch.waited(asked, self._previous)
        return batch

    def _fill(self) -> None:
        """Get the next batch ready, and start on those after it that are there already. Raises what stands in the way."""
        loader = self._loader
        ahead = 0 if loader._converter is None else loader._converter.ahead
        while len(self._converted) <= ahead:
            first = not self._converted
            if not self._ready and not ((first or (self._runs is not None and self._runs.ready)) and self._refill()):
                return
            batch, cursor, records = self._ready[0]
            try:
                if loader._mask is not None:
                    batch = loader._mask.add(batch, cursor.position - records, cursor.position)
                if loader._converter is not None:
                    start = time.perf_counter_ns()
                    batch = loader._converter.start(batch)
                    loader._watch.converted(time.perf_counter_ns() - start)
            except Exception:
                if first:
                    raise
                return  # not yet its turn
            self._ready.popleft()
            self._converted.append((batch, cursor, records))

    def _refill(self) -> bool:
        """Get the next batches, at least one; return False if there are none left. Raises what stands in the way."""
        while not self._ready:
            if self._error is not None:
                if not self._converted:
                    raise self._error
                return False  # not yet its turn
            if self._finished:
                return False
            if self._runs is None or self._runs.stale:
                self._runs = self._open_runs()
            queued = self._runs.ready
            try:
                made = next(self._runs, None)
            except Exception as error:
                self._error = error
                continue
            if made is None:
                self._finished = True
                return False
            bounds = made.run.bounds
            self._error = made.error
            self._loader._watch.refilled(made.times, bounds[len(made.batches)] - bounds[0], queued)
            if self._loader._warning is not None:
                self._loader._warning.look(self._loader._watch)
            for batch, (start, stop) in zip(made.batches, pairwise(bounds), strict=False):
                self._fetched = Cursor(made.run.epoch, stop)
                self._ready.append((batch, self._fetched, stop - start))
        return True

    def _open_runs(self) -> Passing:
        loader = self._loader
        start = loader._plan.normalise(self._fetched)
        return loader._workers.open(partial(loader._plan.cut, start, self._pass.end_epoch))

    def _drop(self) -> None:
        """Forget what was read ahead."""
        runs, self._runs = self._runs, None
        self._error = None
        self._ready.clear()
        self._converted.clear()
        self._fetched = self._cursor
        if runs is not None:
            runs.close()


def _check_count(name: str, value: int, *, at_least: int) -> int:
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; it must be a whole number") from None
    if count < at_least or isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}; it must be a whole number of at least {at_least}")
    return count


def _check_source(source: object) -> None:
    if not hasattr(source, "__len__") or not hasattr(source, "__getitem__"):
        raise TypeError(f"source needs __len__ and __getitem__; {type(source).__name__} has not both")
    if isinstance(source, Mapping):
        raise TypeError("source is a dict: of splits, perhaps; give the loader one of them")


def _check_sampler(sampler: object, source: Source[Any], shuffle: bool, num_epochs: int | None) -> None:
    """Raise for a sampler that would fail later, or silently mean something else."""
    if not isinstance(sampler, Sampler):
        raise TypeError(f"sampler must be one of arrayfeed's samplers, got {type(sampler).__name__}")
    if shuffle:
        raise ValueError("shuffle and sampler exclude each other: give the sampler shuffle=True instead")
    if sampler.num_records != len(source):
        raise ValueError(f"the sampler is made for {sampler.num_records} records, the source has {len(source)}")
    if sampler.num_epochs not in (1, num_epochs):
        raise ValueError(
            f"the sampler has num_epochs={sampler.num_epochs}, the loader num_epochs={num_epochs}; give it to the loader"
        )
