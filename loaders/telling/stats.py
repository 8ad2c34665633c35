"""The figures of a loader, as they stood when they were asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["LoaderStats", "StageStats", "WorkerStats"]


@dataclass(frozen=True, slots=True)
class StageStats:
    """One stage of making batches: what all workers together spent in it, and got through it.

    Attributes:
      seconds: Time spent; of several workers, more than went by.
      records, nbytes: What came through.
    """

    seconds: float
    records: int
    nbytes: int

    @property
    def records_per_s(self) -> float:
        """Records that one worker gets through in a second of this stage."""
        return self.records / self.seconds if self.seconds else 0.0

    @property
    def bytes_per_s(self) -> float:
        """Bytes of finished batches that one worker gets through in a second of this stage."""
        return self.nbytes / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class WorkerStats:
    """What one worker made of what was delivered.

    Attributes:
      records, nbytes: Made by it.
      seconds: Time that took, by stage.
    """

    records: int
    nbytes: int
    seconds: Mapping[str, float]

    @property
    def busy_s(self) -> float:
        """Seconds of work."""
        return sum(self.seconds.values())


@dataclass(frozen=True, slots=True)
class LoaderStats:
    """What a loader has delivered since it was made.

    Attributes:
      batches, records: Delivered so far.
      elapsed_s: Seconds from the first ``next`` of each pass to its last.
      waited_s: Seconds of those that the consumer spent inside ``next``.
      fetch_s: Seconds spent making batches, in the background or not; of all workers together.
      worker_deaths: Worker processes that ended before their time, and were replaced.
      nbytes: About how much was delivered.
      stages: By name, in their order: "read", "decode", "transform", "collate", "transport" and "convert" (to tensors, or
        to a device). A source that is not this library's reads and decodes in one: that is "read".
      queue_depth: How many runs of batches were made and waiting when one was asked for, on average; near 0, training waits
        for the loader, near ``prefetch_factor`` times the workers, the loader for training.
      workers: One by one, by number; without worker processes or threads, the one that works ahead.
      num_workers, worker_type: Who makes the batches now; 0 for this process itself.
      choice: Why, where ``num_workers="auto"`` chose; else "".
    """

    batches: int
    records: int
    elapsed_s: float
    waited_s: float
    fetch_s: float
    worker_deaths: int = 0
    nbytes: int = 0
    stages: Mapping[str, StageStats] = field(default_factory=dict)
    queue_depth: float = 0.0
    workers: Mapping[int, WorkerStats] = field(default_factory=dict)
    num_workers: int = 0
    worker_type: str = ""
    choice: str = ""

    @property
    def waiting_share(self) -> float:
        """Share of its time that training waited for data, 0 to 1."""
        return self.waited_s / self.elapsed_s if self.elapsed_s else 0.0

    @property
    def records_per_s(self) -> float:
        """Records delivered a second, the consumer's own time included."""
        return self.records / self.elapsed_s if self.elapsed_s else 0.0

    @property
    def bytes_per_s(self) -> float:
        """Bytes delivered a second, the consumer's own time included."""
        return self.nbytes / self.elapsed_s if self.elapsed_s else 0.0

    def __str__(self) -> str:
        return (
            f"{self.records} records in {self.batches} batches, {self.records_per_s:,.0f} records/s; "
            f"waited {self.waiting_share:.1%} of {self.elapsed_s:.2f} s"
        )
