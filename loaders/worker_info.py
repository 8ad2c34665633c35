"""What code that runs inside a worker can ask about it."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["WorkerInfo", "enter_worker", "get_worker_info"]


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """One worker, as torch's ``get_worker_info`` tells of its own.

    Attributes:
      id: Its number, ``0 <= id < num_workers``.
      num_workers: How many there are.
      seed: An integer below 2**64 of its own, from the loader's seed and ``id``. Which worker makes which batch is chance: what
        has to be the same for any number of workers draws from the ``rng`` that transforms are given, not from this.
      dataset: The loader's source; in a process, that process's copy.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any

    @classmethod
    def of(cls, worker: int, num_workers: int, seed: int, dataset: Any) -> WorkerInfo:
        """Return what to tell in worker number ``worker`` of a loader with ``seed``."""
        entropy = [int(seed < 0), abs(seed), worker]
        return cls(worker, num_workers, int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0]), dataset)


_here = threading.local()


def get_worker_info() -> WorkerInfo | None:
    """Return which worker this thread belongs to; None where it is no worker's."""
    info: WorkerInfo | None = getattr(_here, "info", None)
    return info


def enter_worker(info: WorkerInfo | None) -> None:
    """Let this thread be a worker's from now on."""
    _here.info = info
