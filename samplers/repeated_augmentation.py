"""Each record several times an epoch, its copies far apart."""

import operator
from typing import Final

import numpy as np

from .base import OrderedSampler, check_count
from .permutation import MAX_LENGTH
from .protocol import Indices
from .shard import ShardOptions
from .shuffle import Shuffle
from .stripe import Tail

__all__ = ["RepeatedAugmentation"]

# What the arguments mean, besides the shuffles they name; the next number for a change of any index at any place.
_VERSION: Final = 1


class RepeatedAugmentation(OrderedSampler):
    """Every record `repeats` times an epoch, in a global shuffle that keeps its copies more than half a pass apart.

    An epoch is `repeats` passes over the records. The first is a shuffle; each further one is that shuffle again, with
    each of its halves reshuffled. So two copies of a record are at least ``num_records // 2 + 1`` places apart in the
    global order, and no two passes have the same batches.

    (Hoffer et al., *Augment Your Batch*, CVPR 2020, and its followers put the copies into one batch instead: for that,
    list each record several times in a `SubsetSampler`.)

    Memory: constant; at most 512 kB of tables where there are at most 65,536 records, besides 512 kB for all samplers
    of a process.

    Args:
      num_records: Records of the source.
      repeats: How many times each record comes, at least 1; ``num_records * repeats < 2**63``.
      seed, num_epochs, shard, tail, batch_size: As for `IndexSampler`.
    """

    def __init__(
        self,
        num_records: int,
        *,
        repeats: int,
        seed: int = 0,
        num_epochs: int | None = 1,
        shard: ShardOptions | None = None,
        tail: Tail = "uneven",
        batch_size: int | None = None,
    ) -> None:
        self._num_records = check_count("num_records", num_records)
        self._repeats = check_count("repeats", repeats)
        if self._repeats < 1 or self._num_records * self._repeats > MAX_LENGTH:
            raise ValueError(f"repeats is {repeats}; it must be at least 1, and all copies together below 2**63")
        super().__init__(
            self._num_records * self._repeats, num_epochs=num_epochs, shard=shard, tail=tail, batch_size=batch_size
        )
        seed = operator.index(seed)
        self._shuffle = Shuffle(self._num_records, seed)
        lower = (self._num_records + 1) // 2
        self._halves = Shuffle(lower, seed, "lower"), Shuffle(self._num_records - lower, seed, "upper")

    @property
    def num_records(self) -> int:
        """Records of the source; every index is below it."""
        return self._num_records

    def identity(self) -> dict[str, object]:
        """Return, ready for JSON, all that decides the global order."""
        return {
            "kind": "repeated_augmentation",
            "version": _VERSION,
            "num_records": self._num_records,
            "repeats": self._repeats,
            **self._shuffle.identity(),
        }

    def _order(self, epoch: int, places: Indices) -> Indices:
        passes = places // self._num_records
        places = places - passes * self._num_records
        lower, upper = self._halves
        # The first pass of each epoch is the shuffle itself; the others' reshuffles count on through all epochs.
        turns = passes + epoch * self._repeats % (1 << 62)
        for chosen, half, start in (
            (np.flatnonzero((passes > 0) & (places < lower.length)), lower, 0),
            (np.flatnonzero((passes > 0) & (places >= lower.length)), upper, lower.length),
        ):
            if len(chosen):
                places[chosen] = half.across(turns[chosen], places[chosen] - start) + start
        return self._shuffle.of(epoch).forward(places)
