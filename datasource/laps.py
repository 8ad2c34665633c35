"""Where the time of a batch goes: whoever is done with a part of the work says so, and the time since the last word is its.

A stop watch with laps, one a thread, that stands still unless somebody started it. A lap is two calls and no object, 0.2 us,
and there are a few of them a batch, never one a record.
"""

from __future__ import annotations

import threading
from time import perf_counter_ns
from typing import Final

__all__ = ["COLLATE", "DECODE", "READ", "STAGES", "TRANSFORM", "TRANSPORT", "Laps", "lap", "lap_source"]

STAGES: Final = ("read", "decode", "transform", "collate", "transport")
READ, DECODE, TRANSFORM, COLLATE, TRANSPORT = range(5)


class Laps:
    """Adds up this thread's time by stage while it is the innermost ``with``. For one thread.

    Attributes:
      start_ns: When it was started, ``time.perf_counter_ns``: one clock for all processes of a machine.
      spent_ns: Nanoseconds by stage, in the order of ``STAGES``.
    """

    __slots__ = ("_has_read", "_last", "_outer", "spent_ns", "start_ns")

    def __enter__(self) -> Laps:
        self._outer = _running.laps
        self.spent_ns = [0] * len(STAGES)
        self._has_read = False
        self.start_ns = self._last = perf_counter_ns()
        _running.laps = self  # last: Ctrl-C before it leaves nothing half made behind, and after it a watch that does no harm
        return self

    def __exit__(self, *_: object) -> None:
        _running.laps = self._outer

    def lap(self, stage: int) -> None:
        now = perf_counter_ns()
        self.spent_ns[stage] += now - self._last
        self._last = now
        self._has_read = stage == READ


class _Running(threading.local):
    """The innermost laps of each thread."""

    laps: Laps | None = None


_running = _Running()


def lap(stage: int) -> None:
    """Count the time since the last lap of this thread to a stage."""
    laps = _running.laps
    if laps is not None:
        laps.lap(stage)


def lap_source() -> None:
    """End a source's lap: what came after the records were read is decoding; a source that did not say when, only read."""
    laps = _running.laps
    if laps is not None:
        laps.lap(DECODE if laps._has_read else READ)
        laps._has_read = False
