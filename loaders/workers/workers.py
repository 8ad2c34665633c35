"""Who makes a loader's batches: this thread, one that works ahead, several, or processes. The batches are the same."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal, TypeAlias

from ..fetch import Fetcher
from ..order import Order
from ..plan import Run
from ..runs import Made, RunMaker
from ..telling.watch import Watch
from .in_turn import InTurn
from .payload import Payload, check_picklable
from .prefetch import Prefetcher
from .threads import ThreadPass

if TYPE_CHECKING:
    from .passes import WorkerPass
    from .pool import WorkerPool

    Passing: TypeAlias = Prefetcher[Made] | ThreadPass[Made] | WorkerPass | InTurn[Made]

__all__ = ["StartMethod", "WorkerType", "Workers"]

WorkerType = Literal["process", "thread"]
StartMethod = Literal["forkserver", "spawn", "fork"]

_MAX_WORKERS = 1024


class Workers:
    """The workers of one loader. Processes start with the first pass and serve all; threads live as long as a pass.

    Args:
      fetcher, order, watch: What makes batches, which ones, and what adds up the time it takes.
      count: 0 for none: then the work is done here, ahead in a thread unless ``prefetch_factor`` is 0.
      kind, method, init, timeout_s, pin_memory: ``worker_type``, ``multiprocessing_context``, ``worker_init_fn``, ``timeout``
        and ``pin_memory`` of ``DataLoader``.
      seed: What workers' own seeds come from.

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
        self._pool: WorkerPool | None = None
        if count and kind == "process" and method != "fork":
            parts = {**fetcher.parts(), "worker_init_fn": init}
            # The source is looked at when it is sent: pickling one that holds its data takes a while.
            check_picklable({name: part for name, part in parts.items() if name != "source"})

    def open(self, cut: Callable[[Callable[[], int]], Iterator[Run]]) -> Passing:
        """Begin to make the runs that ``cut(max_batches)`` gives; return them, in that order."""
        if self._count and self._kind == "process":
            from .passes import WorkerPass

            return WorkerPass(self._open_pool(), cut, ahead=self._ahead, timeout_s=self._timeout_s)
        payload = Payload(self._fetcher, self._order, self._init, self._count, self._seed)
        infos = [payload.describe(worker) for worker in range(self._count)]
        makers = [RunMaker(self._fetcher, self._order, info) for info in infos] or [RunMaker(self._fetcher, self._order)]
        runs = cut(makers[0].max_batches)
        if self._count:
            return ThreadPass(runs, [maker.make for maker in makers], ahead=self._ahead, timeout_s=self._timeout_s)
        if self._ahead:
            return Prefetcher(runs, makers[0].make, ahead=self._ahead)
        return InTurn(runs, makers[0].make)

    def close(self) -> None:
        """End the processes. May be called twice; the next pass starts new ones."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _open_pool(self) -> WorkerPool:
        if self._pool is None or not self._pool.alive:
            from .pool import WorkerPool

            self._pool = WorkerPool(
                Payload(self._fetcher, self._order, self._init, self._count, self._seed),
                num_workers=self._count,
                method=self._method,
                ahead=self._ahead,
                watch=self._watch,
                pin_memory=self._pin_memory,
            )
        return self._pool


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
