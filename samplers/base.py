"""What all samplers share: epochs, stripes, masks, iteration and state. A sampler adds its order of one epoch."""

import copy
import operator
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final, Literal, Self, SupportsIndex, overload

import numpy as np
import numpy.typing as npt

from .iteration import PositionIterator
from .protocol import Indices, Mask
from .shard import ShardOptions
from .state import fingerprint, read_state, write_state
from .stripe import Stripe, Tail

__all__ = ["OrderedSampler", "check_count"]

# Positions are int64 in blocks.
_MAX_POSITION: Final = (1 << 63) - 1


class OrderedSampler(ABC):
    """A sampler made of a global order per epoch, shared by ranks. See `Sampler` for what each method promises.

    A subclass gives `num_records`, `identity` and `_order`, and passes its `global_length` up. Its order may depend on
    what `identity` tells and on the epoch, on nothing else.

    Args:
      global_length: Places of the order in one epoch.
      num_epochs: How many epochs the positions span; None is for ever.
      shard: This rank and the number of ranks; the only rank by default.
      tail: What happens to the places that ranks cannot share evenly; see `Stripe`.
      batch_size: "drop" and "pad" round each rank's places to a multiple of this.
    """

    def __init__(
        self,
        global_length: int,
        *,
        num_epochs: int | None,
        shard: ShardOptions | None,
        tail: Tail,
        batch_size: int | None,
    ) -> None:
        if num_epochs is not None and check_count("num_epochs", num_epochs) < 1:
            raise ValueError(f"num_epochs is {num_epochs}; it must be at least 1, or None to go on for ever")
        size = 1 if batch_size is None else check_count("batch_size", batch_size)
        self._num_epochs = None if num_epochs is None else operator.index(num_epochs)
        self._stripe = Stripe(global_length, ShardOptions() if shard is None else shard, tail, size)
        self._epoch_length = self._stripe.places
        self._epoch = 0
        self._position = 0

    @abstractmethod
    def _order(self, epoch: int, places: Indices) -> Indices:
        """Return the indices at places of one epoch's global order; int64, ``0 <= place < global_length``."""

    @property
    @abstractmethod
    def num_records(self) -> int:
        """Records of the source; every index is below it."""

    @abstractmethod
    def identity(self) -> dict[str, object]:
        """Return, ready for JSON, all that decides the global order: never the rank, the tail or the epoch."""

    def _order_across(self, epochs: npt.NDArray[np.int64], places: Indices) -> Indices:
        """Return the indices at places of several epochs' orders; arrays of one shape."""
        indices = np.empty(len(places), np.int64)
        for epoch in np.unique(epochs):
            chosen = np.flatnonzero(epochs == epoch)
            indices[chosen] = self._order(int(epoch), places[chosen])
        return indices

    def _order_along(self, epoch: int, places: range) -> Indices:
        """Return the indices at places at a regular step of one epoch's global order; an array that is the caller's own."""
        return self._order(epoch, np.arange(places.start, places.stop, places.step, dtype=np.int64))

    def _order_at(self, epoch: int, place: int) -> int:
        """Return the index at one place."""
        return int(self._order(epoch, np.array([place], np.int64))[0])

    @property
    def epoch(self) -> int:
        """The base epoch: the one that position 0 begins."""
        return self._epoch

    @property
    def position(self) -> int:
        """Where iteration begins: 0, unless a state was loaded."""
        return self._position

    @property
    def num_epochs(self) -> int | None:
        """How many epochs the positions span; None is for ever."""
        return self._num_epochs

    @property
    def epoch_length(self) -> int:
        """Positions of this rank in one epoch, padding included."""
        return self._epoch_length

    @property
    def global_length(self) -> int:
        """Places of the global order in one epoch: all ranks together, before anything is dropped or padded."""
        return self._stripe.length

    @property
    def shard(self) -> ShardOptions:
        """Which rank of how many this sampler serves."""
        return self._stripe.shard

    @property
    def tail(self) -> Tail:
        """What happens to the places that ranks cannot share evenly."""
        return self._stripe.tail

    @property
    def end(self) -> int:
        """The number of positions; where there is no end, as many as an int64 can count."""
        if self._epoch_length == 0:
            return 0
        if self._num_epochs is None:
            return _MAX_POSITION
        return min(self._num_epochs * self._epoch_length, _MAX_POSITION)

    @property
    def fingerprint(self) -> str:
        """A short hash of `identity()`."""
        return fingerprint(self.identity())

    def __len__(self) -> int:
        if self._num_epochs is None:
            raise TypeError(f"{type(self).__name__} goes on for ever (num_epochs=None) and has no length")
        return self._num_epochs * self._epoch_length

    def __getitem__(self, position: SupportsIndex) -> int:
        position = operator.index(position)
        end = self.end
        if position < 0 and self._num_epochs is not None:
            position += end
        if not 0 <= position < end:
            raise IndexError(f"position {position} is out of range for {self._extent()}")
        epoch, place = divmod(position, self._epoch_length)
        place = self._stripe.to_global(place)
        if place >= self._stripe.length:
            place = self._stripe.length - 1 - (place - self._stripe.length) % self._stripe.length
        return self._order_at(self._epoch + epoch, place)

    def __iter__(self) -> PositionIterator:
        """Return an iterator over the positions from `position` on, which has a state of its own."""
        return PositionIterator(self)

    @overload
    def block(self, start: int, stop: int, *, with_mask: Literal[False] = False) -> Indices: ...
    @overload
    def block(self, start: int, stop: int, *, with_mask: Literal[True]) -> tuple[Indices, Mask]: ...
    def block(self, start: int, stop: int, *, with_mask: bool = False) -> Indices | tuple[Indices, Mask]:
        """Return the indices at positions ``start <= position < stop``, across epochs if need be.

        Raises:
          IndexError: If not ``0 <= start <= stop <= len``.
        """
        start, stop = operator.index(start), operator.index(stop)
        if not 0 <= start <= stop <= self.end:
            raise IndexError(f"block({start}, {stop}) is out of range for {self._extent()}")
        if stop == start:
            indices = np.empty(0, np.int64)
            return (indices, np.empty(0, np.bool_)) if with_mask else indices
        first, last = start // self._epoch_length, (stop - 1) // self._epoch_length
        if first == last:
            begin, stripe = first * self._epoch_length, self._stripe
            along = range(stripe.to_global(start - begin), stripe.to_global(stop - begin), stripe.shard.count)
            if not with_mask and along[-1] < stripe.length:
                return self._order_along(self._epoch + first, along)
            places = np.arange(along.start, along.stop, along.step, dtype=np.int64)
            return self._take(None, self._epoch + first, places, with_mask)
        epochs, places = self.global_places(start, stop)
        return self._take(epochs, 0, places, with_mask)

    def _take(
        self, epochs: npt.NDArray[np.int64] | None, epoch: int, places: Indices, with_mask: bool
    ) -> Indices | tuple[Indices, Mask]:
        """Return the indices at global places, padding among them: of one epoch, or of `epochs` where that is an array."""
        mask = places < self._stripe.length if with_mask else None
        if self._stripe.tail == "pad" and places.max() >= self._stripe.length:
            # Padding repeats the order's last places, backwards: they are most like those that it stands beside.
            over = np.flatnonzero(places >= self._stripe.length)
            places[over] = self._stripe.length - 1 - (places[over] - self._stripe.length) % self._stripe.length
        indices = self._order(epoch, places) if epochs is None else self._order_across(epochs, places)
        return indices if mask is None else (indices, mask)

    def global_places(self, start: int, stop: int) -> tuple[npt.NDArray[np.int64], Indices]:
        """Return the epoch and the global place of the positions ``start <= position < stop``, as two int64 arrays.

        The pair names a delivery for good, whatever the number of ranks: key randomness with it. Padding has global
        places at or beyond `global_length`.
        """
        start, stop = operator.index(start), operator.index(stop)
        if not 0 <= start <= stop <= self.end:
            raise IndexError(f"global_places({start}, {stop}) is out of range for {self._extent()}")
        places = np.arange(start, stop, dtype=np.int64)
        epochs = places // max(1, self._epoch_length)  # by a scalar: a tenth of the time of divmod
        places -= epochs * self._epoch_length
        epochs += self._epoch
        if self._stripe.shard.count > 1:
            places *= self._stripe.shard.count
            places += self._stripe.shard.index
        return epochs, places

    def places_in(self, length: int) -> int:
        """Return how many positions this rank would have in an order of `length` places, padding included."""
        return self._stripe.places_in(length)

    def at_places(self, places: Indices) -> Indices:
        """Return the indices at places of the base epoch's global order, whichever rank's they are; int64, one dimension.

        Raises:
          IndexError: If a place is outside ``0 <= place < global_length``.
        """
        outside = (places < 0) | (places >= self._stripe.length)
        if outside.any():
            raise IndexError(f"place {places[outside.argmax()]} is out of range for {self._stripe.length} places")
        return self._order(self._epoch, places) if len(places) else places

    def epoch_of(self, position: int) -> int:
        """Return the epoch that a position belongs to, ``0 <= position``.

        Raises:
          IndexError: If there is no such position.
        """
        position = operator.index(position)
        if not 0 <= position < self.end:
            raise IndexError(f"position {position} is out of range for {self._extent()}")
        return self._epoch + position // self._epoch_length

    def set_epoch(self, epoch: int) -> None:
        """Make `epoch` the base epoch, so that position 0 begins it and iteration starts there.

        Raises:
          ValueError: If `epoch` is negative or beyond 2**62.
        """
        epoch = operator.index(epoch)
        if not 0 <= epoch < 1 << 62:
            raise ValueError(f"epoch is {epoch}; it must lie in 0 <= epoch < 2**62")
        self._epoch = epoch
        self._position = 0

    def with_shard(self, shard: ShardOptions) -> Self:
        """Return a sampler of the same order and base epoch for another rank or another number of ranks."""
        other = copy.copy(self)
        other._restripe(shard)
        return other

    def _restripe(self, shard: ShardOptions, length: int | None = None) -> None:
        """Share the order, of `length` places if that changes, among other ranks."""
        length = self._stripe.length if length is None else length
        self._stripe = Stripe(length, shard, self._stripe.tail, self._stripe.batch_size)
        self._epoch_length = self._stripe.places
        self._position = 0

    def state_dict(self, position: int | None = None) -> dict[str, object]:
        """Return where every rank stands after `position` positions of its own; see `load_state_dict`.

        The state is the same on all ranks that are at the same position, loads on any number of them, and is JSON of
        less than 1 kB. (With ``tail="uneven"`` the ranks part at an epoch's last position: save rank 0's.)

        Args:
          position: Up to ``len``; where iteration would begin by default.
        """
        epoch, place = self._global_place(self._position if position is None else position)
        return write_state(self.identity(), first_epoch=self._epoch, epoch=epoch, place=place)

    def _global_place(self, position: int) -> tuple[int, int]:
        """Return the epoch and the global place at which all ranks stand when each is at `position`."""
        position = operator.index(position)
        if not 0 <= position <= self.end:
            raise IndexError(f"position {position} is out of range for {self._extent()}")
        epoch, place = divmod(position, self._epoch_length) if self._epoch_length else (0, 0)
        return self._epoch + epoch, place * self._stripe.shard.count

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Take up base epoch and position from a state, so that iteration goes on there.

        Raises:
          StateError: If it is no state of this version, or of another data set, seed or order (the message says which
            differs), or if with ``tail="drop"`` or ``"pad"`` the ranks could not go on in equal steps.
        """
        first_epoch, epoch, place = read_state(self.identity(), state, self.shard, self.tail)
        self._epoch = first_epoch
        start = min(self._stripe.first_from(place), self._epoch_length)
        self._position = min((epoch - first_epoch) * self._epoch_length + start, self.end)

    def __copy__(self) -> Self:
        """Return a copy that keeps what was computed on the way; only a pickle leaves it behind."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {self.fingerprint[:8]}: {self.num_records} records, {self.global_length} places, "
            f"num_epochs={self._num_epochs}, epoch={self._epoch}, shard={self.shard}, tail={self.tail!r}>"
        )

    def _extent(self) -> str:
        if self._num_epochs is None and self._epoch_length:
            return "an endless sampler"
        return f"{self.end} positions ({self._num_epochs} x {self._epoch_length}, {self.shard})"


def check_count(name: str, value: int) -> int:
    """Return `value` as a Python integer, or raise for what is no integer or is negative."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; it must be a whole number") from None
    if number < 0:
        raise ValueError(f"{name} is {number}; it must not be negative")
    return number
