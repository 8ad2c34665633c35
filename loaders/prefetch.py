"""A thread that works ahead, and that nothing keeps alive but the one who waits for its results."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Prefetcher"]

J = TypeVar("J")
R = TypeVar("R")


@dataclass(slots=True)
class _Failure:
    error: BaseException


class _Channel(Generic[R]):
    """What thread and consumer share; it refers to neither, so that a forgotten consumer ends the thread."""

    def __init__(self, limit: int) -> None:
        self.condition = threading.Condition(threading.Lock())
        self.results: deque[R | _Failure | None] = deque()
        self.limit = limit
        self.closed = False

    def put(self, result: R | _Failure | None) -> bool:
        """Wait for room and add a result, None for the end; returns False once nobody wants it."""
        with self.condition:
            while len(self.results) >= self.limit and not self.closed:
                self.condition.wait()
            if self.closed:
                return False
            self.results.append(result)
            self.condition.notify_all()
            return True

    def close(self) -> None:
        with self.condition:
            self.closed = True
            self.results.clear()
            self.condition.notify_all()


class Prefetcher(Iterator[R]):
    """Calls ``work(job)`` for each of ``jobs`` in a thread, at most ``ahead`` results before they are asked for.

    Results come in order. An error of ``jobs`` or ``work`` is raised in its turn, behind the results before it; the thread
    has ended then. ``close``, garbage collection and interpreter exit end the thread too. One consumer at a time.

    In a stale child there is no thread: ``next`` raises ``RuntimeError`` there, see ``stale``.
    """

    def __init__(self, jobs: Iterator[J], work: Callable[[J], R], *, ahead: int) -> None:
        self._channel: _Channel[R] = _Channel(ahead)
        self._pid = os.getpid()
        self._waited_s = 0.0
        self._thread = threading.Thread(target=_run, args=(jobs, work, self._channel), daemon=True, name="arrayfeed-prefetch")
        self._finalizer = weakref.finalize(self, _stop, self._channel, self._thread, self._pid)
        self._thread.start()

    @property
    def stale(self) -> bool:
        """Whether it cannot go on: this is a child process that the thread did not come along to."""
        return os.getpid() != self._pid

    @property
    def waited_s(self) -> float:
        """Seconds that ``next`` has waited for results."""
        return self._waited_s

    def __next__(self) -> R:
        if self.stale:
            raise RuntimeError("a prefetch thread does not survive a fork; iterate over the loader again in the child")
        channel = self._channel
        with channel.condition:
            if not channel.results:
                start = time.perf_counter()
                while not channel.results:
                    if channel.closed:
                        raise StopIteration
                    channel.condition.wait()
                self._waited_s += time.perf_counter() - start
            result = channel.results.popleft()
            channel.condition.notify_all()
        if isinstance(result, _Failure):
            self.close()
            raise result.error
        if result is None:
            self.close()
            raise StopIteration
        return result

    def close(self) -> None:
        """End the thread, waiting for the piece of work in hand. May be called twice."""
        self._finalizer()


def _run(jobs: Iterator[J], work: Callable[[J], R], channel: _Channel[R]) -> None:
    try:
        for job in jobs:
            if not channel.put(work(job)):
                return
        channel.put(None)
    except BaseException as error:
        channel.put(_Failure(error))


def _stop(channel: _Channel[R], thread: threading.Thread, pid: int) -> None:
    if os.getpid() != pid:
        return  # the thread, and perhaps the lock, belong to the parent
    channel.close()
    if thread is not threading.current_thread():
        # A transform that never returns must not keep the interpreter from ending: the thread is a daemon.
        thread.join(timeout=5)
