"""One pass over a pool of workers: orders placed ahead, results in order, or as they come."""

from __future__ import annotations

import os
import time
import weakref
from collections import deque
from collections.abc import Iterator
from itertools import islice

from ..errors import WorkerError
from ..plan import Run
from ..runs import Made
from .orders import Order
from .pool import WorkerPool

__all__ = ["WorkerPass"]


class WorkerPass(Iterator[Made]):
    """Gives the runs of a plan, made by a pool's workers, in order, with ``ahead`` of them ordered before they are asked for.

    Args:
      pool: The workers; several passes may share them.
      runs: What is to be made.
      ahead: ``>= 1``.
      timeout_s: How long to wait for a run, 0 for ever.
      in_order: False gives those of an epoch as they are done; no run comes before all of the epoch before have.
    """

    def __init__(self, pool: WorkerPool, runs: Iterator[Run], *, ahead: int, timeout_s: float, in_order: bool = True) -> None:
        self._pool = pool
        self._pid = os.getpid()
        self._ahead = ahead
        self._timeout_s = timeout_s
        self._in_order = in_order
        self._runs = runs
        self._orders: deque[Order] = deque()
        with pool.lock:
            self._lane, self._number = pool.enter()
        self._finalizer = weakref.finalize(self, _leave, pool, self._lane, self._orders, self._pid)
        self._finalizer.atexit = False

    @property
    def stale(self) -> bool:
        """Whether this cannot go on: closed, or in a forked child."""
        return not self._finalizer.alive or not self._pool.alive

    @property
    def ready(self) -> int:
        """How many runs wait to be asked for; a few may wait for an earlier one yet."""
        return 0 if self.stale else sum(order.settled for order in self._orders) + self._pool.unread

    def __next__(self) -> Made:
        pool = self._pool
        with pool.lock:
            try:
                self._place_orders()
                if not self._orders:
                    self.close()
                    raise StopIteration
                order = self._wait(*self._eligible())
                self._orders.remove(order)
                made = pool.collect(order)
                self._place_orders()
                return made
            except (Exception, StopIteration):
                self.close()
                raise
            except BaseException:
                # Ctrl-C can come between two steps of the book-keeping, so the books are closed.
                self.close()
                pool.close()
                raise

    def make(self, run: Run) -> Made:
        """Return a run by itself, before those that were ordered; made anew."""
        with self._pool.lock:
            order = self._wait(self._pool.order(run, self._lane, self._number))
            return self._pool.collect(order)

    def close(self) -> None:
        """Cancel what was ordered. May be called twice."""
        self._finalizer()

    def _place_orders(self) -> None:
        while len(self._orders) < self._ahead:
            run = next(self._runs, None)
            if run is None:
                return
            self._orders.append(self._pool.order(run, self._lane, self._number))

    def _eligible(self) -> Iterator[Order]:
        """Yield the orders of which the first that is settled is next."""
        first = self._orders[0]
        yield first
        if not self._in_order:
            yield from (order for order in islice(self._orders, 1, None) if order.run.epoch == first.run.epoch)

    def _wait(self, *orders: Order) -> Order:
        """Return the first of some orders that is settled, once one is."""
        end = time.monotonic() + self._timeout_s if self._timeout_s else None
        while True:
            for order in orders:
                if order.settled:
                    return order
            if end is not None and time.monotonic() > end:
                who = self._pool.who_has(orders[0])
                self._pool.close()
                raise WorkerError(f"no batch for {self._timeout_s} s: {self._pool.describe(orders[0].run)}; {who}")
            self._pool.turn(None if end is None else end - time.monotonic())


def _leave(pool: WorkerPool, lane: int, orders: deque[Order], pid: int) -> None:
    if os.getpid() == pid:
        pool.leave(lane, orders)
