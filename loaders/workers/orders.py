"""What is asked of a pool of workers, and each sending of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import WorkerError
from ..plan import Run
from .records import Result
from .slots import Slot

__all__ = ["Order", "Ticket"]


@dataclass(eq=False, slots=True)
class Order:
    """A run of batches that somebody waits for.

    Attributes:
      probe: It is made only to see whether the worker survives.
      deaths: How the workers ended that had it in hand.
      result, slot: Where it is, once it is made.
      failure: Why it never will be.
    """

    run: Run
    lane: int
    pass_number: int
    probe: bool = False
    deaths: list[str] = field(default_factory=list)
    result: Result | None = None
    slot: Slot | None = None
    failure: WorkerError | None = None

    @property
    def settled(self) -> bool:
        return self.result is not None or self.failure is not None


@dataclass(eq=False, slots=True)
class Ticket:
    """One sending of an order; ``doubted`` once it was sent again because nobody seemed to have it."""

    order: Order
    slot: Slot
    doubted: bool = False
