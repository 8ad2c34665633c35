"""What comes after a run is told to the source before the run is read, so that the disk works meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from .state.order import Order

__all__ = ["ReadAhead"]

#: So many bytes are on their way at once: 32 requests of 100 kB, as a disk likes them, and as many again for each batch that is
#: read meanwhile. Records of 100 kB came as fast with 64 of them ahead as with 128, and slower with 32.
_BYTES = 12 << 20
_MOST_RECORDS = 256
#: While a source has no use for it, it is asked again after so many runs.
_PAUSE = 8


class ReadAhead:
    """Tells a source of the records that are read next. For one thread, which makes runs in ascending order by and large.

    Args:
      will_need: As ``BaseSource.will_need``.
      order: Where positions are positions of; nobody else's.
    """

    def __init__(self, will_need: Callable[[npt.NDArray[np.int64]], int], order: Order) -> None:
        self._will_need = will_need
        self._order = order
        self._epoch = -1
        self._reached = 0
        self._count = 1
        self._pause = 0

    def move(self, epoch: int, start: int, stop: int) -> None:
        """Take note that positions ``start <= p < stop`` of an epoch are read now."""
        if self._pause:
            self._pause -= 1
            return
        if epoch != self._epoch or self._reached < start:
            self._epoch, self._reached = epoch, start
        end = min(stop + self._count, self._order.length(epoch))
        if end <= self._reached:
            return
        told = self._will_need(self._order.records(epoch, self._reached, end))
        count, self._reached = end - self._reached, end
        if told:
            self._count = max(1, min(_MOST_RECORDS, _BYTES * count // told))
        else:
            self._pause, self._count = _PAUSE, 1
