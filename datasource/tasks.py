"""Tasks shared out to processes: progress as it comes, results in the tasks' order, a process that dies is replaced."""

from __future__ import annotations

import pickle
import signal
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

__all__ = ["Tick", "run_tasks"]

T = TypeVar("T")
R = TypeVar("R")

#: Is told how much more of a task is done.
Tick: TypeAlias = Callable[[int], None]

_TICK_S = 0.1


def run_tasks(
    function: Callable[[T, Tick], R],
    tasks: Sequence[T],
    *,
    num_workers: int,
    tick: Tick,
    describe: Callable[[T], str],
    attempts: int = 1,
) -> list[R]:
    """Return ``function(task, tick)`` of every task, in their order.

    Whatever ends this call, an exception or Ctrl-C too, ends the processes first.

    Args:
      function: Runs a task, calling ``tick`` now and then. With workers it is sent to spawned processes, with the tasks and
        their results: all must pickle.
      num_workers: Processes, at most one a task; 0 runs the tasks here, one by one.
      tick: Is told of progress, here; of less than nothing where a process died and its task begins anew.
      describe: What to call a task in an error.
      attempts: How often a task is begun, if the process that ran it dies.

    Raises:
      TypeError: ``function`` does not pickle.
      RuntimeError: The processes that ran a task died, every time.
      Exception: The first that a task raised, with the process's own traceback as a note.
    """
    if not num_workers or not tasks:
        return [function(task, tick) for task in tasks]
    try:
        pickled = pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(
            f"this cannot be sent to worker processes: {error}; define functions and classes at the top of a module, or use "
            "num_workers=0"
        ) from error
    crew = _Crew(pickled, min(num_workers, len(tasks)))
    try:
        return cast(list[R], crew.run(tasks, tick, describe, attempts))
    finally:
        crew.dismiss()


class _Worker:
    """One process, and the number of the task that it is at."""

    def __init__(self, pickled: bytes) -> None:
        import multiprocessing  # not for those who never write: it takes 7 ms

        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        # A daemon, so that an interpreter that exits takes it along.
        self.process = context.Process(target=_work, args=(theirs, pickled), daemon=True)
        try:
            with _interrupts_held():
                self.process.start()
        finally:
            theirs.close()  # the process has it: its end is seen here as the end of the connection
        self.task = -1
        self.done = 0

    def kill(self) -> int:
        """End the process, whatever it is doing, and return its exit code."""
        self.process.kill()
        self.process.join()
        code = self.process.exitcode or 0
        self.process.close()
        self.connection.close()
        return code


class _Crew:
    """The processes, and who does what."""

    def __init__(self, pickled: bytes, size: int) -> None:
        self._pickled = pickled
        self._workers: dict[Any, _Worker] = {}
        self._size = size

    def run(self, tasks: Sequence[Any], tick: Tick, describe: Callable[[Any], str], attempts: int) -> list[Any]:
        from multiprocessing.connection import wait

        results: list[Any] = [None] * len(tasks)
        begun = [0] * len(tasks)
        waiting = deque(range(len(tasks)))
        unfinished = len(tasks)

        def hand_out(worker: _Worker) -> None:
            if waiting:
                worker.task, worker.done = waiting.popleft(), 0
                begun[worker.task] += 1
                with suppress(ConnectionError):  # it died at once; the end of its connection tells
                    worker.connection.send(tasks[worker.task])

        for _ in range(self._size):
            hand_out(self._hire())
        while unfinished:
            for connection in wait(list(self._workers)):
                worker = self._workers[connection]
                try:
                    kind, value = worker.connection.recv()
                except (EOFError, ConnectionError):
                    del self._workers[connection]
                    code, number = worker.kill(), worker.task
                    tick(-worker.done)
                    if begun[number] >= attempts:
                        raise RuntimeError(_obituary(code, describe(tasks[number]), attempts)) from None
                    waiting.appendleft(number)
                    hand_out(self._hire())
                    continue
                if kind == "tick":
                    worker.done += value
                    tick(value)
                elif kind == "error":
                    error, trace = value
                    error.add_note(f"In a worker process:\n{trace}")
                    raise error
                else:
                    results[worker.task] = value
                    unfinished -= 1
                    hand_out(worker)
        return results

    def _hire(self) -> _Worker:
        worker = _Worker(self._pickled)
        self._workers[worker.connection] = worker
        return worker

    def dismiss(self) -> None:
        """End all processes."""
        for worker in self._workers.values():
            worker.kill()
        self._workers.clear()


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Keep SIGINT waiting: a process inherits that, so that Ctrl-C does not end it with a traceback while it starts."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(connection: Connection, pickled: bytes) -> None:
    """Run tasks until the connection ends: what a process does."""
    # Ctrl-C reaches all processes of a terminal; the parent decides what becomes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        function = pickle.loads(pickled)
    except Exception as error:
        _send_error(connection, error)
        return
    pending, told = 0, time.monotonic()

    def tick(count: int) -> None:
        nonlocal pending, told
        pending += count
        if time.monotonic() - told >= _TICK_S:
            connection.send(("tick", pending))
            pending, told = 0, time.monotonic()

    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        try:
            result = function(task, tick)
            if pending:
                connection.send(("tick", pending))
                pending = 0
            connection.send(("done", result))
        except BrokenPipeError:
            return  # nobody is there any more
        except Exception as error:
            _send_error(connection, error)
            return


def _send_error(connection: Connection, error: Exception) -> None:
    trace = traceback.format_exc()
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    connection.send(("error", (error, trace)))


def _obituary(code: int, task: str, attempts: int) -> str:
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        why = f"was ended by {name}" + (", as the system does when memory runs out" if name == "SIGKILL" else "")
    else:
        why = f"ended with exit status {code}"
    times = f", {attempts} times" if attempts > 1 else ""
    return f"the worker process at {task} {why}{times}; nothing of it was kept"
