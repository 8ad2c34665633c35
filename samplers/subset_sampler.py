"""Some of the records, each as often as it is listed."""

import operator
from typing import Final

import numpy as np
import numpy.typing as npt

from .arrays import digest, integer_array
from .base import OrderedSampler, check_count
from .protocol import Indices
from .shard import ShardOptions
from .shuffle import Shuffle
from .stripe import Tail

__all__ = ["SubsetSampler"]

# What the arguments mean, besides the shuffles they name; the next number for a change of any index at any place.
_VERSION: Final = 1


class SubsetSampler(OrderedSampler):
    """The listed records once an epoch, in their order or shuffled: a fold, a filter's result, a curriculum's stage.

    Memory: 8 bytes a listed record (a copy). A record that is listed twice comes twice.

    Args:
      indices: Record indices, at least 0; a one-dimensional integer array or sequence.
      num_records: Records of the source, to check against; one more than the largest index by default.
      shuffle: Whether each epoch is a new random order; else it is that of `indices`.
      seed, num_epochs, shard, tail, batch_size: As for `IndexSampler`.

    Raises:
      IndexError: If an index is outside the source.
    """

    def __init__(
        self,
        indices: npt.ArrayLike,
        *,
        num_records: int | None = None,
        shuffle: bool = False,
        seed: int = 0,
        num_epochs: int | None = 1,
        shard: ShardOptions | None = None,
        tail: Tail = "uneven",
        batch_size: int | None = None,
    ) -> None:
        self._indices = integer_array("indices", indices)
        beyond = int(self._indices.max()) + 1 if len(self._indices) else 0
        self._num_records = beyond if num_records is None else check_count("num_records", num_records)
        if len(self._indices) and self._indices.min() < 0:
            raise IndexError(f"indices holds {self._indices.min()}; record indices start at 0")
        if beyond > self._num_records:
            raise IndexError(f"indices holds {beyond - 1}, which is out of range for {self._num_records} records")
        super().__init__(len(self._indices), num_epochs=num_epochs, shard=shard, tail=tail, batch_size=batch_size)
        self._shuffle = Shuffle(len(self._indices), operator.index(seed)) if shuffle else None

    @property
    def num_records(self) -> int:
        """Records of the source; every index is below it."""
        return self._num_records

    def identity(self) -> dict[str, object]:
        """Return, ready for JSON, all that decides the global order."""
        order = {} if self._shuffle is None else self._shuffle.identity()
        return {
            "kind": "subset",
            "version": _VERSION,
            "num_records": self._num_records,
            "listed": len(self._indices),
            "indices": digest(self._indices),
            "shuffle": self._shuffle is not None,
            **order,
        }

    def _order(self, epoch: int, places: Indices) -> Indices:
        chosen: Indices = self._indices[self._shuffle.of(epoch).forward(places) if self._shuffle else places]
        return chosen

    def _order_across(self, epochs: npt.NDArray[np.int64], places: Indices) -> Indices:
        chosen: Indices = self._indices[self._shuffle.across(epochs, places) if self._shuffle else places]
        return chosen
