"""Small batches of which all is known but their large arrays, which are gathered when a batch is wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .columns import Columns

__all__ = ["Deferred"]

Ints = npt.NDArray[np.int64]


class Deferred:
    """A batch that ``make`` gives, once. What it reads was checked and touched before: it takes as long as copying it.

    Batches that are made some time before they are used leave the processor's second-level cache for the next ones, and their
    memory comes back cold: 20 of 100 kB take 1.7 times as long to gather together as one by one, each when the one before it
    was let go of.

    Args:
      columns: Those that there are; None where one is cut.
      cuts: How the others are cut out of records at addresses.
      addresses: Of the records.
      held: What to hold while looking there.
      nest: Makes a batch of columns.
      nbytes: How large it will be.
    """

    __slots__ = ("_addresses", "_columns", "_cuts", "_held", "_nest", "nbytes")

    def __init__(
        self,
        columns: Sequence[npt.NDArray[Any] | None],
        cuts: Sequence[Callable[[Ints], npt.NDArray[Any]]],
        addresses: Ints,
        held: object,
        nest: Callable[[list[npt.NDArray[Any]]], Columns],
        nbytes: int,
    ) -> None:
        self._columns = columns
        self._cuts = cuts
        self._addresses = addresses
        self._held = held
        self._nest = nest
        self.nbytes = nbytes

    def make(self) -> Columns:
        """Return the batch."""
        cuts = iter(self._cuts)
        return self._nest([next(cuts)(self._addresses) if column is None else column for column in self._columns])
