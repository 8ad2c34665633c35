"""What a source knows of where its records are in memory, for decoders that need no more than that."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from .memory import Extents

__all__ = ["Located"]

Ints = npt.NDArray[np.int64]


class Located(ABC):
    """Where records are in memory, of a source that is held open meanwhile. For one thread.

    Attributes:
      slot_bits: ``2**slot_bits`` neighbours, a *slot*, are found at once; 0 where each record is by itself.
    """

    slot_bits = 0

    @abstractmethod
    def addresses(self, indices: Ints) -> tuple[Ints, object]:
        """Return addresses of records that are known, each in one piece, and what to hold while looking there."""

    @abstractmethod
    def is_known(self, indices: Ints) -> npt.NDArray[np.bool_]:
        """Return which records are known: checked, and in memory. What was known once stays so."""

    def all_addresses(self) -> Ints | None:
        """Return the addresses of all records, if they are known and kept; not to be changed."""
        return None

    def check(self, slots: Ints) -> npt.NDArray[np.bool_]:
        """Find out which of ``slots``, each named once, are known in all their records; return that."""
        return np.zeros(slots.size, np.bool_)

    def varies(self) -> npt.NDArray[np.uint8] | None:
        """Return in which bits records of known slots differ, a mask as long as each; None where nobody can say."""
        return None

    def members(self, slots: Ints) -> tuple[Ints, Extents] | None:
        """Return the records of slots, each named once, and where they are: of those in which all of them can be known."""
        return None
