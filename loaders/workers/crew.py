"""The training process's end of a warden and its workers: two pipes, a socket, and how all of it is ended."""

from __future__ import annotations

import array
import fcntl
import multiprocessing.spawn
import os
import select
import signal
import socket
import subprocess
import termios
import time
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass

from .arena import Arena
from .packing import Packed
from .payload import Payload
from .records import Job, Result
from .warden import END, ORDER, REPORT, launch, run_warden
from .worker import Setup
from .workers import StartMethod

__all__ = ["Crew", "Death"]


@dataclass(frozen=True, slots=True)
class Death:
    """A worker that ended; None for the warden, which takes all workers along. ``code`` as in ``subprocess``."""

    worker: int | None
    code: int


class Crew:
    """A warden with its workers, none at first. For one thread at a time. Whoever makes one calls ``close``.

    Args:
      arena: What workers write to.
      payload, packed: What they work with, and where it lies in the arena; None with ``"fork"``, which needs it nowhere.
      method: How they are started.
      needs_main: Whether the payload refers to the user's ``__main__``.
    """

    def __init__(self, arena: Arena, payload: Payload, packed: Packed | None, method: StartMethod, needs_main: bool) -> None:
        self._pid = os.getpid()
        pipes: list[int] = []
        try:
            pipes += os.pipe()
            pipes += os.pipe()
            self._control, control_out = socket.socketpair()
        except OSError:
            for fd in pipes:
                os.close(fd)
            raise
        jobs_out, self._jobs, self._results, results_in = pipes
        os.set_blocking(self._jobs, False)
        os.set_blocking(self._results, False)
        self._backlog: deque[bytes] = deque()
        self._reports = b""
        self._process: subprocess.Popen[bytes] | None = None
        _crews.add(self)
        setup = Setup(
            arena.fd,
            arena.capacity,
            arena.in_memory,
            jobs_out,
            results_in,
            None if packed is None else (packed.at, packed.stream_bytes, packed.arrays),
            _describe_main() if needs_main else None,
        )
        try:
            if method == "fork":
                self._warden = _fork_warden(control_out, setup, payload)
            else:
                more = {
                    "control_fd": control_out.fileno(),
                    "parent": self._pid,
                    "setup": asdict(setup),
                    "fresh": method == "spawn",
                }
                self._process = launch("main_warden", "", more, [control_out.fileno(), arena.fd, jobs_out, results_in])
                self._warden = self._process.pid
        except BaseException:
            self.drop()
            raise
        finally:
            control_out.close()
            os.close(jobs_out)
            os.close(results_in)
        self._poller = select.poll()
        self._poller.register(self._results, select.POLLIN)
        self._poller.register(self._control, select.POLLIN)

    def start(self, worker: int) -> None:
        """Order a worker with this number."""
        with suppress(BrokenPipeError):  # a warden that is gone is told of by `poll`
            self._control.sendall(ORDER.pack(worker))

    def send(self, job: Job) -> None:
        """Let whichever worker is free first do a job. Never waits."""
        self._backlog.append(job.to_bytes())
        self._write_backlog()

    def count_waiting(self) -> int:
        """Return how many jobs no worker has taken yet: the latest ones that were sent."""
        return _count_bytes(self._jobs) // Job.FORM.size + len(self._backlog)

    def count_results(self) -> int:
        """Return how many results `poll` would yield at once."""
        return _count_bytes(self._results) // Result.FORM.size

    def poll(self, timeout_s: float | None) -> Iterator[Result | Death]:
        """Wait until something happened, or for ``timeout_s``; yield it, results before deaths."""
        self._write_backlog()
        # A job that found the pipe full waits for a result: then there is room.
        ready = {fd for fd, _ in self._poller.poll(None if timeout_s is None else max(0, timeout_s) * 1000)}
        deaths = list(self._read_reports()) if self._control.fileno() in ready else []
        if self._results in ready or deaths:
            yield from self._read_results()
        yield from deaths

    def _read_results(self) -> Iterator[Result]:
        with suppress(BlockingIOError):
            while data := os.read(self._results, 64 * Result.FORM.size):
                for at in range(0, len(data), Result.FORM.size):
                    yield Result.from_bytes(data[at : at + Result.FORM.size])

    def _read_reports(self) -> Iterator[Death]:
        try:
            data = self._control.recv(4096)
        except ConnectionResetError:
            data = b""
        if not data:
            yield Death(None, self._wait(5.0))
            return
        self._reports += data
        while len(self._reports) >= REPORT.size:
            worker, code = REPORT.unpack_from(self._reports)
            self._reports = self._reports[REPORT.size :]
            yield Death(worker, code)

    def _write_backlog(self) -> None:
        with suppress(BlockingIOError, BrokenPipeError):
            while self._backlog:
                os.write(self._jobs, self._backlog[0])
                self._backlog.popleft()

    # -- the end --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the warden and all workers, within a fraction of a second, whatever they do. May be called twice."""
        if os.getpid() != self._pid or self._jobs < 0:
            return
        with suppress(OSError):
            self._control.sendall(ORDER.pack(END))
        self.drop()
        self._wait(2.0)

    def drop(self) -> None:
        """Close this process's ends."""
        if self._jobs >= 0:
            os.close(self._jobs)
            os.close(self._results)
            self._control.close()
            self._jobs = self._results = -1
        if self._process is not None and os.getpid() != self._pid:
            self._process.returncode = 0  # somebody else's child: nothing for this copy of the object to wait for

    def _wait(self, timeout_s: float) -> int:
        """Return the warden's exit code; it is killed if it does not end by itself."""
        if self._process is not None:
            try:
                return self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self._process.kill()
                return self._process.wait()
        end = time.monotonic() + timeout_s
        while True:
            try:
                pid, status = os.waitpid(self._warden, os.WNOHANG)
            except ChildProcessError:
                return 0
            if pid:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > end:
                os.kill(self._warden, signal.SIGKILL)
            time.sleep(0.001)


def _count_bytes(pipe: int) -> int:
    size = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, size)
    return size[0]


def _fork_warden(control: socket.socket, setup: Setup, payload: Payload) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        run_warden(control, parent, setup, payload, fresh=False)
    finally:
        os._exit(0)


def _describe_main() -> dict[str, str]:
    keys = ("init_main_from_name", "init_main_from_path", "orig_dir", "dir")
    data = multiprocessing.spawn.get_preparation_data("arrayfeed")
    return {key: str(data[key]) for key in keys if key in data}


_crews: weakref.WeakSet[Crew] = weakref.WeakSet()


def _drop_all() -> None:
    for crew in _crews:
        crew.drop()


# A child of the training process must not hold the pipes open that workers and warden see the end of.
os.register_at_fork(after_in_child=_drop_all)
