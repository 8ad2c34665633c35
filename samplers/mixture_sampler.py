"""Several sources in given proportions, exact at every prefix."""

import copy
import hashlib
import operator
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final, Self

import numpy as np

from .apportion import whole_weights
from .base import OrderedSampler
from .errors import StateError
from .index_sampler import IndexSampler
from .keys import root_words
from .lanes import LanedSampler
from .protocol import Indices
from .schedule import Schedule, Stop
from .shard import ShardOptions
from .state import check_same, count_of, sampler_of
from .stripe import Tail

__all__ = ["MixtureSampler"]

# What the arguments mean, besides the orders of the sources; the next number for a change of any index at any place.
_VERSION: Final = 1
# Beyond this many sources, identities hold digests in place of lists, so that states stay small.
_LISTED: Final = 16


class MixtureSampler(LanedSampler):
    """Draws from several sources in turn, in proportion to their weights, each source in an order of its own.

    Sources stand one behind the other: index ``i`` of source ``s`` is ``offsets[s] + i``, as in their concatenation.
    The turns are apportioned, not drawn by lot: after any number of positions each source has had its share to within
    `drift`, which is about one record. With whole weights that sum to the batch size (``weights=[22, 6, 4]`` for
    batches of 32) every batch has exactly these quotas.

    On several ranks this holds on each of them: a turn gives one source to all ranks at once (`lanes`). So the order
    depends on the number of ranks; give `lanes` yourself to fix one order for any number of them.

    Each source is one stream through all its own epochs: a mixture's epoch only says where to stop and count (see
    `Schedule` for `stop`), and the next one goes on where it ended. No source repeats a record before all its others
    came.

    **New weights mid-run**: load the state into a sampler with other weights, `stop` or `lanes`, or call
    `with_weights`. A new epoch begins there, and each source goes on with the record after its last.

    Memory: that of the sources. A block takes 0.1 us a position, the sources' own 20 ns included, and 15 ns more for each
    doubling of the sources. See `Sampler` for positions and threads.

    Args:
      sources: For each, its number of records, or a sampler of this library that gives its order, from epoch 0 on.
      weights: Positive numbers of any sum; by default such that all sources end together.
      shuffle: Whether the sources given as numbers are shuffled.
      seed: Decides their orders; any integer.
      stop: When an epoch ends: "all" (every record came once), "shortest" or "longest".
      lanes: For how many ranks the turns are laid out; by default as many as there are.
      num_epochs, shard, tail, batch_size: As for `IndexSampler`.

    Raises:
      ValueError: If a source is empty or a weight not positive.
    """

    def __init__(
        self,
        sources: Sequence[int | OrderedSampler],
        weights: Sequence[float | Fraction] | None = None,
        *,
        shuffle: bool = False,
        seed: int = 0,
        stop: Stop = "all",
        lanes: int | None = None,
        num_epochs: int | None = 1,
        shard: ShardOptions | None = None,
        tail: Tail = "uneven",
        batch_size: int | None = None,
    ) -> None:
        seed = operator.index(seed)
        self._sources = [_as_sampler(place, source, shuffle, seed) for place, source in enumerate(sources)]
        self._weights = None if weights is None else whole_weights(weights)
        if not self._sources:
            raise ValueError("a mixture needs at least one source")
        if self._weights is not None and len(self._weights) != len(self._sources):
            raise ValueError(f"there are {len(self._sources)} sources but {len(self._weights)} weights")
        self._lengths = [source.global_length for source in self._sources]
        self._offsets = np.cumsum([0, *(source.num_records for source in self._sources)])
        self._stop: Stop = stop
        # Where the present weights took over: what had been drawn of each source when that epoch began.
        self._origin = (0, [0] * len(self._sources))
        super().__init__(lanes=lanes, num_epochs=num_epochs, shard=shard, tail=tail, batch_size=batch_size)

    @property
    def num_records(self) -> int:
        """Records of all sources together; every index is below it."""
        return int(self._offsets[-1])

    @property
    def offsets(self) -> list[int]:
        """The index at which each source begins."""
        return [int(offset) for offset in self._offsets[:-1]]

    @property
    def weights(self) -> tuple[int, ...]:
        """The weights as the smallest whole numbers: so many has each source in ``sum(weights)`` turns."""
        return self._schedule.weights

    @property
    def drift(self) -> float:
        """By how many records a source's count on one rank differs at most from its share, until one has ended."""
        return self._schedule.drift

    def draws(self, position: int) -> list[int]:
        """Return how many records of each source all ranks together have drawn, once each is at `position`."""
        epoch, place = self._global_place(position)
        return self._draws_at(epoch, place)

    def with_weights(self, weights: Sequence[float | Fraction] | None, *, position: int) -> Self:
        """Return a sampler that goes on from `position` with other weights: no record of any source lost or repeated.

        Its base epoch is the one after that of `position`, or the same if it was about to begin.
        """
        other = copy.copy(self)
        other._weights = None if weights is None else whole_weights(weights)
        if other._weights is not None and len(other._weights) != len(self._sources):
            raise ValueError(f"there are {len(self._sources)} sources but {len(other._weights)} weights")
        epoch, place = self._global_place(position)
        other._begin(epoch + (place > 0), self._draws_at(epoch, place))
        return other

    def set_epoch(self, epoch: int) -> None:
        """Make `epoch` the base epoch, so that position 0 begins it and iteration starts there.

        Raises:
          ValueError: If it is negative, or lies before the epoch in which the present weights took over.
        """
        if epoch < self._origin[0]:
            raise ValueError(f"epoch is {epoch}; the present weights took over in epoch {self._origin[0]}")
        super().set_epoch(epoch)

    def identity(self) -> dict[str, object]:
        """Return, ready for JSON, all that decides the global order."""
        epoch, draws = self._origin
        origin = {"origin_epoch": epoch, "origin_draws": _listed(draws)} if any(draws) else {}
        return {
            "kind": "mixture",
            "version": _VERSION,
            "sources": _listed([source.fingerprint[:8] for source in self._sources]),
            "weights": _listed(self.weights),
            "stop": self._stop,
            "lanes": self.lanes,
            **origin,
        }

    def state_dict(self, position: int | None = None) -> dict[str, object]:
        """Return where every rank stands after `position` positions, and how much of each source was drawn by then.

        See `OrderedSampler.state_dict`. Under 1 kB for up to 16 sources, and up to 40 bytes for each more.
        """
        position = self._position if position is None else operator.index(position)
        state = super().state_dict(position)
        origin_epoch, origin_draws = self._origin
        return state | {"draws": self.draws(position), "origin_epoch": origin_epoch, "origin_draws": list(origin_draws)}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Go on where a state says; with other weights, `stop` or `lanes` than it was saved with, in a new epoch.

        Where `lanes` was left to the number of ranks, the state's is taken over, so that the order goes on unchanged.

        Raises:
          StateError: If it is no state of this version, or of other sources (the message says which differs).
        """
        saved = sampler_of(state)
        present = self.identity()
        for name in ("kind", "version", "sources"):
            check_same({name: saved.get(name)}, {name: present[name]})
        other = self._with_lanes_of(state)
        first, origin = count_of(state, "first_epoch"), count_of(state, "origin_epoch")
        if first < origin:
            raise StateError(f"the state begins in epoch {first}, before its weights took over in epoch {origin}")
        other._begin(origin, self._draws_of(state, "origin_draws"))
        present = other.identity()
        if all(saved.get(name) == present[name] for name in ("weights", "stop", "lanes")):
            OrderedSampler.load_state_dict(other, state)
        else:
            epoch, place = count_of(state, "epoch"), count_of(state, "global_place")
            other = copy.copy(self)
            other._begin(epoch + (place > 0), self._draws_of(state, "draws"))
        self.__dict__.update(other.__dict__)

    def _order(self, epoch: int, places: Indices) -> Indices:
        sources, draws = self._schedule.split(places)
        indices = np.empty_like(places)
        before = self._draws_at(epoch, 0)
        for number, source in enumerate(self._sources):
            chosen = np.flatnonzero(sources == number)
            if not len(chosen):
                continue
            length = self._lengths[number]
            first, rest = divmod(before[number], length)
            first %= 1 << 62  # epochs are int64
            total = draws[chosen] + rest
            passes = total // length
            total -= passes * length
            indices[chosen] = source._order_across(passes + first, total)
            indices[chosen] += self._offsets[number]
        return indices

    def _lay_out(self, lanes: int) -> int:
        self._schedule = Schedule(self._weights, self._lengths, self._stop, lanes)
        self._epoch_draws = self._schedule.counts(self._schedule.length).tolist()
        return self._schedule.length

    def _begin(self, epoch: int, draws: list[int]) -> None:
        """Let the present weights take over in an epoch, with so much of each source drawn before."""
        self._origin = (epoch, draws)
        self._restripe(self.shard)
        self._epoch = epoch

    def _draws_at(self, epoch: int, place: int) -> list[int]:
        origin, drawn = self._origin
        here = self._schedule.counts(min(place, self._schedule.length)).tolist()
        return [base + (epoch - origin) * each + now for base, each, now in zip(drawn, self._epoch_draws, here, strict=True)]

    def _draws_of(self, state: Mapping[str, object], name: str) -> list[int]:
        draws = state.get(name)
        if not isinstance(draws, list) or not all(type(draw) is int and 0 <= draw < 1 << 62 for draw in draws):
            raise StateError(f"the state's {name!r} is {draws!r}; it must list how much was drawn of each source")
        if len(draws) != len(self._sources):
            raise StateError(f"the state has {len(draws)} sources, this mixture has {len(self._sources)}")
        return list(draws)


def _as_sampler(place: int, source: int | OrderedSampler, shuffle: bool, seed: int) -> OrderedSampler:
    """Return a source as a sampler; one given as a number has an order that no other source of that length shares."""
    if not isinstance(source, OrderedSampler):
        first, second, *_ = root_words(seed, f"arrayfeed.mixture.{place}")
        source = IndexSampler(source, shuffle=shuffle, seed=first << 64 | second)
    source = copy.copy(source)  # the user's own may go on to other epochs
    if source.shard.count != 1:
        raise ValueError(f"source {place} is sharded ({source.shard}); shard the mixture instead")
    if not source.global_length:
        raise ValueError(f"source {place} is empty; leave it out")
    return source


def _listed(values: Sequence[object]) -> list[object] | str:
    """Return values as a list, or a digest of them where there are many."""
    if len(values) <= _LISTED:
        return list(values)
    return f"{len(values)} values, sha256:{hashlib.sha256(repr(list(values)).encode()).hexdigest()[:32]}"
