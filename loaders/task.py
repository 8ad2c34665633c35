"""What a maker of batches is asked for: positions of an epoch, with what stands there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .rows import Allocate
from .state.order import Order

__all__ = ["Task"]


@dataclass(frozen=True, slots=True)
class Task:
    """Positions ``start <= position < start + len(records)`` of an epoch.

    Attributes:
      order: Where they are positions of.
      epoch, start: Which.
      records: The records that stand there; int64.
      allocate: Where large arrays of a batch may lie.
    """

    order: Order
    epoch: int
    start: int
    records: npt.NDArray[np.int64]
    allocate: Allocate = np.empty

    @property
    def places(self) -> list[int]:
        """The positions' places in the epoch's global order, which name what is random about them."""
        places: list[int] = self.order.places(self.epoch, self.start, self.start + len(self.records)).tolist()
        return places
