"""Small batches of which all is known but their large arrays, which are gathered when a batch is wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .columns import Columns

__all__ = ["Deferred", "DeferredRun"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DeferredRun:
    """Records of which several batches are made.

    Attributes:
      parts: Of each leaf, by its name: the column, with None, if it is small; else None, and how it is cut out of records at
        addresses.
      addresses: Of the records.
      held: What to hold while looking there.
      nest: Makes a batch of columns; None where they are one, by their names.
      row_bytes: What the large leaves of a record take.
      is_settled: Whether all records of their source are known, so that making runs like this one waits for nothing.
    """

    parts: Sequence[tuple[str, Any, Callable[[Ints], npt.NDArray[Any]] | None]]
    addresses: Ints
    held: object
    nest: Callable[[list[npt.NDArray[Any]]], Columns] | None
    row_bytes: int
    is_settled: bool


class Deferred:
    """A batch that ``make`` gives, once. What it reads was checked and touched before: it takes as long as copying it.

    Batches that are made some time before they are used leave the processor's second-level cache for the next ones, and their
    memory comes back cold: 20 of 100 kB take 1.7 times as long to gather together as one by one, each when the one before it
    was let go of.

    Args:
      run: What it is one of.
      start, stop: Its records.
    """

    __slots__ = ("_run", "_start", "_stop")

    def __init__(self, run: DeferredRun, start: int, stop: int) -> None:
        self._run, self._start, self._stop = run, start, stop

    @property
    def nbytes(self) -> int:
        """How large it will be."""
        return self._run.row_bytes * (self._stop - self._start)

    @property
    def is_settled(self) -> bool:
        """See ``DeferredRun``."""
        return self._run.is_settled

    def make(self) -> Columns:
        """Return the batch."""
        run, start, stop = self._run, self._start, self._stop
        at = run.addresses[start:stop]
        # One comprehension, and no call that can be spared: with Python's code gone from the cache after each batch of images,
        # what takes 1 us by itself takes 2 here, of 40.
        columns = {name: column[start:stop] if cut is None else cut(at) for name, column, cut in run.parts}
        return columns if run.nest is None else run.nest([*columns.values()])
