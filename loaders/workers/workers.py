"""Who makes a loader's batches: this thread, one that works ahead, several, or processes. The batches are the same."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Literal, TypeAlias

from ..fetch import Fetcher
from ..plan import Cursor, Run
from ..runs import Made, RunMaker
from ..state.order import Order
from ..telling.watch import Watch
from .in_turn import InTurn
from .interrupts import postponed
from .parts import PartedPass, divide_first
from .payload import Payload, check_picklable
from .prefetch import Prefetcher
from .threads import ThreadPass

if TYPE_CHECKING:
    from .passes import WorkerPass
    from .pool import WorkerPool

    Passing: TypeAlias = Prefetcher[Made] | ThreadPass[Made] | WorkerPass | PartedPass | InTurn[Made]

__all__ = ["StartMethod", "WorkerType", "Workers"]

WorkerType = Literal["process", "thread"]
StartMethod = Literal["forkserver", "spawn", "fork"]

_MAX_WORKERS = 1024
#: The shared memory, two pipes and a socket; twice as many while they are set up.
_DESCRIPTORS = 10
#: Of batches known to take less, not even the first is made in parts: putting it together would take as long.
_WORTH_DIVIDING_S = 0.005


class Workers:
    """The workers of one loader. Processes start with the first pass and serve all; threads live as long as a pass.

    What is made ahead does not stop where a pass ends: processes go on with the epoch after it, for the pass that comes next
    (``keep``). Threads do so from the second pass on, since a first one may be the only one, and nobody expects functions
    of his to be called in his own process after the loop.

    Args:
      fetcher, order, watch: What makes batches, which ones, and what adds up the time it takes.
      count: 0 for none: then the work is done here, ahead in a thread unless ``prefetch_factor`` is 0.
      kind, method, init, timeout_s, pin_memory: ``worker_type``, ``multiprocessing_context``, ``worker_init_fn``, ``timeout``
        and ``pin_memory`` of ``DataLoader``.
      seed: What workers' own seeds come from.
      divides: Whether the first batch of a pass may be made in parts.
      in_order: Whether runs come in order, or as they are done, within an epoch.
      persistent: Whether processes outlive a pass.

    Raises:
      ValueError: A choice that there is not, or not on this system.
      TypeError: A function cannot be sent to worker processes; names it.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        order: Order,
        watch: Watch,
        *,
        count: int,
        kind: WorkerType,
        prefetch_factor: int,
        method: StartMethod | None,
        init: Callable[[int], None] | None,
        timeout_s: float,
        pin_memory: bool = False,
        seed: int = 0,
        divides: bool = True,
        in_order: bool = True,
        persistent: bool = True,
    ) -> None:
        _check(count, kind, prefetch_factor, method, timeout_s)
        self._fetcher = fetcher
        self._order = order
        self._watch = watch
        self._count = count
        self._kind = kind
        self._ahead = prefetch_factor * max(1, count)
        self._method: StartMethod = method or "forkserver"
        self._init = init
        self._timeout_s = timeout_s
        self._pin_memory = pin_memory
        self._seed = seed
        self._in_order = in_order
        self._persistent = persistent
        self._divides = divides and in_order and count > 1 and fetcher.is_divisible
        self._pool: WorkerPool | None = None
        self._ended = False
        self._kept: tuple[Cursor, Passing] | None = None
        if count and kind == "process" and method != "fork":
            parts = {**fetcher.parts(), "worker_init_fn": init}
            # The source is looked at when it is sent: pickling one that holds its data takes a while.
            check_picklable({name: part for name, part in parts.items() if name != "source"})

    def open(self, start: Cursor, end_epoch: int | None, cut: Callable[..., Iterator[Run]]) -> Passing:
        """Begin to make the runs of a pass, or go on where ``keep`` left off; return them, in order.

        Args:
          start: Where the pass begins; there is a batch.
          end_epoch: The epoch it ends before, None for an endless one. More may come: the next pass's, never asked for here.
          cut: ``plan.cut`` but for ``end_epoch`` and ``max_batches``.
        """
        kept, self._kept = self._kept, None
        if kept is not None:
            if kept[0] == start and not kept[1].stale:
                return kept[1]
            kept[1].close()
        cut = partial(cut, None if self._goes_on else end_epoch)
        if self._count and self._kind == "process":
            return self._open_processes(cut)
        payload = self._make_payload()
        infos = [payload.describe(worker) for worker in range(self._count)]
        makers = [RunMaker(self._fetcher, self._order, info) for info in infos] or [
            RunMaker(self._fetcher, self._order, defers="all")
        ]
        runs = cut(makers[0].max_batches)
        if self._count:
            return self._open_threads(runs, makers)
        if self._ahead:
            return Prefetcher(runs, makers[0].make, ahead=self._ahead, is_light=attrgetter("is_light"))
        return InTurn(runs, makers[0].make)

    def start(self) -> bool:
        """Start processes, in the background; return whether there is anything to wait for."""
        if not self._count or self._kind == "thread":
            return False
        self._open_pool()
        return True

    @property
    def has_started(self) -> bool:
        """Whether all are ready for work."""
        return self._pool is not None and len(self._pool.pids) == self._count

    def _open_threads(self, runs: Iterator[Run], makers: list[RunMaker]) -> Passing:
        works = [maker.make for maker in makers]
        if not self._divides:
            group = None if self._in_order else _epoch_of
            return ThreadPass(runs, works, ahead=self._ahead, timeout_s=self._timeout_s, group=group)
        first, parts, runs = divide_first(runs, self._count)
        by_all = ThreadPass(runs, works, ahead=self._ahead, timeout_s=self._timeout_s)
        return PartedPass(by_all, first, parts, RunMaker(self._fetcher, self._order).make)

    def _open_processes(self, cut: Callable[[Callable[[], int]], Iterator[Run]]) -> Passing:
        from .passes import WorkerPass

        pool = self._open_pool()
        runs = cut(pool.max_batches)
        if not self._divides or 0 < pool.seconds_per_batch < _WORTH_DIVIDING_S:
            return WorkerPass(pool, runs, ahead=self._ahead, timeout_s=self._timeout_s, in_order=self._in_order)
        first, parts, runs = divide_first(runs, self._count)
        by_all = WorkerPass(pool, runs, ahead=self._ahead, timeout_s=self._timeout_s)
        return PartedPass(by_all, first, parts, by_all.make)

    def keep(self, runs: Passing, following: Cursor) -> None:
        """Take back the runs of a pass that has come to its end, for one that starts at ``following``."""
        self._drop_kept()
        if self._goes_on:
            self._kept = following, runs
        else:
            runs.close()
        if not self._persistent:
            self.close()
        self._ended = True

    @property
    def _goes_on(self) -> bool:
        return self._persistent and (self._ended or (self._count > 0 and self._kind == "process"))

    def _drop_kept(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            kept[1].close()

    def close(self) -> None:
        """End the processes, and what was made ahead. May be called twice; the next pass starts new ones."""
        self._drop_kept()
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _open_pool(self) -> WorkerPool:
        if self._pool is None or not self._pool.alive:
            try:
                with postponed():
                    self._pool = self._make_pool()
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    error.add_note(
                        f"worker processes take {_DESCRIPTORS} file descriptors here, however many there are and whatever they "
                        f"send; raise the limit with `ulimit -n`{_describe_limit()}, or close some files"
                    )
                raise
        return self._pool

    def _make_pool(self) -> WorkerPool:
        from .pool import WorkerPool

        return WorkerPool(
            self._make_payload(),
            num_workers=self._count,
            method=self._method,
            ahead=self._ahead,
            watch=self._watch,
            pin_memory=self._pin_memory,
        )

    def _make_payload(self) -> Payload:
        return Payload(self._fetcher, self._order, self._init, self._count, self._seed)


def _epoch_of(run: Run) -> int:
    return run.epoch


def _describe_limit() -> str:
    import resource

    return f", which is {resource.getrlimit(resource.RLIMIT_NOFILE)[0]} now"


def _check(count: int, kind: str, prefetch_factor: int, method: str | None, timeout_s: float) -> None:
    if count > _MAX_WORKERS:
        raise ValueError(f"num_workers is {count}; it must be at most {_MAX_WORKERS}")
    if kind not in ("process", "thread"):
        raise ValueError(f"worker_type is {kind!r}; it must be 'process' or 'thread'")
    if method not in (None, "forkserver", "spawn", "fork"):
        raise ValueError(f"multiprocessing_context is {method!r}; it must be 'forkserver', 'spawn' or 'fork'")
    if count and not prefetch_factor:
        raise ValueError("prefetch_factor is 0; it must be at least 1 with workers, or they would have nothing to do")
    if not timeout_s >= 0:
        raise ValueError(f"timeout is {timeout_s} seconds; it must be at least 0")
    if count and kind == "process" and not hasattr(os, "fork"):
        raise ValueError(
            f'num_workers={count}: worker processes need fork, which {sys.platform} has not; use worker_type="thread"'
        )
