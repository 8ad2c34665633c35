"""Which record, and which place of the global order, stands at a rank's position of an epoch."""

from __future__ import annotations

import copy
from typing import Self

import numpy as np
import numpy.typing as npt

from ...samplers import OrderedSampler, Sampler, ShardOptions
from .leftover import Leftover

__all__ = ["Order"]

Ints = npt.NDArray[np.int64]


class Order:
    """A sampler's order; in one epoch perhaps only what other ranks have left of it.

    Positions are this rank's own, from 0 in every epoch. For one thread at a time: copy it for another. Picklable.

    Args:
      sampler: Copied: the user's own stays as he set it.
      epoch, leftover: In this epoch, positions are those of the leftover. None: in no epoch.
    """

    def __init__(self, sampler: Sampler, epoch: int = 0, leftover: Leftover | None = None) -> None:
        self.sampler = copy.copy(sampler)
        self._epoch: int | None = None
        self._left_epoch = epoch
        self._leftover = leftover

    @property
    def left(self) -> tuple[int, Leftover] | None:
        """The epoch of which only a part is left, and which part."""
        return None if self._leftover is None else (self._left_epoch, self._leftover)

    def length(self, epoch: int) -> int:
        """Return how many positions this rank has in an epoch."""
        leftover = self._of(epoch)
        if leftover is None:
            return self.sampler.epoch_length
        left = leftover.count(self.sampler.global_length)
        if isinstance(self.sampler, OrderedSampler):
            return self.sampler.places_in(left)
        return (left - self.sampler.shard.index + self.sampler.shard.count - 1) // self.sampler.shard.count

    def begun(self) -> dict[tuple[int, int], int]:
        """Return how many outputs of this rank's positions, by epoch and position, were delivered before."""
        if self._leftover is None:
            return {}
        shard = self.sampler.shard
        own = {n // shard.count: rows for n, rows in self._leftover.begun.items() if n % shard.count == shard.index}
        return {(self._left_epoch, position): rows for position, rows in own.items()}

    def records(self, epoch: int, start: int, stop: int) -> Ints:
        """Return the record indices at positions ``start <= position < stop`` of an epoch."""
        if self._of(epoch) is not None:
            return self.at_places(epoch, self.places(epoch, start, stop))
        self._go_to(epoch)
        return self.sampler.block(start, stop)

    def places(self, epoch: int, start: int, stop: int) -> Ints:
        """Return the places in the epoch's global order that these positions are."""
        numbers = self._numbers(start, stop)
        leftover = self._of(epoch)
        if leftover is None:
            return numbers
        count = leftover.count(self.sampler.global_length)
        over = numbers >= count
        if over.any():  # padding repeats the last ones, backwards
            numbers[over] = count - 1 - (numbers[over] - count) % count
        return leftover.places(numbers)

    def counts(self, epoch: int, start: int, stop: int) -> npt.NDArray[np.bool_]:
        """Return which of these positions count, and which repeat another because of ``tail="pad"``."""
        leftover, length = self._of(epoch), self.sampler.global_length
        return self._numbers(start, stop) < (length if leftover is None else leftover.count(length))

    def at_places(self, epoch: int, places: Ints) -> Ints:
        """Return the record indices at places of an epoch's global order."""
        self._go_to(epoch)
        if isinstance(self.sampler, OrderedSampler):
            return self.sampler.at_places(places)
        # A sampler of the user's own: one by one, which is slower, and lasts for the rest of an epoch only.
        whole = self.sampler.with_shard(ShardOptions())
        return np.array([whole[place] for place in places.tolist()], np.int64)

    def _numbers(self, start: int, stop: int) -> Ints:
        shard = self.sampler.shard
        return np.arange(start, stop, dtype=np.int64) * shard.count + shard.index

    def _of(self, epoch: int) -> Leftover | None:
        return self._leftover if epoch == self._left_epoch else None

    def _go_to(self, epoch: int) -> None:
        if epoch != self._epoch:
            self.sampler.set_epoch(epoch)
            self._epoch = epoch

    def __copy__(self) -> Self:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.sampler = copy.copy(self.sampler)
        return other
