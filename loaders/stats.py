"""How a loader is doing: what it delivered, and whether training had to wait for it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

__all__ = ["LoaderStats", "StopWatch"]


@dataclass(frozen=True, slots=True)
class LoaderStats:
    """What a loader has delivered since it was made.

    Attributes:
      batches, records: Delivered so far.
      elapsed_s: Seconds from the first ``next`` of each pass to its last.
      waited_s: Seconds of those that the consumer spent inside ``next``.
      fetch_s: Seconds spent making batches, in the background or not; of all workers together.
      worker_deaths: Worker processes that ended before their time, and were replaced.
    """

    batches: int
    records: int
    elapsed_s: float
    waited_s: float
    fetch_s: float
    worker_deaths: int = 0

    @property
    def waiting_share(self) -> float:
        """Share of its time that training waited for data, 0 to 1."""
        return self.waited_s / self.elapsed_s if self.elapsed_s else 0.0

    @property
    def records_per_s(self) -> float:
        """Records delivered a second, the consumer's own time included."""
        return self.records / self.elapsed_s if self.elapsed_s else 0.0

    def __str__(self) -> str:
        return (
            f"{self.records} records in {self.batches} batches, {self.records_per_s:,.0f} records/s; "
            f"waited {self.waiting_share:.1%} of {self.elapsed_s:.2f} s"
        )


class StopWatch:
    """Adds up what ``LoaderStats`` tells. One consumer; any thread may call ``fetched``."""

    def __init__(self) -> None:
        self._batches = 0
        self._records = 0
        self._elapsed_s = 0.0
        self._waited_s = 0.0
        self._fetch_s = 0.0
        self._lock = threading.Lock()
        self.worker_deaths = 0

    def fetched(self, seconds: float) -> None:
        """Count time spent making batches."""
        with self._lock:
            self._fetch_s += seconds

    def delivered(self, records: int) -> None:
        """Count a batch."""
        self._batches += 1
        self._records += records

    def waited(self, asked: float, previous: float | None) -> float:
        """Count one ``next`` from ``asked`` until now; ``previous`` is when the one before it returned. Returns now."""
        now = time.perf_counter()
        self._waited_s += now - asked
        self._elapsed_s += now - (asked if previous is None else previous)
        return now

    def read(self) -> LoaderStats:
        """Return the figures so far."""
        return LoaderStats(self._batches, self._records, self._elapsed_s, self._waited_s, self._fetch_s, self.worker_deaths)
