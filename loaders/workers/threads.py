"""Several threads that work ahead, with results in order, or as they come."""

from __future__ import annotations

import array
import os
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ..errors import WorkerError
from ..in_hand import NOTHING, describe_at, show_in
from .interrupts import postponed

__all__ = ["ThreadPass"]

J = TypeVar("J")
R = TypeVar("R")


@dataclass(slots=True)
class _Failure:
    error: BaseException


class _Desk(Generic[J, R]):
    """What threads and consumer share; it refers to neither, so that a forgotten consumer ends the threads."""

    def __init__(self, jobs: Iterator[J], ahead: int, group: Callable[[J], Hashable] | None) -> None:
        # Reentrant: the garbage collector may close a desk in a thread that has the lock already.
        self.condition = threading.Condition(threading.RLock())
        self.jobs = jobs
        self.ahead = ahead
        self.group = group
        self.taken = 0  # jobs that threads have taken
        self.waiting: dict[int, Hashable] = {}  # jobs that were taken and not delivered, in order; and each one's group
        self.end: int | None = None  # how many jobs there are, once that is known
        self.results: dict[int, R | _Failure] = {}
        self.in_hand: dict[int, memoryview] = {}  # by job: the record that its thread is at
        self.closed = False

    def take(self) -> tuple[int, J] | None:
        """Wait for room and return the next job with its number; None once there is nothing more to do."""
        with self.condition:
            while len(self.waiting) >= self.ahead and not self.closed:
                self.condition.wait()
            if self.closed or self.end is not None:
                return None
            number = self.taken
            try:
                job = next(self.jobs, None)
            except BaseException as error:
                self.results[number] = _Failure(error)
                self.waiting[number] = None  # behind all others
                self.taken, self.end = number + 1, number + 1
                self.condition.notify_all()
                return None
            if job is None:
                self.end = number
                self.condition.notify_all()
                return None
            self.taken += 1
            self.waiting[number] = None if self.group is None else self.group(job)
            return number, job

    def choose(self) -> int | None:
        """Return which result is to be delivered next, if it is there."""
        before: Hashable = None
        for place, (number, group) in enumerate(self.waiting.items()):
            if place and (self.group is None or group != before):
                return None
            if number in self.results:
                return number
            before = group
        return None

    def put(self, number: int, result: R | _Failure) -> None:
        with self.condition:
            self.results[number] = result
            self.in_hand.pop(number, None)
            self.condition.notify_all()

    def close(self) -> None:
        with self.condition:
            self.closed = True
            self.results.clear()
            self.condition.notify_all()


class ThreadPass(Iterator[R]):
    """Calls ``work(job)`` for each of ``jobs``, one thread for each of ``works``, at most ``ahead`` before they are asked for.

    Results come in the order of the jobs, whichever thread is done first. An error of ``jobs`` or ``work`` is raised in its
    turn. ``close``, garbage collection and interpreter exit end the threads. One consumer at a time.

    Args:
      timeout_s: Seconds after which a result that does not come raises ``WorkerError``; 0 waits for ever.
      group: Results of neighbouring jobs of which it says the same come as they are done; None for all in order.
    """

    def __init__(
        self,
        jobs: Iterator[J],
        works: Sequence[Callable[[J], R]],
        *,
        ahead: int,
        timeout_s: float,
        group: Callable[[J], Hashable] | None = None,
    ) -> None:
        self._desk: _Desk[J, R] = _Desk(jobs, ahead, group)
        self._pid = os.getpid()
        self._timeout_s = timeout_s
        threads = [
            threading.Thread(target=_run, args=(work, self._desk), daemon=True, name=f"arrayfeed-worker-{number}")
            for number, work in enumerate(works)
        ]
        self._finalizer = weakref.finalize(self, _stop, self._desk, threads, self._pid)
        with postponed():  # starting waits for each thread, with locks that Ctrl-C would leave in disorder
            for thread in threads:
                thread.start()

    @property
    def stale(self) -> bool:
        """Whether it cannot go on: this is a child process that the threads did not come along to."""
        return os.getpid() != self._pid

    @property
    def ready(self) -> int:
        """How many results wait to be asked for; a few may wait for an earlier one yet."""
        return len(self._desk.results)

    def __next__(self) -> R:
        if self.stale:
            raise RuntimeError("threads do not survive a fork; iterate over the loader again in the child")
        desk = self._desk
        end = time.monotonic() + self._timeout_s if self._timeout_s else None
        with desk.condition:
            while (number := desk.choose()) is None:
                if desk.closed or (not desk.waiting and desk.taken == desk.end):
                    raise StopIteration
                if not desk.condition.wait(None if end is None else end - time.monotonic()):
                    desk.closed = True  # not waited for: a thread that is stuck cannot be ended
                    cell = desk.in_hand.get(next(iter(desk.waiting), -1))
                    where = "no thread has begun with it" if cell is None else f"a thread is {describe_at(cell[0])}"
                    raise WorkerError(f"no batch for {self._timeout_s} s: {where}")
            result = desk.results.pop(number)
            del desk.waiting[number]
            desk.condition.notify_all()
        if isinstance(result, _Failure):
            self.close()
            raise result.error
        return result

    def close(self) -> None:
        """End the threads, waiting for the work in hand. May be called twice."""
        self._finalizer()


def _run(work: Callable[[J], R], desk: _Desk[J, R]) -> None:
    cell = memoryview(array.array("q", [NOTHING]))
    show_in(cell)
    while (taken := desk.take()) is not None:
        number, job = taken
        desk.in_hand[number] = cell
        result: R | _Failure
        try:
            result = work(job)
        except BaseException as error:
            result = _Failure(error)
        desk.put(number, result)


def _stop(desk: _Desk[J, R], threads: list[threading.Thread], pid: int) -> None:
    if os.getpid() != pid:
        return  # the threads, and perhaps the lock, belong to the parent
    desk.close()
    if threading.current_thread() in threads:
        return  # called by the collector, perhaps with the lock that the others need to end
    end = time.monotonic() + 5
    for thread in threads:
        # A transform that never returns must not keep the interpreter from ending: threads are daemons.
        thread.join(timeout=max(0.0, end - time.monotonic()))
