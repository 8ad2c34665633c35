"""What comes after a run is told to the source before the run is read, so that the disk works meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from .state.order import Order

__all__ = ["ReadAhead"]

#: So many bytes are asked for ahead: of 100 kB, 64 records or 128 came as fast, and 32 a fifth slower.
_BYTES = 12 << 20
_MOST_RECORDS = 256
#: Where a source has no use for it, it is asked again after so many runs.
_PAUSE = 8


class ReadAhead:
    """Tells a source of the records that are read next. For one thread, which makes runs in ascending order by and large.

    Args:
      will_need: As ``BaseSource.will_need``. Whatever it raises, reading will raise in its turn.
      order: Where positions are positions of.
    """

    def __init__(self, will_need: Callable[[npt.NDArray[np.int64]], int], order: Order) -> None:
        self._will_need = will_need
        self._order = order
        self._epoch = -1
        self._reached = 0
        self._ahead = 0  # records, beyond the run; none before the first, which may be the only one
        self._is_of_use = False
        self._pause = 0

    def move(self, epoch: int, start: int, stop: int) -> None:
        """Take note that positions ``start <= p < stop`` of an epoch are read now."""
        if self._pause:
            self._pause -= 1
            return
        if epoch != self._epoch or self._reached < start:
            self._epoch, self._reached = epoch, start
        try:
            told = self._tell(stop)
        except Exception:
            told = 0
        if told == 0:
            self._is_of_use, self._pause = False, _PAUSE

    def _tell(self, stop: int) -> int:
        """Tell of what was not told yet; return how many bytes that is, -1 for nothing to tell."""
        end = min(stop + self._ahead, self._order.length(self._epoch))
        count = end - self._reached
        if count <= 0:
            return -1
        if not self._is_of_use and not self._will_need(self._order.records(self._epoch, end - 1, end)):
            return 0  # so said of one, which costs less than of all
        told = self._will_need(self._order.records(self._epoch, self._reached, end))
        self._reached, self._is_of_use = end, True
        if told:
            self._ahead = max(1, min(_MOST_RECORDS, _BYTES * count // told))
        return told
