"""DataLoader: wires source, sampler, prefetch and state together."""

from __future__ import annotations

import operator
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from ..datasource.source import Source
from ..samplers import IndexSampler, Sampler
from .fetch import Fetcher, describe_source
from .plan import BatchPlan, Cursor
from .progress import Progress
from .state import place_of, read_state, write_state
from .stats import LoaderStats, StopWatch
from .workers import StartMethod, Workers, WorkerType

if TYPE_CHECKING:
    from .workers.workers import Passing

__all__ = ["DataLoader"]

Output = Literal["numpy", "torch", "jax"]


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

    Batches belong to the caller: no array is used again. Small arrays of neighbouring batches may share memory, never elements.
    What comes from worker processes lies in memory shared with them, which is used for other batches once no array, tensor
    or view looks at it any more; after a ``fork``, child and parent must not both use a batch from before it.

    Worker processes start with the first batch and live as long as the loader, over all passes: ``close`` ends them, and so
    do garbage collection and the end of this process, however it ends. At the end of a pass they go on with the first batches
    of the next, so that it starts at once; threads do from the second pass on. What the next pass turns out not to need, after
    ``set_epoch`` or ``load_state_dict``, is thrown away. One that dies is replaced, and its batches are made
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
        self._convert = _converter(output)
        self._plan = BatchPlan(sampler.epoch_length, self.batch_size, drop_last)
        self._progress = Progress(
            place_of(sampler), num_epochs=self.num_epochs, batch_size=self.batch_size, shard=sampler.shard
        )
        self._watch = StopWatch()
        self._workers = Workers(
            Fetcher(source, (transforms,) if callable(transforms) else tuple(transforms), collate_fn),
            sampler,
            self._watch,
            count=self.num_workers,
            kind=worker_type,
            prefetch_factor=self.prefetch_factor,
            method=multiprocessing_context,
            init=worker_init_fn,
            timeout_s=timeout,
        )

    def __len__(self) -> int:
        if self.num_epochs is None:
            raise TypeError("a loader with num_epochs=None is endless and has no length")
        return self.num_epochs * self._plan.batches_per_epoch

    def __iter__(self) -> Iterator[Any]:
        if self.sampler.epoch != self._sampler_epoch:
            # Lightning and others set the sampler's epoch, and mean the loader's.
            self._sampler_epoch = self.sampler.epoch
            self._progress.set_epoch(self._sampler_epoch)
        return _LoaderIterator(self)

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
        """Return what was delivered so far, and how long training waited for it."""
        return self._watch.read()

    def __repr__(self) -> str:
        return f"DataLoader({describe_source(self.dataset)}, batch_size={self.batch_size}, sampler={self.sampler!r})"


class _LoaderIterator(Iterator[Any]):
    """One pass. Holds the loader; the prefetch thread holds neither."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader
        self._previous: float | None = None
        self._runs: Passing | None = None
        self._ready: deque[tuple[Any, Cursor, int]] = deque()
        self._error: Exception | None = None
        self._begin()

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
            if not self._ready and not self._refill():
                loader._progress.finish(self._pass)
                raise StopIteration
            batch, cursor, records = self._ready[0]
            if loader._convert is not None:
                batch = loader._convert(batch)
            self._ready.popleft()
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

    def _refill(self) -> bool:
        """Get the next batches, at least one; return False if there are none left. Raises what stands in the way."""
        while not self._ready:
            if self._error is not None:
                raise self._error
            if self._finished or self._is_at_end():
                return False
            if self._runs is None or (not isinstance(self._runs, map) and self._runs.stale):
                self._runs = self._open_runs()
            made = next(self._runs)
            self._error = made.error
            for batch, (start, stop) in zip(made.batches, pairwise(made.run.bounds), strict=False):
                self._ready.append((batch, Cursor(made.run.epoch, stop), stop - start))
        return True

    def _is_at_end(self) -> bool:
        """Whether no batch of the pass is left; what was made of the next one is handed back then."""
        plan, end_epoch = self._loader._plan, self._pass.end_epoch
        following = plan.normalise(self._cursor)
        if end_epoch is None or (following.epoch < end_epoch and plan.batches_per_epoch):
            return False
        self._finished = True
        if self._runs is not None:
            self._loader._workers.keep(self._runs, following)
            self._runs = None
        return True

    def _open_runs(self) -> Passing:
        loader = self._loader
        start = loader._plan.normalise(self._cursor)
        return loader._workers.open(start, self._pass.end_epoch, partial(loader._plan.cut, start))

    def _drop(self) -> None:
        """Forget what was read ahead."""
        runs, self._runs = self._runs, None
        self._error = None
        self._ready.clear()
        if runs is not None and not isinstance(runs, map):
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
