"""Tells in each batch which of its examples count, so that padding is left out of what is measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["BatchMask"]


class BatchMask:
    """Adds a mask to the batches of one rank: False at what a sampler with ``tail="pad"`` repeats to fill up.

    10 records, 3 ranks, batches of 2: the places of the global order that each batch holds, padding in brackets,

        rank 0    0  3    6   9         [True True] [True True ]
        rank 1    1  4    7 [10]        [True True] [True False]
        rank 2    2  5    8 [11]        [True True] [True False]

    Args:
      key: What the mask is called in a batch.
    """

    def __init__(self, key: str) -> None:
        self._key = key

    def add(self, batch: Any, counts: npt.NDArray[np.bool_]) -> dict[str, Any]:
        """Return a batch with its mask: for each example whether it counts.

        Raises:
          TypeError: The batch is no dict.
          ValueError: It has the key already, or another number of examples.
        """
        if not isinstance(batch, dict):
            raise TypeError(f"mask={self._key!r} is a key to add to batches; they are no dicts, but {type(batch).__name__}")
        if self._key in batch:
            raise ValueError(f"mask={self._key!r}: batches have a field of this name already; choose another")
        for name, column in batch.items():
            if isinstance(column, np.ndarray) and column.shape[:1] != counts.shape:
                raise ValueError(
                    f"mask={self._key!r}: the batch is made of {len(counts)} records, and {name!r} has shape {column.shape}; "
                    "a mask needs one example for each record, without filters"
                )
        return {**batch, self._key: counts}
