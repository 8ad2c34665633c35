"""All records once an epoch: in their own order, or in one global shuffle that needs no memory."""

import operator
from typing import Final

import numpy as np
import numpy.typing as npt

from .base import OrderedSampler, check_count
from .permutation import MAX_LENGTH, Permutation
from .protocol import Indices
from .shard import ShardOptions
from .shuffle import Shuffle
from .stripe import Tail

__all__ = ["IndexSampler", "SequentialSampler"]

# What the arguments mean, besides the shuffles they name; the next number for a change of any index at any place.
_VERSION: Final = 1


class IndexSampler(OrderedSampler):
    """Every record once an epoch, shuffled over the whole data set or in sequence.

    A shuffled epoch is a permutation keyed by a hash of seed and epoch, computed where it is asked for. It is the same
    order for any number of ranks, which take turns in it.

    Memory: constant; at most 256 kB of tables where there are at most 65,536 records, besides 512 kB for all samplers
    of a process; nothing above. Construction and ``sampler[position]`` cost microseconds at any length. (The first
    position of a short epoch makes that epoch's table, which takes 1 ms at the most, or 5 where `np.sort` is not
    vectorised.) Picklable in a few hundred bytes. See `Sampler` for positions, ranks and threads.

    Args:
      num_records: Records of the source, ``0 <= num_records < 2**63``. An empty source gives an empty sampler.
      shuffle: Whether each epoch is a new random order; else it is ``0, 1, 2, ...``.
      reshuffle: Whether every epoch has an order of its own; else all have that of epoch 0.
      seed: Any integer. Different seeds, and different epochs of one seed, have unrelated orders.
      num_epochs: How many epochs the positions span; None is for ever.
      shard: This rank and the number of ranks; `ShardOptions.from_environment` finds it.
      tail: "uneven", "drop" or "pad"; see `Stripe`.
      batch_size: "drop" and "pad" round each rank's places to a multiple of this.

    Raises:
      TypeError: If a number is no integer.
      ValueError: If one is out of its range, or a rank would silently get no record.
    """

    def __init__(
        self,
        num_records: int,
        *,
        shuffle: bool = False,
        reshuffle: bool = True,
        seed: int = 0,
        num_epochs: int | None = 1,
        shard: ShardOptions | None = None,
        tail: Tail = "uneven",
        batch_size: int | None = None,
    ) -> None:
        if check_count("num_records", num_records) > MAX_LENGTH:
            raise ValueError(f"num_records is {num_records}; it must be below 2**63")
        super().__init__(operator.index(num_records), num_epochs=num_epochs, shard=shard, tail=tail, batch_size=batch_size)
        self._shuffle = Shuffle(self.num_records, seed) if shuffle else None
        self._reshuffle = bool(reshuffle)

    @property
    def num_records(self) -> int:
        """Records of the source; every index is below it."""
        return self._stripe.length

    def position_of(self, index: int, *, epoch: int | None = None) -> int | None:
        """Return this rank's position in the base epoch at which a record comes, or None if it is not this rank's.

        Args:
          index: The record, ``0 <= index < num_records``.
          epoch: Ask for this epoch's order instead; the position returned still counts from that epoch's start.
        """
        index = operator.index(index)
        if not 0 <= index < self.num_records:
            raise IndexError(f"index {index} is out of range for {self.num_records} records")
        place = index
        if self._shuffle is not None:
            permutation = self._permutation(self._epoch if epoch is None else operator.index(epoch))
            place = int(permutation.inverse(np.array([index], np.int64))[0])
        position, owner = divmod(place, self.shard.count)
        return position if owner == self.shard.index and position < self._epoch_length else None

    def identity(self) -> dict[str, object]:
        """Return, ready for JSON, all that decides the global order."""
        order = {} if self._shuffle is None else self._shuffle.identity()
        if self._shuffle is not None and not self._reshuffle:
            order["reshuffle"] = False
        return {
            "kind": "index",
            "version": _VERSION,
            "num_records": self.num_records,
            "shuffle": self._shuffle is not None,
            **order,
        }

    def _order(self, epoch: int, places: Indices) -> Indices:
        return places if self._shuffle is None else self._permutation(epoch).forward(places)

    def _order_along(self, epoch: int, places: range) -> Indices:
        return super()._order_along(epoch, places) if self._shuffle is None else self._permutation(epoch).along(places)

    def _order_across(self, epochs: npt.NDArray[np.int64], places: Indices) -> Indices:
        if self._shuffle is None:
            return places
        return self._shuffle.across(epochs, places) if self._reshuffle else self._permutation(0).forward(places)

    def _order_at(self, epoch: int, place: int) -> int:
        return place if self._shuffle is None else self._permutation(epoch)[place]

    def _permutation(self, epoch: int) -> Permutation:
        assert self._shuffle is not None
        return self._shuffle.of(epoch if self._reshuffle else 0)

    def __repr__(self) -> str:
        order = f"shuffle=True, seed={self._shuffle.seed}" if self._shuffle else "shuffle=False"
        if not self._reshuffle:
            order += ", reshuffle=False"
        return (
            f"{type(self).__name__}({self.num_records}, {order}, num_epochs={self._num_epochs}, shard={self.shard}, "
            f"tail={self.tail!r})"
        )


class SequentialSampler(IndexSampler):
    """Every record once an epoch, in sequence: what validation wants. An `IndexSampler` that does not shuffle."""

    def __init__(
        self,
        num_records: int,
        *,
        num_epochs: int | None = 1,
        shard: ShardOptions | None = None,
        tail: Tail = "uneven",
        batch_size: int | None = None,
    ) -> None:
        super().__init__(num_records, num_epochs=num_epochs, shard=shard, tail=tail, batch_size=batch_size)
