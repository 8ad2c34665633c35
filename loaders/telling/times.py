"""What making a run of batches took; travels with the batches, from whichever process made them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...datasource.laps import STAGES

__all__ = ["Times"]


class Times(NamedTuple):
    """What one run took.

    Attributes:
      worker: Who made it, numbered from 0.
      start_ns: When, by ``time.perf_counter_ns``; 0 where nobody knows.
      spent_ns: Nanoseconds by stage, in the order of ``STAGES``; one after the other from ``start_ns`` on.
      nbytes: About how large its batches are together.
      busy_ns: For how much of it the thread had a processor; 0 where nobody looked.
    """

    worker: int = 0
    start_ns: int = 0
    spent_ns: tuple[int, ...] = (0,) * len(STAGES)
    nbytes: int = 0
    busy_ns: int = 0

    @property
    def made_ns(self) -> int:
        """Nanoseconds in all stages."""
        return sum(self.spent_ns)

    def with_more(self, stage: int, spent_ns: int) -> Times:
        """Return these times and a while more of one of ``STAGES``."""
        spent = list(self.spent_ns)
        spent[stage] += spent_ns
        return self._replace(spent_ns=tuple(spent))

    @staticmethod
    def joined(parts: Sequence[Times]) -> Times:
        """Return what a run took that was made in parts, all of it put down to who made the first."""
        spent = tuple(map(sum, zip(*(part.spent_ns for part in parts), strict=True)))
        return parts[0]._replace(spent_ns=spent, nbytes=sum(part.nbytes for part in parts))
