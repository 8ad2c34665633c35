"""Our samplers in Grain's DataLoader. The only file here that imports grain, when first used."""

import operator
import sys
from typing import TYPE_CHECKING

from .base import OrderedSampler
from .randomness import RecordRandom

if TYPE_CHECKING:
    from grain.python import RecordMetadata

__all__ = ["GrainSampler"]


class GrainSampler:
    """Gives Grain what its own samplers give: a `RecordMetadata` at each index, with a generator of its own if asked.

    Grain cuts batches and spreads indices over workers and shards itself; so give it a sampler of the whole order, and
    the shard to its DataLoader:

        grain.DataLoader(
            data_source=source,
            sampler=GrainSampler(IndexSampler(len(source), shuffle=True, num_epochs=3), seed=0),
            shard_options=grain.ShardByJaxProcess(),
        )

    Its `repr` names the order, since that is what Grain compares when a checkpoint is loaded.

    Args:
      sampler: Any sampler of this library that has not been sharded.
      seed: Gives each record a generator keyed by seed, epoch and place, for random transforms; None gives none.

    Raises:
      ImportError: If grain is not installed.
      ValueError: If the sampler is one rank's share.
    """

    def __init__(self, sampler: OrderedSampler, *, seed: int | None = None) -> None:
        from grain.python import RecordMetadata

        if sampler.shard.count != 1:
            raise ValueError(f"the sampler is {sampler.shard}; give Grain the whole order, and shard_options to its loader")
        self.sampler = sampler
        self._random = None if seed is None else RecordRandom(seed)
        self._metadata = RecordMetadata

    def __len__(self) -> int:
        """Return the number of positions; `sys.maxsize`, as Grain's own samplers do, where there is no end."""
        return sys.maxsize if self.sampler.num_epochs is None else len(self.sampler)

    def __getitem__(self, index: int) -> "RecordMetadata":
        index = operator.index(index)
        if index < 0:
            raise IndexError(f"index {index} is negative")
        key = self.sampler[index]
        random = None
        if self._random is not None:
            epoch, place = divmod(index, self.sampler.epoch_length)
            random = self._random.generator(self.sampler.epoch + epoch, place)
        return self._metadata(index=index, record_key=key, rng=random)

    def __repr__(self) -> str:
        seed = None if self._random is None else self._random.seed
        return f"GrainSampler({self.sampler.fingerprint}, epoch={self.sampler.epoch}, seed={seed})"
