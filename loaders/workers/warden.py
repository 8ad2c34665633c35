"""The process between training and its workers: starts them, reaps them, and lets none outlive the training process.

Workers are forked from it, not from the training process: it has one thread, no open files of the user's and no device, and
has imported what they need. A worker is there in milliseconds, so that replacing one costs little, and scripts need no
``if __name__ == "__main__"``, as nothing imports them. The kernel kills workers when the warden ends; the warden watches the
training process.

    order   int64           start this worker; or END
    report  2 x int64       this worker has ended, with this exit code (minus the number of the signal that killed it)
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from .payload import Payload
from .worker import Setup, serve

__all__ = ["END", "ORDER", "REPORT", "launch", "run_warden"]

ORDER = struct.Struct("<q")
REPORT = struct.Struct("<qq")
END = -1

#: Workers that have nothing to do leave by themselves, in a millisecond or two; the others are in the user's code.
_GRACE_S = 0.2
_PR_SET_PDEATHSIG = 1
#: A batch this large is not in the cache any more when training comes to it. Written past it, what was there need not be
#: fetched first: copying 19 MB takes 2.4 ms in place of 3.1, and reading it in another process 2.05 in place of 1.94. Lower, it
#: would spare images their copy into the batch, but cost functions that copy images more.
_PAST_CACHE_BYTES = 4 << 20

_MAIN = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from arrayfeed.loaders.workers import warden
warden.{function}({arguments})
"""


def launch(function: str, arguments: str, more: dict[str, Any], fds: list[int]) -> subprocess.Popen[bytes]:
    """Start a fresh interpreter that calls ``warden.<function>(<arguments>)`` with ``more`` as its ``sys.argv[2]``, in JSON.

    It leads a session of its own, which no Ctrl-C reaches, and lets no library start a pool of threads unless the user set
    its size in the environment. Large copies go past the cache there, if it is glibc that does them.
    """
    settings = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OPENCV_FOR_THREADS_NUM")}
    settings["GLIBC_TUNABLES"] = f"glibc.cpu.x86_non_temporal_threshold={_PAST_CACHE_BYTES}"
    return subprocess.Popen(
        [
            sys.executable,
            *subprocess._args_from_interpreter_flags(),  # type: ignore[attr-defined]
            "-c",
            _MAIN.format(function=function, arguments=arguments),
            json.dumps(sys.path),
            json.dumps(more),
        ],
        stdin=subprocess.DEVNULL,
        pass_fds=fds,
        start_new_session=True,
        env=settings | dict(os.environ),
    )


def main_warden() -> None:
    """Run as a process that ``launch`` started."""
    more = json.loads(sys.argv[2])
    control = socket.socket(fileno=more["control_fd"])
    run_warden(control, more["parent"], Setup(**more["setup"]), fresh=more["fresh"])
    os._exit(0)  # sooner: there is nothing to be tidied up in this process


def main_worker() -> None:
    """Run as a worker in a fresh interpreter."""
    more = json.loads(sys.argv[2])
    _run_worker(more["worker"], Setup(**more["setup"]), None, more["parent"])


def run_warden(control: socket.socket, parent: int, setup: Setup, payload: Payload | None = None, *, fresh: bool) -> None:
    """Serve one training process until it ends or says so; then end, with all workers.

    Args:
      control: Orders come from here, reports go there.
      parent: The training process.
      setup, payload: For the workers.
      fresh: Start each worker as an interpreter of its own, instead of forking it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    gc.collect()
    gc.freeze()  # what is here now is never looked at by the workers' collectors: their pages stay shared
    workers: dict[int, int] = {}
    poller = select.poll()
    poller.register(control, select.POLLIN)
    poller.register(woken, select.POLLIN)
    if hasattr(os, "pidfd_open"):
        # The socket alone is not enough: another child of the training process may have inherited the other end.
        with suppress(OSError):
            poller.register(os.pidfd_open(parent), select.POLLIN)
    if os.getppid() != parent:
        return
    known = {control.fileno(), woken}
    try:
        while True:
            ready = [fd for fd, _ in poller.poll()]
            if any(fd not in known for fd in ready):
                return
            if woken in ready:
                os.read(woken, 4096)
                for worker, code in _reap(workers):
                    control.sendall(REPORT.pack(worker, code))
            if control.fileno() in ready:
                order = control.recv(ORDER.size, socket.MSG_WAITALL)
                if not order or (worker := ORDER.unpack(order)[0]) == END:
                    return
                pid = _start_fresh(worker, setup) if fresh else _fork(worker, setup, payload, control, [woken, wake])
                workers[pid] = worker
    except (BrokenPipeError, ConnectionResetError):
        pass
    finally:
        _end(workers)


def _reap(workers: dict[int, int]) -> list[tuple[int, int]]:
    ended = []
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            if pid in workers:
                ended.append((workers.pop(pid), os.waitstatus_to_exitcode(status)))
    return ended


def _end(workers: dict[int, int]) -> None:
    end = time.monotonic() + _GRACE_S
    while workers and time.monotonic() < end:
        _reap(workers)
        time.sleep(0.001)
    for pid in workers:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    while workers:
        _reap(workers)
        time.sleep(0.001)


def _fork(worker: int, setup: Setup, payload: Payload | None, control: socket.socket, fds: list[int]) -> int:
    warden = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for fd in fds:
            os.close(fd)
        control.close()
        _run_worker(worker, setup, payload, warden)
        code = 0
    except SystemExit as leave:
        code = leave.code if isinstance(leave.code, int) else int(leave.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    with suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code & 0xFF)


def _start_fresh(worker: int, setup: Setup) -> int:
    more = {"worker": worker, "setup": asdict(setup), "parent": os.getpid()}
    process = launch("main_worker", "", more, [setup.arena_fd, setup.jobs_fd, setup.results_fd])
    process.returncode = 0  # it is reaped with all others, not by this object
    return process.pid


def _run_worker(worker: int, setup: Setup, payload: Payload | None, warden: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == warden:
        serve(worker, setup, payload)
