"""DataLoader: wires source, sampler, prefetch and state together."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Unpack

from ..datasource.source import Source
from ..samplers import BatchSampler, BucketBatchSampler, IndexSampler, Sampler, SequentialSampler, ShardOptions
from ..samplers.keys import seed_as_json
from .arguments import check_batches, check_count, check_sampler, check_source, check_steps, listed, unfold
from .bar import BarIterator
from .fetch import Fetcher, describe_source
from .from_function import ENDLESS, FunctionOptions, FunctionSource, take_only
from .iterator import LoaderIterator
from .mask import BatchMask
from .output import Output, OutputOptions
from .plan import BatchPlan, SpanPlan
from .state.leftover import Leftover
from .state.order import Order
from .state.pace import BucketPace, EvenPace, LoosePace, OwnPace, Pace
from .state.place import Place, place_of
from .state.progress import Progress
from .state.resume import read_state, write_state
from .telling import LoaderStats
from .telling.waiting import WaitingWarning
from .telling.watch import Watch
from .transforms.chain import Chain
from .transforms.faults import FaultList, OnError, Skipped, check_on_error
from .transforms.kinds import Transform
from .workers import StartMethod, Workers, WorkerType

if TYPE_CHECKING:
    import jax
    import numpy as np
    import torch
    from matplotlib.figure import Figure

__all__ = ["DataLoader"]


class DataLoader:
    """Delivers batches of a source's examples, in an order that depends on nothing but the arguments.

    Each ``for`` is one pass of ``num_epochs`` epochs, which begins with its first batch; the next one goes on with the epochs
    after it, reshuffled. ``len`` counts the batches of a pass. A thread works ahead, so that reading and decoding overlap with
    training. A loader is for one consumer thread; it is not picklable, its source and sampler are.

    Args:
      source: Anything with ``__len__`` and ``__getitem__(int)``; sources of this library give whole columns at once.
      batch_size: Examples in a batch, ``>= 1``.
      shuffle: Whether each epoch is a new permutation of all records. Not together with ``sampler``.
      sampler: The order, where ``shuffle`` is not enough: one of this library's samplers.
      batch_sampler: The batches, where their size is not one number: ``BucketBatchSampler``. Then no ``batch_size``,
        ``shuffle``, ``sampler`` or ``drop_last``.
      transforms: A function of an example, or several, applied in turn; ``RandomMap``, ``Filter``, ``FlatMap``, ``pack`` and
        ``BatchMap`` among them. Batches stay full whatever is left out.
      seed: Any integer; decides the shuffle and the random numbers of transforms, with the epoch.
      drop_last: Leave out an epoch's last batch where it is short, so that all have the same shape.
      collate_fn: List of examples -> batch, in place of stacking; ``collate`` makes one that pads, or keeps lists.
        Behind a ``Filter`` or ``FlatMap`` it is called in this process, where batches are cut.
      on_error: What is done where a record cannot be read or a transform raises: ``"raise"``; ``"skip"`` leaves the record out;
        ``"substitute"`` takes another one of the same epoch, by a hash; a function of error and record index returns the
        example to take, as the transforms would, or ``SKIP``. ``skipped`` lists them. Batches stay full.
      max_errors: More failed records than this raise ``TooManyErrors``; None allows any number.
      num_epochs: Epochs in a pass; None is endless.
      num_workers: Processes or threads that make batches; 0 works in this process, ahead in one thread. The batches are the
        same for any number. ``"auto"`` tries in the first pass what is fastest, on batches that are delivered all the same;
        ``report`` says what it chose and why.
      worker_type: ``"process"``, or ``"thread"`` where transforms release the GIL.
      prefetch_factor: How many batches each worker works ahead, small ones counted by 2 MiB; 0, without workers, works in the
        caller's thread only.
      multiprocessing_context: How processes are started. ``"forkserver"``, the default, forks them from a clean process that
        has one thread; ``"spawn"`` starts an interpreter for each; ``"fork"`` needs nothing to be picklable, and is unsafe
        once this process has threads.
      persistent_workers: False ends the processes with each pass, and begins none ahead.
      in_order: False delivers an epoch's batches as workers get done with them, so that nobody waits for a slow one: the same
        batches with the same random numbers, in an order that is another each time. State is exact to the batch all the same,
        but ranks have each their own, as with a ``Filter``; it loads on the same rank, or merged anywhere. Not with transforms
        that make more or fewer examples of a record, nor a ``BucketBatchSampler``.
      worker_init_fn: Called in each worker process with its number, before its first batch.
      timeout: Seconds after which a batch that does not come from a worker raises ``WorkerError``; 0 waits for ever. Without
        workers nobody else can say so, and it has no effect.
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
    again: the stream stays the same. A batch that three workers died of raises ``WorkerError``. At the end of a pass they go on
    with the first batches of the next, so that it starts at once; threads do from the second pass on. What the next pass turns
    out not to need, after ``set_epoch`` or ``load_state_dict``, is thrown away.

    An error of the source, a transform or ``collate_fn`` is raised in its turn, after the batches before it, of its own type
    and with notes that name record and file, and how to see it again. Nothing is lost: the next ``next`` tries the same batch
    again.
    """

    def __init__(
        self,
        source: Source[Any],
        *,
        batch_size: int = 1,
        shuffle: bool = False,
        sampler: Sampler | None = None,
        batch_sampler: BatchSampler | None = None,
        transforms: Transform | Sequence[Transform] = (),
        seed: int = 0,
        drop_last: bool = False,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        on_error: OnError = "raise",
        max_errors: int | None = None,
        num_epochs: int | None = 1,
        num_workers: int | Literal["auto"] = 0,
        worker_type: WorkerType = "process",
        prefetch_factor: int = 2,
        persistent_workers: bool = True,
        in_order: bool = True,
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
        if batch_sampler is not None:
            sampler, batch_size, drop_last = unfold(batch_sampler, sampler, batch_size, drop_last, shuffle)
        self.batch_sampler = batch_sampler
        self.batch_size = check_count("batch_size", batch_size, at_least=1)
        self.drop_last = drop_last
        self.num_epochs = None if num_epochs is None else check_count("num_epochs", num_epochs, at_least=1)
        count = None if num_workers == "auto" else check_count("num_workers", num_workers, at_least=0)
        self.prefetch_factor = check_count("prefetch_factor", prefetch_factor, at_least=1 if count is None else 0)
        check_source(source)
        check_on_error(on_error)
        if sampler is None:
            sampler = IndexSampler(len(source), shuffle=shuffle, seed=seed)
        else:
            check_sampler(sampler, source, shuffle, self.num_epochs)
        self.sampler: Sampler = sampler
        self._sampler_epoch = sampler.epoch
        self._converter = OutputOptions(output, pin_memory, device, sharding, prefetch_to_device).open()
        self._mask = None if mask is None else BatchMask(mask)
        chain = Chain(listed(transforms), seed, allow_none=collate_fn is not None)
        self._fetcher = Fetcher(source, chain, collate_fn, on_error=on_error, seed=seed)
        if self._fetcher.is_even and not isinstance(batch_sampler, BucketBatchSampler):
            check_steps(sampler, self.batch_size, drop_last)
        check_batches(batch_sampler, self._fetcher, collate_fn, mask, in_order)
        self.in_order = in_order
        self._seed = seed_as_json(seed) if chain.is_random or on_error == "substitute" else None
        self._faults = FaultList(None if max_errors is None else check_count("max_errors", max_errors, at_least=0))
        self._progress = Progress(place_of(sampler), self._make_pace(), num_epochs=self.num_epochs)
        self._watch = Watch(count or 0, worker_type)
        self._warning = None if warn_waiting is None else WaitingWarning(warn_waiting)
        self._draws_bar = progress
        make = partial(
            Workers,
            self._fetcher,
            watch=self._watch,
            prefetch_factor=self.prefetch_factor,
            method=multiprocessing_context,
            init=worker_init_fn,
            timeout_s=timeout,
            pin_memory=pin_memory,
            seed=seed,
            in_order=in_order,
            persistent=persistent_workers,
        )
        if count is None:
            from .auto import Choice, open_auto

            choice = Choice(self._watch, "thread" if worker_type == "thread" else None)
            self._make_workers: Callable[..., Any] = partial(open_auto, make, choice)
        else:
            self._make_workers = partial(make, count=count, kind=worker_type)
        self._set_order(None)

    @property
    def num_workers(self) -> int:
        """Workers that make batches; with ``"auto"`` 0 until it is found out."""
        return self._watch.num_workers

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
        source = FunctionSource(function, ENDLESS if steps is None else check_count("steps", steps, at_least=1), seed)
        order = SequentialSampler(len(source), shard=shard)
        num_epochs = 1 if steps is not None else None
        return cls(source, sampler=order, collate_fn=take_only, num_epochs=num_epochs, seed=seed, **options)

    def __len__(self) -> int:
        if self.num_epochs is None:
            raise TypeError("a loader with num_epochs=None is endless and has no length")
        if not self._fetcher.is_even:
            raise TypeError(
                "a loader with Filter, FlatMap, pack or on_error='skip' has no length: how many batches there are is known "
                "once all records were read"
            )
        return self.num_epochs * self._plan.batches_per_epoch

    def __iter__(self) -> LoaderIterator:
        return BarIterator(self) if self._draws_bar else LoaderIterator(self)

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

        Counts what was delivered, whatever was read ahead; of several passes, by the one that began last. With the last
        batch of a pass in hand the pass is not over: resumed, it has nothing left, and the one after it is the next epoch's.

        Where transforms or ``on_error`` make more or fewer examples of the records, ranks come unequally far, and each has a
        state of its own, and so it is with ``in_order=False``: that loads on the same rank of as many; for another number of
        them, see ``merge_states``.
        """
        return write_state(self._progress.place, self.dataset, self.sampler, self._seed)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was taken, in constant time: in the next pass, and at once in one that is under way.

        The batch size, the number of ranks and workers, transforms and prefetching may differ from those it was saved with.

        Raises:
          StateError: It was saved over another data set, seed or order; says which differs. Or ranks that had come unequally
            far saved it, and it was not merged. The loader is unchanged then.
        """
        place, resumed = read_state(state, self.dataset, self.sampler, self._seed)
        self._progress.load(place, self._make_pace(resumed))
        if resumed is not None:
            # In place: it is the user's, who may set its epoch.
            vars(self.sampler).update(vars(resumed))
            self._sampler_epoch = self.sampler.epoch
            self._workers.close()
            self._set_order(None)

    def reproduce(self, record: int, *, epoch: int = 0, place: int = 0) -> list[Any]:
        """Return the examples that the transforms make of a record, here and now: for a debugger, after an error.

        Args:
          record: Its index in the source.
          epoch, place: What random numbers go by: the place in that epoch's global order. The error's note says them.
        """
        return self._fetcher.reproduce(record, epoch, place)

    @property
    def skipped(self) -> list[Skipped]:
        """The records that failed so far, where ``on_error`` is not "raise": each with its error and what came instead."""
        return list(self._faults.listed)

    def close(self) -> None:
        """End the worker processes. Batches stay valid, and the next pass starts new ones. May be called twice."""
        self._workers.close()

    def stats(self) -> LoaderStats:
        """Return what was delivered so far, how long training waited for it, and where the time went."""
        return self._watch.read()

    def report(self) -> str:
        """Return the same as tables to print, with the bottleneck named and what to change."""
        from .telling.report import format_report

        return format_report(self.stats(), self.skipped)

    def plot(self) -> Figure:
        """Return a picture of the last few thousand runs of batches: who made them when, and when training waited.

        Needs matplotlib; no window opens. ``figure.savefig("loading.png")`` writes it.
        """
        from .telling.plot import plot_timeline

        return plot_timeline(self._watch)

    def _repr_html_(self) -> str:
        from html import escape

        from .telling.report import format_html

        return f"<p>{escape(repr(self))}</p>{format_html(self.stats())}"

    def _make_pace(self, sampler: Sampler | None = None) -> Pace:
        """Return how ranks move on together, in the order of ``sampler``, or else of the loader's own."""
        sampler = sampler or self.sampler
        shard, length = sampler.shard, sampler.global_length
        packing = self._fetcher.chain.packing
        if not self._fetcher.is_even:
            return OwnPace(shard, length, None if packing is None else packing.span)
        if isinstance(self.batch_sampler, BucketBatchSampler):
            lanes = getattr(sampler, "lanes", shard.count)
            return BucketPace(shard, length, lanes == shard.count)
        if not self.in_order:
            return LoosePace(shard, self.batch_size, length)
        return EvenPace(shard, self.batch_size, length, getattr(sampler, "tail", "uneven"))

    def _set_order(self, left: tuple[int, Leftover] | None) -> None:
        """Let plan and workers go by the sampler's order; in one epoch only by what is left of it."""
        order = Order(self.sampler) if left is None else Order(self.sampler, *left)
        self._order = order
        self._workers = self._make_workers(order=order)
        other = None if left is None else (left[0], order.length(left[0]))
        packing = self._fetcher.chain.packing
        if isinstance(self.batch_sampler, BucketBatchSampler):
            self._plan: BatchPlan | SpanPlan = SpanPlan(self.batch_sampler)
        elif self._fetcher.is_even:
            self._plan = BatchPlan(self.sampler.epoch_length, self.batch_size, self.drop_last, other)
        else:
            span = packing.span if packing is not None and packing.span is not None else self.batch_size
            self._plan = BatchPlan(self.sampler.epoch_length, span, False, other)

    def _heed_sampler(self) -> None:
        """Take over an epoch that was set at the sampler: Lightning and others do so, and mean the loader's."""
        if self.sampler.epoch != self._sampler_epoch:
            self._sampler_epoch = self.sampler.epoch
            self._progress.set_epoch(self._sampler_epoch)

    def _go_to(self, place: Place) -> None:
        """Get ready for a pass that begins at ``place``."""
        left = None if place.leftover is None else (place.epoch, place.leftover)
        if left != self._order.left:
            self._workers.close()
            self._set_order(left)

    def __repr__(self) -> str:
        return f"DataLoader({describe_source(self.dataset)}, batch_size={self.batch_size}, sampler={self.sampler!r})"
