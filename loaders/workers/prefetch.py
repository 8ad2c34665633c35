"""A thread that works ahead, and that nothing keeps alive but the one who waits for its results.

Work that never waits for anything, and that only Python's lock keeps from running beside the consumer's, gains nothing by a
thread: it is done while the consumer waits, and both keep taking the lock from each other. An epoch of small images whose
records are all known took 1.2 to 1.4 times as long with the thread as without. So the consumer takes such work over.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from .interrupts import postponed

__all__ = ["Prefetcher"]

#: How often a thread that has nothing to do looks whether there is still somebody to work for.
_LOOK_S = 1.0
#: Such a nap, of some 70 us, is enough for another thread to wake up and take Python's lock.
_YIELD_S = 10e-6

J = TypeVar("J")
R = TypeVar("R")


@dataclass(slots=True)
class _Failure:
    error: BaseException


class _Channel(Generic[R]):
    """What thread and consumer share; it refers to neither, so that a forgotten consumer ends the thread.

    Two simple queues and a flag, and no lock: the garbage collector may close a channel at any moment, in the thread that is
    just about to wait for it too. With a condition that thread would hold the lock already, or miss the call.
    """

    def __init__(self, ahead: int) -> None:
        self.results: SimpleQueue[R | _Failure | None] = SimpleQueue()
        self.room: SimpleQueue[None] = SimpleQueue()
        self.closed = False
        self.is_awaited = False  # the consumer waits for a result, or for Python's lock to take it
        for _ in range(ahead):
            self.room.put(None)

    def close(self) -> None:
        self.closed = True
        self.room.put(None)  # for a thread that waits, and for a consumer in another thread
        self.results.put(None)


class Prefetcher(Iterator[R]):
    """Calls ``work(job)`` for each of ``jobs`` in a thread, which never holds or makes more than ``ahead`` results.

    Results come in order. An error of ``jobs`` or ``work`` is raised in its turn, behind the results before it; the thread
    has ended then. ``close``, garbage collection and interpreter exit end the thread too. One consumer at a time.

    In a forked child there is no thread: ``next`` raises ``RuntimeError`` there, see ``stale``.

    Args:
      ahead: ``>= 1``.
      is_light: Of a result: whether making it, and those after it, needs no thread. Once a consumer had to wait for one, he
        makes the next ones himself, as long as they are.
    """

    def __init__(
        self, jobs: Iterator[J], work: Callable[[J], R], *, ahead: int, is_light: Callable[[R], bool] = lambda result: False
    ) -> None:
        self._channel: _Channel[R] = _Channel(ahead)
        self._make = partial(_make_next, jobs, work)
        self._ahead = ahead
        self._is_light = is_light
        # Results that the thread is not told to make in place of those taken; of all of them, it waits, with nothing in hand.
        self._withheld = 0
        self._pid = os.getpid()
        arguments = (self._make, self._channel, weakref.ref(self))
        thread = threading.Thread(target=_run, args=arguments, daemon=True, name="arrayfeed-prefetch")
        # Starting waits for the thread, with locks that Ctrl-C would leave in disorder.
        with postponed():
            self._finalizer = weakref.finalize(self, _stop, self._channel, thread, self._pid)
            thread.start()

    @property
    def stale(self) -> bool:
        """Whether it cannot go on: this is a child process that the thread did not come along to."""
        return os.getpid() != self._pid

    @property
    def ready(self) -> int:
        """How many results wait to be asked for."""
        return self._channel.results.qsize()

    def __next__(self) -> R:
        if self.stale:
            raise RuntimeError("a prefetch thread does not survive a fork; iterate over the loader again in the child")
        channel = self._channel
        if self._withheld == self._ahead and not channel.closed:
            return self._make_here()
        has_waited = channel.is_awaited = not channel.results.qsize()
        try:
            result = None if channel.closed else channel.results.get()
        finally:
            channel.is_awaited = False
        if result is None:
            self.close()
            raise StopIteration
        if isinstance(result, _Failure):
            self.close()
            raise result.error
        self._withheld += 1
        if not (self._is_light(result) and (has_waited or self._withheld > 1)):
            self._make_room()
        return result

    def _make_here(self) -> R:
        """Make the next result in this thread."""
        try:
            result = self._make()
        except BaseException:
            self.close()
            raise
        if not self._is_light(result):
            self._make_room()
        return result

    def _make_room(self) -> None:
        """Let the thread make as many results as were taken."""
        while self._withheld:
            self._withheld -= 1
            self._channel.room.put(None)

    def close(self) -> None:
        """End the thread, waiting for the piece of work in hand, but no longer than 5 s. May be called twice."""
        with postponed():
            self._channel.close()
        self._finalizer()


def _run(make: Callable[[], R], channel: _Channel[R], owner: weakref.ref[Prefetcher[R]]) -> None:
    try:
        while not channel.closed:
            # Ctrl-C inside a finalizer can keep it from telling: nobody to work for is a reason to end, too.
            try:
                channel.room.get(timeout=_LOOK_S)
            except Empty:
                if owner() is None:
                    return
                continue
            if not channel.closed:
                channel.results.put(make())
            # Who waits for a result gets it now, not when Python takes its lock from this thread, which is after 5 ms.
            while channel.is_awaited and channel.results.qsize():
                time.sleep(_YIELD_S)
    except StopIteration:
        channel.results.put(None)
    except BaseException as error:
        channel.results.put(_Failure(error))


def _make_next(jobs: Iterator[J], work: Callable[[J], R]) -> R:
    """Do the next job; raise ``StopIteration`` if there is none."""
    return work(next(jobs))


def _stop(channel: _Channel[R], thread: threading.Thread, pid: int) -> None:
    if os.getpid() != pid:
        return  # the thread belongs to the parent
    channel.close()
    if thread.is_alive() and thread is not threading.current_thread():
        # Whoever goes on may close files or start anew, and at exit C++ code does not survive the end of its thread. But a
        # transform that never returns must not keep the interpreter from ending: the thread is a daemon.
        thread.join(timeout=5)
