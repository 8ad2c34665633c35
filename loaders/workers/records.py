"""What pool and workers tell each other: records of fixed size through two pipes, and words in shared memory.

Every record is written and read whole: it is shorter than a pipe's atomic size, and all that go through one pipe have the
same length. So all workers take jobs from one pipe, as they get free, without a lock that one of them could die with; and a
worker that is killed has either answered or not.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from ..plan import Run
from ..telling.times import Times
from .packing import Packed

__all__ = ["BOARD_BYTES", "LANES", "MAX_WORKERS", "Board", "Job", "Result"]

MAX_WORKERS = 1024
LANES = 256
BOARD_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Job:
    """A run of batches to make, and where to write it.

    Attributes:
      ticket: Its number, ``>= 1``, another one each time it is sent.
      lane, pass_number: Whose it is; not to be done if the board says that the lane belongs to another pass.
      epoch, start, stop, batch_size: The run.
      probe: Make only positions ``start <= p < stop``, and write nothing.
      slot_start, slot_size: The slot, in bytes of the arena.
    """

    ticket: int
    lane: int
    pass_number: int
    epoch: int
    start: int
    stop: int
    batch_size: int
    probe: int
    slot_start: int
    slot_size: int

    FORM: ClassVar[struct.Struct] = struct.Struct("<10q48x")

    def to_bytes(self) -> bytes:
        run = (self.epoch, self.start, self.stop, self.batch_size, self.probe)
        return self.FORM.pack(self.ticket, self.lane, self.pass_number, *run, self.slot_start, self.slot_size)

    @classmethod
    def from_bytes(cls, record: bytes) -> Self:
        return cls(*cls.FORM.unpack(record))

    @property
    def run(self) -> Run:
        return Run(self.epoch, (*range(self.start, self.stop, self.batch_size), self.stop))


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a job.

    Attributes:
      outcome: ``DONE``; ``CANCELLED``; ``TOO_LARGE`` for its slot, which took nothing; ``FULL``, the disk behind the arena.
      packed: What is in the slot; for ``TOO_LARGE`` what would have been.
      times: What making the run and writing it took.
    """

    ticket: int
    outcome: int
    packed: Packed
    times: Times

    DONE: ClassVar[int] = 0
    CANCELLED: ClassVar[int] = 1
    TOO_LARGE: ClassVar[int] = 2
    FULL: ClassVar[int] = 3

    FORM: ClassVar[struct.Struct] = struct.Struct("<13q24x")

    def to_bytes(self) -> bytes:
        packed, times = self.packed, self.times
        where = (packed.at, packed.stream_bytes, packed.arrays)
        return self.FORM.pack(self.ticket, self.outcome, *where, times.worker, times.start_ns, times.nbytes, *times.spent_ns)

    @classmethod
    def from_bytes(cls, record: bytes) -> Self:
        ticket, outcome, at, stream_bytes, arrays, worker, start_ns, nbytes, *spent_ns = cls.FORM.unpack(record)
        return cls(ticket, outcome, Packed(at, stream_bytes, arrays), Times(worker, start_ns, tuple(spent_ns), nbytes))


class Board:
    """Words at the start of the arena that all see at once. Each is written by one process only at a time.

    Attributes:
      tickets: The job that each worker has in hand, 0 for none.
      since: When it took it, ``time.monotonic_ns``.
      at: The record that it is at work on, ``NOTHING`` for no single one.
      pids: The process that each worker is, 0 before it is ready for its first job.
      lanes: The pass that each lane belongs to, 0 for none.
    """

    def __init__(self, memory: npt.NDArray[np.uint8]) -> None:
        words = memory[:BOARD_BYTES].view(np.int64)
        self.tickets = words[:MAX_WORKERS]
        self.since = words[MAX_WORKERS : 2 * MAX_WORKERS]
        self.pids = words[2 * MAX_WORKERS : 3 * MAX_WORKERS]
        self.at = words[3 * MAX_WORKERS : 4 * MAX_WORKERS]
        self.lanes = words[4 * MAX_WORKERS : 4 * MAX_WORKERS + LANES]
