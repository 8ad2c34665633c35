"""Adds up, while batches are delivered, what the figures and the picture of a loader are made of."""

from __future__ import annotations

from collections import deque
from operator import add
from time import perf_counter
from typing import Final

from ...datasource.laps import DECODE, STAGES
from .stats import LoaderStats, StageStats, WorkerStats
from .times import Times

__all__ = ["Watch"]

#: So much of the past is kept for the picture, in runs of batches.
_KEPT: Final = 4096
#: Shorter waits are not drawn: thousands of them are a hair's breadth.
_VISIBLE_S: Final = 100e-6


class Watch:
    """Counts for one consumer, who alone calls it: 0.5 us a batch and 3 us a run of batches.

    Attributes:
      num_workers, worker_type, choice: See ``LoaderStats``; set by who decides.
      worker_deaths: Workers that ended before their time.
      runs: The latest runs that were delivered: what each took, and its records.
      waits: The latest times that the consumer waited for a run: from when to when, ``time.perf_counter`` seconds.
    """

    def __init__(self, num_workers: int = 0, worker_type: str = "") -> None:
        self.num_workers = num_workers
        self.worker_type = worker_type
        self.choice = ""
        self.worker_deaths = 0
        self.runs: deque[tuple[Times, int]] = deque(maxlen=_KEPT)
        self.waits: deque[tuple[float, float]] = deque(maxlen=_KEPT)
        self._batches = 0
        self._records = 0
        self._nbytes = 0
        self._elapsed_s = 0.0
        self._waited_s = 0.0
        self._finish_s = 0.0
        self._convert_ns = 0
        self._refills = 0
        self._queued = 0
        self._made: dict[int, list[int]] = {}  # by worker: nanoseconds by stage, records, bytes

    def refilled(self, times: Times, records: int, queued: int) -> None:
        """Count a run of batches that came in, and how many more were waiting when it was asked for."""
        self.runs.append((times, records))
        self._refills += 1
        self._queued += queued
        sums = self._made.get(times.worker)
        if sums is None:
            sums = self._made[times.worker] = [0] * (len(STAGES) + 2)
        sums[:] = map(add, sums, (*times.spent_ns, records, times.nbytes))
        self._nbytes += times.nbytes

    def finished(self, spent_s: float) -> None:
        """Count time spent decoding the rest of a batch, in the thread that takes it."""
        self._finish_s += spent_s

    def converted(self, spent_ns: int) -> None:
        """Count time spent turning batches into what the consumer wants."""
        self._convert_ns += spent_ns

    def delivered(self, records: int, asked: float | None, previous: float | None, began: float | None = None) -> float:
        """Count a batch that was waited for from ``asked`` until now; return now.

        Args:
          asked: None where there was nothing to wait for.
          previous: When the batch before it was delivered; None for the first of a pass.
          began: When the thread that takes it began to decode the rest of it; None where nothing was left.
        """
        now = perf_counter()
        if began is not None:
            self._finish_s += now - began
        self._batches += 1
        self._records += records
        if previous is not None:
            self._elapsed_s += now - previous
        elif asked is not None:
            self._elapsed_s += now - asked
        if asked is not None:
            self._waited_s += now - asked
            if now - asked > _VISIBLE_S:
                self.waits.append((asked, now))
        return now

    @property
    def waiting(self) -> tuple[float, float]:
        """Seconds that the consumer has waited, and seconds in all."""
        return self._waited_s, self._elapsed_s

    def read(self) -> LoaderStats:
        """Return the figures so far."""
        each = {worker: [*made] for worker, made in sorted(self._made.items())}
        if 0 in each:  # the thread that takes batches has no number of its own
            each[0][DECODE] += int(self._finish_s * 1e9)
        sums = [sum(made[k] for made in each.values()) for k in range(len(STAGES) + 2)]
        spent = dict(zip(STAGES, sums, strict=False)) | {"convert": self._convert_ns}
        return LoaderStats(
            self._batches,
            self._records,
            self._elapsed_s,
            self._waited_s,
            sum(sums[: len(STAGES)]) / 1e9,
            self.worker_deaths,
            self._nbytes,
            {name: StageStats(spent_ns / 1e9, sums[-2], sums[-1]) for name, spent_ns in spent.items()},
            self._queued / self._refills if self._refills else 0.0,
            {
                worker: WorkerStats(
                    made[-2], made[-1], {name: ns / 1e9 for name, ns in zip(STAGES, made[: len(STAGES)], strict=True)}
                )
                for worker, made in each.items()
            },
            self.num_workers,
            self.worker_type,
            self.choice,
        )
