"""Iterators that know where they stand, so that a loader can save and restore them, not count what they gave.

`torchdata.stateful_dataloader` takes anything with `state_dict` and `load_state_dict` at its word: it asks the iterator
for its state, and does not skip what was given before. A plain generator would begin anew.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .base import OrderedSampler
    from .batch_sampler import BatchSampler

__all__ = ["BatchIterator", "PositionIterator"]

# Asks a sampler for this many positions at a time: 32 kB, a few microseconds of work.
READ_AHEAD: Final = 4096


class PositionIterator(Iterator[int]):
    """Gives a sampler's indices from its position on, as plain integers. For one thread.

    It goes by a copy: `set_epoch` or `load_state_dict` on the sampler do not reach an iterator that is under way.
    """

    _ready: Iterator[int]
    _stop: int
    _end: int

    def __init__(self, sampler: OrderedSampler) -> None:
        self._sampler = copy.copy(sampler)
        self._begin()

    def __next__(self) -> int:
        for index in self._ready:
            return index
        stop = min(self._stop + READ_AHEAD, self._end)
        if stop == self._stop:
            raise StopIteration
        self._ready = iter(self._sampler.block(self._stop, stop).tolist())
        self._stop = stop
        return next(self._ready)

    def state_dict(self) -> dict[str, object]:
        """Return the sampler's state at the position that comes next."""
        return self._sampler.state_dict(self._stop - operator.length_hint(self._ready))

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Go on where a state says; raises as the sampler's own method does."""
        self._sampler.load_state_dict(state)
        self._begin()

    def _begin(self) -> None:
        self._stop = self._sampler.position
        self._end = self._sampler.end
        self._ready = iter(())


class BatchIterator(Iterator[list[int]]):
    """Gives a batch sampler's batches from its sampler's position on, as lists of plain integers. Else as above."""

    _position: int
    _batches: Iterator[tuple[list[int], int]]

    def __init__(self, batches: BatchSampler) -> None:
        self._source = copy.copy(batches)
        self._source.sampler = copy.copy(batches.sampler)
        self._begin()

    def __next__(self) -> list[int]:
        batch, self._position = next(self._batches)
        return batch

    def state_dict(self) -> dict[str, object]:
        """Return the sampler's state at the batch that comes next."""
        return self._source.sampler.state_dict(self._position)

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Go on where a state says; raises as the sampler's own method does."""
        self._source.load_state_dict(state)
        self._begin()

    def _begin(self) -> None:
        self._position = self._source.sampler.position
        self._batches = self._cut()

    def _cut(self) -> Iterator[tuple[list[int], int]]:
        """Yield each batch with the position after it; small ones are read several at a time."""
        source, sampler = self._source, self._source.sampler
        length = sampler.epoch_length
        epoch, start = divmod(sampler.position, length) if length else (0, 0)
        while source.epoch_length and (source.num_epochs is None or epoch < source.num_epochs):
            offset = epoch * length
            ready: list[int] = []
            ready_from = start
            for first, last in source.places_from(source.epoch + epoch, start):
                if last > ready_from + len(ready):
                    stop = min(length, max(last, first + READ_AHEAD))
                    ready, ready_from = sampler.block(offset + first, offset + stop).tolist(), first
                yield ready[first - ready_from : last - ready_from], offset + last
            epoch, start = epoch + 1, 0
