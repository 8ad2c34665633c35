"""Which batch, and which record of it, is to blame where worker after worker has ended over a run."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..errors import WorkerError
from ..plan import Run
from ..runs import Made
from .orders import Order

if TYPE_CHECKING:
    from .pool import WorkerPool

__all__ = ["make_singly"]


def make_singly(pool: WorkerPool, order: Order) -> Made:
    """Make what can be made of a run that workers have ended over: the batches before the one that is to blame."""
    batches: list[Any] = []
    for bounds in pairwise(order.run.bounds):
        single = order if len(order.run.bounds) == 2 else _make(pool, Run(order.run.epoch, bounds), order)
        if single.failure is not None:
            return Made(order.run, batches, _blame(pool, single) if single.deaths else single.failure)
        made = pool.collect(single)
        batches += made.batches
        if made.error is not None:
            return Made(order.run, batches, made.error)
    return Made(order.run, batches, None)


def _blame(pool: WorkerPool, order: Order) -> WorkerError:
    """Return the error for a batch that workers have ended over, with the record, found by halving."""
    start, stop = order.run.bounds

    def kills(first: int, last: int) -> bool:
        return _make(pool, Run(order.run.epoch, (first, last)), order, probe=True).failure is not None

    while stop - start > 1:
        middle = (start + stop) // 2
        start, stop = (start, middle) if kills(start, middle) else (middle, stop)
    (record,) = pool.records(Run(order.run.epoch, (start, stop)))
    which = f"record {record} alone ends one" if kills(start, stop) else "no single record does"
    return WorkerError(
        f"{pool.describe(order.run)}: {len(order.deaths)} workers have ended while making these, and {which}. The last, "
        f"{order.deaths[-1]}"
    )


def _make(pool: WorkerPool, run: Run, parent: Order, *, probe: bool = False) -> Order:
    order = pool.order(run, parent.lane, parent.pass_number, probe=probe)
    while not order.settled:
        pool.turn()
    if probe:
        pool.discard(order)
    return order
