"""Which positions make up which batch. Pure: numbers in, numbers out.

Batches are cut within an epoch, so that every epoch ends on its own short batch: 10 records, batch 4, 2 epochs are batches
of 4 4 2 4 4 2, and 4 4 4 4 with ``drop_last``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ..samplers import BatchSampler

__all__ = ["BatchPlan", "Cursor", "Run", "SpanPlan"]


class Cursor(NamedTuple):
    """A place in a stream: the next record to deliver is position ``position`` of epoch ``epoch``.

    Where transforms make several rows of one record, ``outputs`` of them were delivered already. Where batches are delivered
    as they come, so were the positions ``start <= p < stop`` of the pairs ``ahead``, in ascending order and apart.
    """

    epoch: int
    position: int
    outputs: int = 0
    ahead: tuple[tuple[int, int], ...] = ()

    def and_then(self, epoch: int, start: int, stop: int) -> Cursor:
        """Return the place once positions ``start <= p < stop`` are delivered too, of this epoch or of one after it."""
        if epoch != self.epoch:
            return Cursor(epoch, 0).and_then(epoch, start, stop)
        spans: list[tuple[int, int]] = []
        for span in sorted([*self.ahead, (start, stop)]):
            if spans and spans[-1][1] == span[0]:
                spans[-1] = spans[-1][0], span[1]
            else:
                spans.append(span)
        position = spans.pop(0)[1] if spans[0][0] == self.position else self.position
        return Cursor(epoch, position, 0, tuple(spans))

    def gaps(self, end: int) -> Iterator[tuple[int, int]]:
        """Yield the positions before ``end`` that are still to be delivered, as ``start`` and ``stop``."""
        starts = (self.position, *(stop for _, stop in self.ahead))
        stops = (*(start for start, _ in self.ahead), end)
        yield from ((start, stop) for start, stop in zip(starts, stops, strict=True) if start < stop)


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive batches of one epoch, made in one go: batch ``k`` holds positions ``bounds[k] <= p < bounds[k + 1]``.

    ``ends_epoch`` says that the epoch has no further batch.
    """

    epoch: int
    bounds: tuple[int, ...]
    ends_epoch: bool = False


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """How epochs of ``length`` positions are cut into batches.

    Attributes:
      length: Positions in an epoch, ``>= 0``.
      batch_size: Positions in a batch, ``>= 1``.
      drop_last: Whether the short batch at an epoch's end is left out.
      other: An epoch that has another length, and that length.
    """

    length: int
    batch_size: int
    drop_last: bool
    other: tuple[int, int] | None = None

    @property
    def batches_per_epoch(self) -> int:
        """Batches in a whole epoch."""
        return self.length // self.batch_size if self.drop_last else -(-self.length // self.batch_size)

    def length_of(self, epoch: int) -> int:
        """Return how many positions an epoch has."""
        return self.other[1] if self.other is not None and self.other[0] == epoch else self.length

    def normalise(self, cursor: Cursor) -> Cursor:
        """Return ``cursor``, or the next epoch's start where its epoch has no further batch."""
        return cursor if cursor.position < self._end(cursor) else Cursor(cursor.epoch + 1, 0)

    def cut(self, start: Cursor, end_epoch: int | None, max_batches: Callable[[], int]) -> Iterator[Run]:
        """Yield the batches from ``start`` to the end of epoch ``end_epoch - 1`` in runs; None goes on for ever.

        The first run is a single batch, so that it is there soon; each further one is four times as long, up to
        ``max_batches()``: making many small batches at once spares most of the cost of each.

        Raises:
          ValueError: Endless epochs that hold no batch.
        """
        if end_epoch is None and not self.batches_per_epoch:
            raise ValueError(f"{self.length} records make no batch of {self.batch_size}: endless epochs would never give one")
        wanted = 1
        while end_epoch is None or start.epoch < end_epoch:
            gaps = [*start.gaps(self._end(start))]
            for position, end in gaps:
                while position < end:
                    stop = min(end, position + wanted * self.batch_size)
                    yield Run(start.epoch, (*range(position, stop, self.batch_size), stop), stop == gaps[-1][1])
                    position, wanted = stop, min(4 * wanted, max_batches())
            start = Cursor(start.epoch + 1, 0)

    def _end(self, cursor: Cursor) -> int:
        """Return the end of the last batch of an epoch that is cut from ``cursor`` on."""
        length, last = self.length_of(cursor.epoch), cursor.ahead[-1][1] if cursor.ahead else cursor.position
        return length - (length - last) % self.batch_size if self.drop_last else length


@dataclass(frozen=True, slots=True)
class SpanPlan:
    """How a batch sampler cuts epochs: into batches of its own sizes, each a run by itself.

    Attributes:
      batches: The batch sampler.
    """

    batches: BatchSampler

    @property
    def batches_per_epoch(self) -> int:
        """Batches in a whole epoch."""
        return self.batches.epoch_length

    def length_of(self, epoch: int) -> int:
        """Return how many positions an epoch has."""
        return self.batches.sampler.epoch_length

    def normalise(self, cursor: Cursor) -> Cursor:
        """Return ``cursor``, or the next epoch's start where its epoch has no further batch."""
        further = next(iter(self.batches.places_from(cursor.epoch, cursor.position)), None)
        return Cursor(cursor.epoch + 1, 0) if further is None else cursor

    def cut(self, start: Cursor, end_epoch: int | None, max_batches: Callable[[], int]) -> Iterator[Run]:
        """Yield the batches from ``start`` to the end of epoch ``end_epoch - 1``, one a run; None goes on for ever."""
        if end_epoch is None and not self.batches_per_epoch:
            raise ValueError("the batch sampler has no batch: endless epochs would never give one")
        while end_epoch is None or start.epoch < end_epoch:
            spans = [*self.batches.places_from(start.epoch, start.position)]
            yield from (Run(start.epoch, span, span is spans[-1]) for span in spans)
            start = Cursor(start.epoch + 1, 0)
