"""The training process's view of its workers: jobs out, results in, the dead replaced. Passes share it."""

from __future__ import annotations

import copy
import logging
import os
import threading
import time
import weakref
from collections import deque

from ...datasource.laps import TRANSPORT
from ..errors import WorkerError
from ..in_hand import describe_at
from ..plan import Run
from ..runs import Made
from ..telling.watch import Watch
from .alike import Alike
from .arena import Arena
from .blame import make_singly
from .crew import Crew, Death
from .deaths import count_out_of_memory, describe_end
from .orders import Order, Ticket
from .packing import Packed, unpack
from .payload import Payload
from .records import BOARD_BYTES, LANES, Board, Job, Result
from .slots import Slots
from .workers import StartMethod

__all__ = ["WorkerPool"]

_log = logging.getLogger("arrayfeed")

_PAGE_BYTES = 2 << 20
#: A batch that has taken this many workers with it is not tried again.
_MAX_DEATHS = 3
#: Small batches travel together, so many bytes, and as long as making them takes no longer than this.
_RUN_BYTES = 2 << 20
_RUN_SECONDS = 0.02
_RUN_BATCHES = 64
_NAMED = 64
#: Neither are workers started for ever that end before they have taken a job.
_MAX_FAILED_STARTS = 10


class WorkerPool:
    """Workers, the memory they write to, and what each is doing.

    One thread at a time; it holds ``lock``. Ended by ``close``, garbage collection or the interpreter's exit. Useless in a
    forked child (``alive`` is False there).

    Args:
      payload: What workers make batches with.
      num_workers: ``>= 1``.
      method: How they are started.
      ahead: Orders that a pass has in hand at once.
      pin_memory: Whether batches are to lie in page-locked memory, where there is a GPU.
      limit_bytes: See ``Slots``.
      use_memfd: Whether memory may be a memfd; else it is a file in ``TMPDIR``.

    Raises:
      TypeError: The payload cannot be pickled; names the part.
    """

    def __init__(
        self,
        payload: Payload,
        *,
        num_workers: int,
        method: StartMethod,
        ahead: int,
        watch: Watch,
        pin_memory: bool = False,
        limit_bytes: int | None = None,
        use_memfd: bool = True,
    ) -> None:
        self.lock = threading.RLock()
        self.num_workers = num_workers
        self._pid = os.getpid()
        self._payload = payload
        self._method: StartMethod = method
        self._watch = watch
        self._arena = Arena.create(use_memfd=use_memfd)
        self._board = Board(self._arena.memory)
        self._packed: Packed | None = None
        self._needs_main = False
        start = BOARD_BYTES
        if method != "fork":
            self._packed, self._needs_main = payload.store(self._arena, start)
            start += self._packed.used
        start = -(-start // _PAGE_BYTES) * _PAGE_BYTES
        pinning = None
        if pin_memory:
            from ..torch import PinnedMemory

            pinning = PinnedMemory.of(self._arena.memory)
        self._slots = Slots(self._arena, start, spare=ahead + num_workers, limit_bytes=limit_bytes, pinning=pinning)
        self._tickets: dict[int, Ticket] = {}
        self._next_ticket = 1
        self._next_pass = 1
        self._left: deque[tuple[int, deque[Order]]] = deque()
        self._free_lanes = [*range(LANES)]
        self._failed_starts = 0
        self._out_of_memory = count_out_of_memory()
        self._bytes_per_batch = 0.0
        self._seconds_per_batch = 0.0
        self._start_crew()

    def _start_crew(self) -> None:
        self._board.tickets[:] = 0
        self._board.pids[:] = 0
        self._crew = Crew(self._arena, self._payload, self._packed, self._method, self._needs_main)
        self._finalizer = weakref.finalize(self, _close, self._crew, self._arena, self._pid)
        for worker in range(self.num_workers):
            self._crew.start(worker)

    @property
    def alive(self) -> bool:
        """Whether orders can be placed: not after ``close``, nor in a forked child."""
        return os.getpid() == self._pid and self._finalizer.alive

    @property
    def pids(self) -> list[int]:
        """Process numbers of the workers that are ready for work."""
        return [pid for pid in self._board.pids[: self.num_workers].tolist() if pid]

    def close(self) -> None:
        """End all workers and give back the memory that no batch is in. May be called twice."""
        self._finalizer()

    # -- passes ---------------------------------------------------------------------------------------------------

    def enter(self) -> tuple[int, int]:
        """Return a lane and a number for a new pass.

        Raises:
          RuntimeError: There are 256 passes already.
        """
        while self._left:
            lane, orders = self._left.popleft()
            self._free_lanes.append(lane)
            for order in orders:
                self.discard(order)
        if not self._free_lanes:
            raise RuntimeError(f"{LANES} iterators over one loader are in use at once; drop some")
        lane, number = self._free_lanes.pop(), self._next_pass
        self._next_pass += 1
        self._board.lanes[lane] = number
        return lane, number

    def leave(self, lane: int, orders: deque[Order]) -> None:
        """Cancel what a pass has ordered and not collected. Any thread may call it, in the middle of anything."""
        self._board.lanes[lane] = 0
        self._left.append((lane, orders))

    def order(self, run: Run, lane: int, pass_number: int, *, probe: bool = False) -> Order:
        """Let workers make a run."""
        order = Order(run, lane, pass_number, probe)
        self._send(order)
        return order

    def collect(self, order: Order) -> Made:
        """Return the batches of a settled order; once. They are views of shared memory, for as long as they live."""
        if order.failure is not None:
            return make_singly(self, order) if len(order.deaths) >= _MAX_DEATHS else Made(order.run, [], order.failure)
        result, slot = order.result, order.slot
        assert result is not None and slot is not None
        order.slot = None
        start = time.perf_counter_ns()
        batches, error = unpack(result.packed, self._slots.lend(slot, result.packed.used))
        if isinstance(batches, Alike):
            batches = batches.split()
        if batches:
            self._bytes_per_batch = result.packed.used / len(batches)
            self._seconds_per_batch = (result.times.made_ns - result.times.spent_ns[TRANSPORT]) / 1e9 / len(batches)
        return Made(order.run, batches, error, result.times.with_more(TRANSPORT, time.perf_counter_ns() - start))

    def discard(self, order: Order) -> None:
        """Give back what an order has taken, if nobody is to collect it."""
        if order.slot is not None:
            slot, order.slot = order.slot, None
            self._slots.free(slot)

    @property
    def seconds_per_batch(self) -> float:
        """What the latest batches took each, in the worker; 0 before the first."""
        return self._seconds_per_batch

    def max_batches(self) -> int:
        """Return how many batches the next order may be of."""
        if not self._seconds_per_batch:
            return 1
        by_bytes = int(_RUN_BYTES / max(1.0, self._bytes_per_batch))
        return max(1, min(_RUN_BATCHES, by_bytes, int(_RUN_SECONDS / self._seconds_per_batch)))

    @property
    def unread(self) -> int:
        """How many results have come in and were not looked at yet."""
        return self._crew.count_results()

    # -- what happens ---------------------------------------------------------------------------------------------

    def turn(self, timeout_s: float | None = None) -> None:
        """Wait until something happens, and deal with it."""
        for event in self._crew.poll(timeout_s):
            if isinstance(event, Result):
                self._settle(event)
            elif event.worker is None:
                self._start_again(event.code)
                return  # what else there is came from a crew that is no more
            else:
                self._replace(event)

    def records(self, run: Run) -> list[int]:
        """Return the records of a run."""
        order = copy.copy(self._payload.order)
        records: list[int] = order.records(run.epoch, run.bounds[0], run.bounds[-1]).tolist()
        return records

    def describe(self, run: Run) -> str:
        """Return which positions and records a run is, in words."""
        records = self.records(run)
        numbers = ", ".join(map(str, records[:_NAMED])) + (
            f" and {len(records) - _NAMED} more" if len(records) > _NAMED else ""
        )
        return f"positions {run.bounds[0]} to {run.bounds[-1] - 1} of epoch {run.epoch} (records {numbers})"

    def who_has(self, order: Order) -> str:
        """Return which worker has an order in hand, and for how long."""
        for number, ticket in self._tickets.items():
            if ticket.order is order:
                for worker in range(self.num_workers):
                    if self._board.tickets[worker] == number:
                        seconds = (time.monotonic_ns() - int(self._board.since[worker])) / 1e9
                        who = f"worker {worker} (process {self._board.pids[worker]})"
                        return (
                            f"{who} has had it in hand for {seconds:.1f} s, and is {describe_at(int(self._board.at[worker]))}"
                        )
        return "no worker has taken it yet"

    def _send(self, order: Order) -> None:
        slot = self._slots.allocate()
        number, run = self._next_ticket, order.run
        self._next_ticket += 1
        self._tickets[number] = Ticket(order, slot)
        bounds = run.bounds
        batch_size = bounds[1] - bounds[0]
        where = (order.lane, order.pass_number, run.epoch, bounds[0], bounds[-1], batch_size, int(order.probe))
        self._crew.send(Job(number, *where, slot.start, slot.size))

    def _settle(self, result: Result) -> None:
        ticket = self._tickets.pop(result.ticket, None)
        if ticket is None:
            return
        self._failed_starts = 0
        order, slot = ticket.order, ticket.slot
        if result.outcome == Result.DONE:
            self._slots.expect(result.packed.used)
        wanted = not order.settled and self._board.lanes[order.lane] == order.pass_number
        if result.outcome == Result.DONE and wanted:
            order.result, order.slot = result, slot
            return
        # What did not fit, or on the disk, may have been begun; what was cancelled was not.
        touched = {Result.DONE: result.packed.used, Result.CANCELLED: 0}.get(result.outcome, slot.size)
        self._slots.free(slot, touched)
        if wanted and result.outcome == Result.TOO_LARGE:
            # Made once more, in a slot that is large enough: no worker waits for an answer while training is busy.
            self._slots.expect(result.packed.used)
            self._send(order)
        elif wanted and result.outcome == Result.FULL:
            order.failure = WorkerError(
                f"{self.describe(order.run)}: the disk of TMPDIR is full, {result.packed.used} bytes are needed; free some, or "
                "set TMPDIR to a larger one"
            )

    def _replace(self, death: Death) -> None:
        worker = death.worker
        assert worker is not None
        held = int(self._board.tickets[worker])
        ready = bool(self._board.pids[worker])
        pid = int(self._board.pids[worker])
        self._board.tickets[worker] = 0
        self._board.pids[worker] = 0
        self._watch.worker_deaths += 1
        killed = count_out_of_memory()
        end = describe_end(death.code, out_of_memory=killed > self._out_of_memory)
        self._out_of_memory = killed
        ticket = self._tickets.pop(held, None)
        if ticket is not None:
            self._slots.free(ticket.slot, ticket.slot.size)
            self._retry(ticket.order, f"worker {worker} (process {pid}) {end}")
        elif not ready:
            self._failed_starts += 1
            if self._failed_starts >= _MAX_FAILED_STARTS:
                self._fail_all(f"workers end before they take any work; worker {worker}, the {self._failed_starts}th, {end}")
        _log.warning("worker %d (process %d) %s; another one takes its place", worker, pid, end)
        self._crew.start(worker)
        self._send_lost()

    def _retry(self, order: Order, end: str) -> None:
        order.deaths.append(end)
        if order.settled or self._board.lanes[order.lane] != order.pass_number:
            return
        if order.probe or len(order.deaths) >= _MAX_DEATHS:
            order.failure = WorkerError(end)
        else:
            self._send(order)

    def _send_lost(self) -> None:
        """Send again what a worker took that ended before it could say so.

        Jobs are taken in the order they were sent, so those that nobody has taken are the latest; of the others, each is in
        some worker's hand. One that a living worker has taken this very moment is made twice: the second result is dropped.
        """
        waiting = self._crew.count_waiting()
        held = set(self._board.tickets[: self.num_workers].tolist())
        taken = list(self._tickets.items())
        for number, ticket in taken[: max(0, len(taken) - waiting)]:
            if number not in held and not ticket.doubted and not ticket.order.settled:
                ticket.doubted = True
                if self._board.lanes[ticket.order.lane] == ticket.order.pass_number:
                    self._send(ticket.order)

    def _start_again(self, code: int) -> None:
        """Go on with a new crew where the warden was killed, which takes all workers along."""
        self._watch.worker_deaths += self.num_workers
        _log.warning("the process that workers are started from %s; all are replaced", describe_end(code, out_of_memory=False))
        self._finalizer.detach()
        self._crew.close()
        # Slots in hand are given up: where the kernel does not kill them, workers may write to them yet.
        tickets, self._tickets = self._tickets, {}
        self._failed_starts += 1
        self._start_crew()
        if self._failed_starts >= _MAX_FAILED_STARTS:
            self._fail_all("the process that workers are started from ends again and again")
        for order in dict.fromkeys(ticket.order for ticket in tickets.values()):
            if not order.settled and self._board.lanes[order.lane] == order.pass_number:
                self._send(order)

    def _fail_all(self, reason: str) -> None:
        for ticket in self._tickets.values():
            if not ticket.order.settled:
                ticket.order.failure = WorkerError(reason)


def _close(crew: Crew, arena: Arena, pid: int) -> None:
    if os.getpid() == pid:
        crew.close()
    arena.close()
