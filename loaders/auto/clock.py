"""How training gets on with one way of making batches."""

from __future__ import annotations

import statistics
import time
from typing import Final

from ..runs import Made

__all__ = ["Clock"]

#: A moment: so long, and so many runs of batches, are looked at.
_MOMENT_S: Final = 0.5
_RUNS: Final = 4


class Clock:
    """Measures how training gets on with one way, but for its first runs, ``skip`` of them: nothing was made ahead of those,
    and memory is touched for the first time."""

    def __init__(self, skip: int) -> None:
        self._skip = skip
        self._now = 0.0
        self._waited_s = 0.0
        self._own_s: list[float] = []
        self._measured_s = 0.0
        self._runs = self._batches = self._records = self._nbytes = 0
        self._made_s: list[float] = []
        self._made_ns = self._busy_ns = 0

    def count(self, asked: float, made: Made) -> None:
        """Count a run that was asked for at ``asked`` and has just come."""
        previous, self._now = self._now, time.perf_counter()
        if self._skip:
            self._skip -= 1
            return
        self._own_s.append(asked - previous)
        self._waited_s += self._now - asked
        self._measured_s += self._now - asked + min(asked - previous, _MOMENT_S / _RUNS)
        self._runs += 1
        batches = len(made.run.bounds) - 1
        self._batches += batches
        self._records += made.run.bounds[-1] - made.run.bounds[0]
        self._made_s.append(made.times.made_ns / 1e9 / batches)
        self._nbytes += made.times.nbytes
        self._made_ns += made.times.made_ns
        self._busy_ns += made.times.busy_ns

    @property
    def is_enough(self) -> bool:
        return self._runs >= _RUNS and self._measured_s >= _MOMENT_S

    @property
    def _elapsed_s(self) -> float:
        """Seconds of waiting and of training; pauses, such as for validation, are cut short."""
        longest = 4 * statistics.median(self._own_s) if self._own_s else 0.0
        return max(1e-9, self._waited_s + sum(min(own_s, longest) for own_s in self._own_s))

    @property
    def rate(self) -> float:
        """Records a second, training included."""
        return self._records / self._elapsed_s

    @property
    def waits(self) -> float:
        """Share of the time that training waited."""
        return self._waited_s / self._elapsed_s

    @property
    def made_s(self) -> float:
        """Seconds of work on a batch; the median, which other programs' turns on the processor are not in."""
        return statistics.median(self._made_s)

    @property
    def busy(self) -> float:
        """Share of the work's time that it had a processor, of work in this process; the rest it slept, or waited for a disk, a
        network, or its turn."""
        return min(1.0, self._busy_ns / max(1, self._made_ns))

    @property
    def nbytes(self) -> float:
        """Bytes of a batch."""
        return self._nbytes / self._batches

    @property
    def own_s(self) -> float:
        """Seconds that training takes for a batch when it does not wait."""
        return (self._elapsed_s - self._waited_s) / self._batches
