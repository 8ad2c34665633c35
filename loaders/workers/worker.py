"""What runs inside a worker process: takes jobs from the pipe, writes batches into slots, answers."""

from __future__ import annotations

import os
import sys
import time
import traceback
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...datasource.deferred import Deferred
from ...datasource.laps import READ, TRANSPORT
from ..errors import WorkerError
from ..in_hand import show_in
from ..runs import Made, RunMaker
from ..telling.times import Times
from ..worker_info import enter_worker
from .alike import stack_alike
from .arena import Arena
from .packing import Packed, Unpacked, dump
from .payload import Payload
from .records import BOARD_BYTES, Board, Job, Result
from .workspace import Workspace

__all__ = ["Setup", "serve"]

_NOTHING = Packed(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Setup:
    """What a worker is born with: descriptors, and where things are. Plain values, for a command line.

    Attributes:
      capacity, in_memory: Of the arena, whose file is ``arena_fd``.
      jobs_fd, results_fd: The ends of the two pipes.
      payload: The numbers of ``Packed``; None where the payload is inherited.
      main: What ``multiprocessing.spawn.prepare`` needs to import the user's ``__main__``; None where nothing refers to it.
    """

    arena_fd: int
    capacity: int
    in_memory: bool
    jobs_fd: int
    results_fd: int
    payload: tuple[int, int, int] | None
    main: dict[str, Any] | None


def serve(worker: int, setup: Setup, payload: Payload | None = None) -> None:
    """Do jobs until there are no more to come, or nobody is there to take the results."""
    arena = Arena(setup.arena_fd, setup.capacity, setup.in_memory)
    board = Board(arena.memory)
    show_in(board.at[worker : worker + 1].data)
    maker = _prepare(worker, setup, arena, payload)
    board.pids[worker] = os.getpid()
    try:
        while record := os.read(setup.jobs_fd, Job.FORM.size):
            job = Job.from_bytes(record)
            board.since[worker] = time.monotonic_ns()
            board.tickets[worker] = job.ticket
            os.write(setup.results_fd, _do(job, worker, arena, board, maker).to_bytes())
            board.tickets[worker] = 0
    except BrokenPipeError:
        pass


def _prepare(worker: int, setup: Setup, arena: Arena, payload: Payload | None) -> RunMaker | Exception:
    """Return what makes batches; or why there is nothing that could, to be told in answer to every job."""
    try:
        if setup.main is not None:
            import multiprocessing.spawn

            multiprocessing.spawn.prepare(setup.main)
        if payload is None:
            assert setup.payload is not None
            payload = Payload.load(arena, BOARD_BYTES, Packed(*setup.payload))
        # Workers share the cores among them: a pool of threads in each would only get in the way.
        if "cv2" in sys.modules:
            sys.modules["cv2"].setNumThreads(1)
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(1)
        _reseed()
        enter_worker(info := payload.describe(worker))
        if payload.worker_init_fn is not None:
            payload.worker_init_fn(worker)
        return RunMaker(payload.fetcher, payload.order, info, defers="batches")
    except Exception as error:
        error.add_note(
            f"raised while worker {worker} was starting, by what rebuilds the source and the functions there or by "
            "worker_init_fn; a module that only this process can import is a usual cause"
        )
        return error


def _reseed() -> None:
    """Let the libraries' own generators begin anew: forked workers have inherited one state, and would all draw the same.

    From the system's entropy, as which worker makes which batch is chance anyway; ``random`` does so by itself.
    """
    np.random.seed()
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.seed()


def _do(job: Job, worker: int, arena: Arena, board: Board, maker: RunMaker | Exception) -> Result:
    if board.lanes[job.lane] != job.pass_number:
        return Result(job.ticket, Result.CANCELLED, _NOTHING, Times(worker))
    space = Workspace(arena, job.slot_start, job.slot_size)
    if isinstance(maker, RunMaker):
        made = maker.make(job.run, space.allocate)
    else:
        made = Made(job.run, [], maker, Times(worker))
    if job.probe:
        return Result(job.ticket, Result.DONE, _NOTHING, made.times)
    times, start = made.times, time.perf_counter_ns()
    error = None if made.error is None else _make_portable(made.error, worker)
    try:
        batches = stack_alike(made.batches, space.allocate) or list(map(_make, made.batches))
        if made.batches and type(made.batches[0]) is Deferred:
            times, start = times.with_more(READ, (now := time.perf_counter_ns()) - start), now
        unpacked = Unpacked((batches, error), memory=space.memory, taken=space.taken)
    except TypeError as refusal:
        unpacked = Unpacked(([], _make_portable(refusal, worker)))
    packed = unpacked.packed
    if packed.used > job.slot_size:
        return Result(job.ticket, Result.TOO_LARGE, packed, times)
    try:
        arena.reserve(job.slot_start, packed.used)
    except OSError:
        return Result(job.ticket, Result.FULL, packed, times)
    unpacked.write(space.memory)
    times = times.with_more(TRANSPORT, time.perf_counter_ns() - start)
    return Result(job.ticket, Result.DONE, packed, times)


def _make(batch: Any) -> Any:
    return batch.make() if type(batch) is Deferred else batch


def _make_portable(error: Exception, worker: int) -> Exception:
    """Return an error with its traceback as a note; another one, that says the same, where it would not survive the trip."""
    trace = "".join(traceback.format_exception(error, chain=True)).rstrip()
    error.add_note(f"in worker {worker}, process {os.getpid()}:\n{trace}")
    try:
        stream, _ = dump(error)
        import pickle

        if type(pickle.loads(stream)) is type(error):
            return error
    except Exception:
        pass
    substitute = WorkerError(f"{type(error).__name__}: {error} (this error itself cannot be pickled)")
    for note in error.__notes__:
        substitute.add_note(note)
    return substitute
