"""Orders that are laid out for a number of ranks, so that each rank by itself sees what the sampler promises."""

import copy
from abc import abstractmethod
from collections.abc import Mapping
from typing import Self

from .base import OrderedSampler, check_count
from .errors import StateError
from .shard import ShardOptions
from .state import count_of, sampler_of
from .stripe import Tail

__all__ = ["LanedSampler"]


class LanedSampler(OrderedSampler):
    """A sampler whose order gives `lanes` ranks at once what it is about: a source's turn, a batch of like lengths.

    Left to itself, `lanes` is the number of ranks, and follows it. A state brings the lanes it was saved with, so that
    its order goes on unchanged on any number of ranks.

    A subclass gives `_lay_out` on top of what `OrderedSampler` asks for, and must tell `lanes` in its identity.

    Args:
      lanes: For how many ranks; None for as many as there are.
      num_epochs, shard, tail, batch_size: As for `OrderedSampler`.
    """

    def __init__(
        self,
        *,
        lanes: int | None,
        num_epochs: int | None,
        shard: ShardOptions | None,
        tail: Tail,
        batch_size: int | None,
    ) -> None:
        self._fixed_lanes = None if lanes is None else check_count("lanes", lanes)
        if self._fixed_lanes == 0:
            raise ValueError("lanes is 0; it must be at least 1")
        shard = ShardOptions() if shard is None else shard
        length = self._lay_out(self._fixed_lanes or shard.count)
        super().__init__(length, num_epochs=num_epochs, shard=shard, tail=tail, batch_size=batch_size)

    @abstractmethod
    def _lay_out(self, lanes: int) -> int:
        """Lay the order out for a number of ranks, and return how many places it has."""

    @property
    def lanes(self) -> int:
        """For how many ranks the order is laid out."""
        return self._fixed_lanes or self.shard.count

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Take up base epoch and position from a state, and its lanes where none were given; see `OrderedSampler`.

        Raises:
          StateError: As there; then the sampler is as it was.
        """
        other = self._with_lanes_of(state)
        OrderedSampler.load_state_dict(other, state)
        self.__dict__.update(other.__dict__)

    def _with_lanes_of(self, state: Mapping[str, object]) -> Self:
        """Return a copy that has a state's lanes, if it is free to choose."""
        saved = sampler_of(state)
        other = copy.copy(self)
        if self._fixed_lanes is None and "lanes" in saved:
            lanes = count_of(saved, "lanes")
            if lanes < 1:
                raise StateError(f"the state has {lanes} lanes; there is at least 1")
            other._fixed_lanes = lanes
            try:
                other._restripe(self.shard)
            except ValueError as error:
                raise StateError(f"the state has {lanes} lanes: {error}") from None
        return other

    def _restripe(self, shard: ShardOptions, length: int | None = None) -> None:
        super()._restripe(shard, self._lay_out(self._fixed_lanes or shard.count))
