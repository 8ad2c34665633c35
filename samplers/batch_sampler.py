"""A sampler's positions, cut into batches."""

import copy
import operator
from collections.abc import Iterator, Mapping
from typing import Self, SupportsIndex

from .base import OrderedSampler, check_count
from .iteration import BatchIterator
from .protocol import Indices
from .shard import ShardOptions

__all__ = ["BatchSampler"]


class BatchSampler:
    """Cuts each epoch of a sampler into batches; what `torch.utils.data.DataLoader` takes as `batch_sampler`.

    `len`, numbers and epochs count batches here, and each item is a list of plain Python integers. A batch never
    crosses an epoch's end: 10 positions in batches of 4 are 4, 4 and 2, each epoch anew.

    `sampler`, `batch_size`, `drop_last` and `set_epoch` stand where Lightning and Accelerate look for them. Picklable;
    thread-safe as its sampler is.

    Args:
      sampler: Any sampler of this library.
      batch_size: Positions in a batch, at least 1.
      drop_last: Leave out an epoch's last batch where it is short.
    """

    def __init__(self, sampler: OrderedSampler, batch_size: int, drop_last: bool = False) -> None:
        if not isinstance(sampler, OrderedSampler):
            raise TypeError(f"sampler is a {type(sampler).__name__}; it must be one of arrayfeed's samplers")
        if check_count("batch_size", batch_size) < 1:
            raise ValueError(f"batch_size is {batch_size}; it must be at least 1")
        self.sampler = sampler
        self.batch_size: int | None = operator.index(batch_size)
        self.drop_last = bool(drop_last)
        self._size = operator.index(batch_size)

    def bounds(self, number: int) -> tuple[int, int]:
        """Return the positions of the sampler that make up a batch: ``start <= position < stop``.

        Raises:
          IndexError: If there is no such batch.
        """
        epoch, within = divmod(self._check(number), self.epoch_length)
        start, stop = self._places(self.epoch + epoch, within)
        offset = epoch * self.sampler.epoch_length
        return offset + start, offset + stop

    def _places(self, epoch: int, number: int) -> tuple[int, int]:
        """Return the places of a batch of an epoch: the first, and one more than the last."""
        start = number * self._size
        return start, min(start + self._size, self._places_end(0))

    def places_from(self, epoch: int, start: int) -> Iterator[tuple[int, int]]:
        """Yield the places of each batch of an epoch that is cut from place `start` on."""
        end = self._places_end(start)
        return ((place, min(place + self._size, end)) for place in range(start, end, self._size))

    def _places_end(self, start: int) -> int:
        length = self.sampler.epoch_length
        return length - (length - start) % self._size if self.drop_last else length

    @property
    def epoch(self) -> int:
        """The base epoch: the one that batch 0 begins."""
        return self.sampler.epoch

    @property
    def num_epochs(self) -> int | None:
        """How many epochs the batches span; None is for ever."""
        return self.sampler.num_epochs

    @property
    def epoch_length(self) -> int:
        """Batches of this rank in one epoch."""
        return -(-self._places_end(0) // self._size)

    @property
    def shard(self) -> ShardOptions:
        """Which rank of how many this sampler serves."""
        return self.sampler.shard

    @property
    def fingerprint(self) -> str:
        """A short hash of `identity()`."""
        return self.sampler.fingerprint

    def __len__(self) -> int:
        if self.num_epochs is None:
            raise TypeError(f"{type(self).__name__} goes on for ever (num_epochs=None) and has no length")
        return self.num_epochs * self.epoch_length

    def __getitem__(self, number: SupportsIndex) -> list[int]:
        """Return batch `number`; negative ones count from the end, where there is one."""
        number = operator.index(number)
        if number < 0 and self.num_epochs is not None:
            number += len(self)
        batch: list[int] = self.sampler.block(*self.bounds(number)).tolist()
        return batch

    def block(self, start: int, stop: int) -> list[Indices]:
        """Return the batches ``start <= number < stop``, each an int64 array.

        Raises:
          IndexError: If not ``0 <= start <= stop <= len``.
        """
        start, stop = operator.index(start), operator.index(stop)
        if stop < start:
            raise IndexError(f"block({start}, {stop}) ends before it starts")
        if start == stop == self._end():
            return []
        self._check(start)
        self._check(max(start, stop - 1))
        return [self.sampler.block(*self.bounds(number)) for number in range(start, stop)]

    def __iter__(self) -> BatchIterator:
        """Return an iterator over the batches from the sampler's position on, which has a state of its own."""
        return BatchIterator(self)

    def _end(self) -> int | None:
        """Return how many batches there are; None if there is no end."""
        per_epoch = self.epoch_length
        return None if self.num_epochs is None and per_epoch else (self.num_epochs or 1) * per_epoch

    def _check(self, number: int) -> int:
        number, end = operator.index(number), self._end()
        if number < 0 or (end is not None and number >= end):
            raise IndexError(f"batch {number} is out of range for {'endless' if end is None else end} batches")
        return number

    def epoch_of(self, number: int) -> int:
        """Return the epoch that a batch belongs to.

        Raises:
          IndexError: If there is no such batch.
        """
        return self.epoch + self._check(number) // self.epoch_length

    def set_epoch(self, epoch: int) -> None:
        """Make `epoch` the base epoch, so that batch 0 begins it and iteration starts there."""
        self.sampler.set_epoch(epoch)

    def with_shard(self, shard: ShardOptions) -> Self:
        """Return a batch sampler of the same order for another rank or another number of ranks."""
        other = copy.copy(self)
        other.sampler = self.sampler.with_shard(shard)
        return other

    def identity(self) -> dict[str, object]:
        """Return, ready for JSON, all that decides the global order; the batch size does not."""
        return self.sampler.identity()

    def state_dict(self, number: int | None = None) -> dict[str, object]:
        """Return where every rank stands after `number` batches, or where iteration would begin.

        It is the sampler's own state: it loads with any batch size, and into the bare sampler.
        """
        if number is None:
            return self.sampler.state_dict()
        if number == self._end():
            return self.sampler.state_dict(len(self.sampler))
        return self.sampler.state_dict(self.bounds(number)[0])

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Begin iteration where a state says: the epoch's remaining positions are cut from there on.

        Raises:
          StateError: As for `OrderedSampler.load_state_dict`.
        """
        self.sampler.load_state_dict(state)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.sampler!r}, batch_size={self.batch_size}, drop_last={self.drop_last})"
