"""How the place of a stream follows from the batches that one rank has made: there are four ways."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from ...samplers import ShardOptions, StateError
from ..plan import Cursor
from .leftover import Leftover
from .place import Own, Place

__all__ = ["BucketPace", "EvenPace", "LoosePace", "OwnPace", "Pace"]


class Pace(Protocol):
    """How a loader's ranks move on together."""

    @property
    def shard(self) -> ShardOptions:
        """Which rank of how many."""

    def accept(self, place: Place) -> Place:
        """Return a place that was saved as one that ``advance`` can start from.

        Raises:
          StateError: This loader cannot go on from there.
        """

    def advance(self, anchor: Place, cursor: Cursor) -> Place:
        """Return the place once a rank that started at ``anchor`` has come to ``cursor``."""


@dataclass(frozen=True, slots=True)
class EvenPace:
    """All ranks use equally many positions in a step: the state is the same on all, and any number of ranks goes on.

    Attributes:
      batch_size: Positions in a step.
      length: Places of an epoch's global order.
      tail: What becomes of the places that ranks cannot share evenly.
    """

    shard: ShardOptions
    batch_size: int
    length: int
    tail: str

    def accept(self, place: Place) -> Place:
        if place.own is not None:
            raise StateError(
                f"this state is rank {place.own.index}'s of {place.own.count} alone, which have come unequally far: load what "
                "arrayfeed.merge_states returns of the states of all of them"
            )
        _check_whole(place)
        if place.leftover is not None and not place.leftover.levels:
            place = replace(place, position=place.leftover.base, leftover=None)
        between = place.leftover is None and place.position < self.length and place.position % self.shard.count
        if self.tail != "uneven" and between:
            raise StateError(
                f"the state stands at position {place.position} of all ranks, which {self.shard.count} ranks do not reach in "
                f"equal steps, as tail={self.tail!r} promises; use tail='uneven' for this epoch, or a number of ranks that "
                "divides it"
            )
        return place

    def advance(self, anchor: Place, cursor: Cursor) -> Place:
        same = cursor.epoch == anchor.epoch
        steps = -(-(cursor.position - (anchor.to_cursor(self.shard).position if same else 0)) // self.batch_size)
        delivered = steps * self.batch_size * self.shard.count
        if same and anchor.leftover is not None:
            return replace(anchor, leftover=anchor.leftover.advance(delivered))
        return Place(cursor.epoch, (anchor.position if same else 0) + delivered, anchor.first_epoch)


@dataclass(frozen=True, slots=True)
class OwnPace:
    """Ranks come unequally far: each has a state of its own, until they are merged.

    Attributes:
      length: Places of an epoch's global order.
      window: How many positions are packed together; None if none are.
    """

    shard: ShardOptions
    length: int
    window: int | None

    def accept(self, place: Place) -> Place:
        own = place.own
        if own is None:
            starts = place.leftover is not None or not place.position
            return place if starts else replace(place, leftover=Leftover(place.position))
        _check_rank(own, self.shard)
        if own.window not in (None, self.window):
            raise StateError(
                f"this state was saved among rows that {own.window} neighbouring records were packed into; here it is "
                f"{self.window}. Use the same window, or start a new epoch"
            )
        if own.ahead:
            raise StateError(
                "this rank's state was saved with in_order=False, later batches delivered before earlier ones; load what "
                "arrayfeed.merge_states returns of the states of all ranks"
            )
        return place

    def advance(self, anchor: Place, cursor: Cursor) -> Place:
        leftover = anchor.leftover if cursor.epoch == anchor.epoch else None
        place = Place(cursor.epoch, 0, anchor.first_epoch, leftover)
        if not cursor.position and not cursor.outputs and not cursor.ahead:
            return place
        amid = self.window if cursor.outputs else None
        if self.shard.count == 1 and amid is None:
            ahead = [(0, start, stop) for start, stop in cursor.ahead]
            used = (leftover or Leftover()).merge([cursor.position], {0: cursor.outputs}, ahead)
            return replace(place, leftover=used)
        left = self.length if leftover is None else leftover.count(self.length)
        of = -(-left // self.shard.count)
        own = Own(self.shard.index, self.shard.count, cursor.position, cursor.outputs, of, amid, cursor.ahead)
        return replace(place, own=own)


@dataclass(frozen=True, slots=True)
class LoosePace:
    """Batches are delivered as they come: ranks make equally many, but not the same ones, and each has a state of its own.

    Attributes:
      batch_size: Positions in a batch.
      length: Places of an epoch's global order.
    """

    shard: ShardOptions
    batch_size: int
    length: int

    def accept(self, place: Place) -> Place:
        _check_whole(place)
        own = place.own
        if own is None:
            return self._apart.accept(place)
        _check_rank(own, self.shard)
        between = Cursor(0, own.position, 0, own.ahead).gaps(own.ahead[-1][0]) if own.ahead else ()
        for start, stop in between:
            if (stop - start) % self.batch_size:
                raise StateError(
                    f"this rank's state was saved with {stop - start} positions still to come before some that were delivered, "
                    f"which are no whole batches of {self.batch_size}: use the batch size that it was saved with, or load what "
                    "arrayfeed.merge_states returns of the states of all ranks"
                )
        return place

    def advance(self, anchor: Place, cursor: Cursor) -> Place:
        return self._apart.advance(anchor, cursor)

    @property
    def _apart(self) -> OwnPace:
        return OwnPace(self.shard, self.length, None)


@dataclass(frozen=True, slots=True)
class BucketPace:
    """Batches have sizes of their own, which ranks share where batches were laid out for as many of them.

    Attributes:
      length: Places of an epoch's global order.
      shared: Whether the batches were laid out for this number of ranks.
    """

    shard: ShardOptions
    length: int
    shared: bool

    def accept(self, place: Place) -> Place:
        if place.own is not None:
            _check_rank(place.own, self.shard)
        if place.leftover is None:
            return place
        if place.leftover.levels or place.leftover.begun:
            raise StateError(
                "batches of like length cannot be cut from what ranks that came unequally far have left; load each rank's "
                "own state on as many ranks, or start a new epoch"
            )
        return replace(place, position=place.leftover.base, leftover=None)

    def advance(self, anchor: Place, cursor: Cursor) -> Place:
        ranks = self.shard.count
        longest = -(-self.length // ranks)
        if self.shared or ranks == 1:
            own_length = (self.length - self.shard.index + ranks - 1) // ranks
            steps = longest if cursor.position >= own_length else cursor.position
            return Place(cursor.epoch, steps * ranks, anchor.first_epoch)
        place = Place(cursor.epoch, 0, anchor.first_epoch)
        return replace(place, own=Own(self.shard.index, ranks, cursor.position, 0, longest)) if cursor.position else place


def _check_rank(own: Own, shard: ShardOptions) -> None:
    if (own.index, own.count) != (shard.index, shard.count):
        raise StateError(
            f"this state is rank {own.index}'s of {own.count} alone, and this is rank {shard.index} of {shard.count}: ranks "
            "have come unequally far. Load what arrayfeed.merge_states returns of the states of all of them"
        )


def _check_whole(place: Place) -> None:
    amid = place.own is not None and place.own.outputs
    if amid or (place.leftover is not None and place.leftover.begun):
        raise StateError(
            "this state was saved between two examples that a FlatMap or pack made of one record; load it into a loader "
            "with the same transforms, or start a new epoch"
        )
