"""What a saved state holds: a few integers that say where the stream stands, and enough to refuse another stream.

The place is a position in the *global* order, the one that all ranks stripe: rank ``r`` of ``w`` delivers positions ``r``,
``r + w``, ``r + 2w`` ... So the state is the same on all ranks, and any number of ranks can go on from it.

    global positions        0 1 2 3 4 5 6 7 8 9 10 11
    delivered by 3 ranks    0 1 2 0 1 2 . . . .  .  .      place 6
    then by 2 ranks                     0 1 0 1  0  1      rank 0 starts at its position 3, which is 6; rank 1 too, at 7

A place is counted in whole batches, so that at an uneven end the ranks still agree on it: 10 records, 3 ranks, batch 2

    global positions        0 1 2 3 4 5 6 7 8 9            after step 1 all ranks say 6, after step 2 all say 12, though
    delivered in step       1 1 1 1 1 1 2 2 2 2            rank 0 has delivered 4 records then and the others 3

and a rank whose epoch ends a step before another's says what it said last until its pass is over.

Where ranks come unequally far, because of filters, each has a state of its own, which ``merge_states`` joins: see ``Leftover``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...datasource.source import Source
from ...samplers import Sampler, ShardOptions, StateError
from ...samplers.state import count_of
from ..plan import Cursor
from .leftover import Leftover

__all__ = ["Own", "Place", "compare", "describe", "place_of", "read_place", "write_place"]

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Own:
    """Where one rank stands by itself, in positions of its own.

    Attributes:
      index, count: Which rank of how many.
      position, outputs: Its place, as in ``Cursor``.
      of: Positions that the longest rank has.
      window: Set where it stands in the middle of so many positions that were packed together.
      ahead: What it has delivered beyond its place, as in ``Cursor``.
    """

    index: int
    count: int
    position: int
    outputs: int
    of: int
    window: int | None = None
    ahead: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """Where all ranks together stand, or this one by itself.

    Attributes:
      epoch: The epoch under way.
      position: Global positions of it that were delivered; past its end once its last batches were.
      first_epoch: The epoch that the pass began with.
      leftover: What was left of the epoch when ranks that had come unequally far were merged; ``position`` is not used then.
      own: Where this rank stands in that, or in the whole epoch; None where ranks stand at its beginning together.
    """

    epoch: int
    position: int
    first_epoch: int
    leftover: Leftover | None = None
    own: Own | None = None

    def to_cursor(self, shard: ShardOptions) -> Cursor:
        """Return the first position of a rank that was not delivered."""
        if self.own is not None:
            return Cursor(self.epoch, self.own.position, self.own.outputs, self.own.ahead)
        if self.leftover is not None:
            return Cursor(self.epoch, 0)
        return Cursor(self.epoch, max(0, -(-(self.position - shard.index) // shard.count)))


def place_of(sampler: Sampler) -> Place:
    """Return where a sampler stands that was set to an epoch, or had a state loaded; the start of epoch 0 for others."""
    state = sampler.state_dict()
    return Place(count_of(state, "epoch"), count_of(state, "global_place"), count_of(state, "first_epoch"))


def describe(source: Source[Any], sampler: Sampler) -> dict[str, Any]:
    """Return what decides the stream besides the place in it, as JSON."""
    fingerprint = getattr(source, "fingerprint", None)
    return {"source": fingerprint or type(source).__name__, "num_records": len(source), "order": sampler.identity()}


def write_place(place: Place) -> dict[str, Any]:
    """Return a place as plain JSON.

    There are the same keys at any place, and lists of numbers below them: ``torch.distributed.checkpoint`` reads what the
    object that it loads into has keys for.
    """
    leftover, own = place.leftover or Leftover(place.position), place.own
    rank = (
        [] if own is None else [own.index, own.count, own.position, own.outputs, own.of, *([own.window] if own.window else [])]
    )
    return {
        "version": _VERSION,
        "epoch": place.epoch,
        "position": leftover.base,
        "first_epoch": place.first_epoch,
        "levels": [[*used] for used in leftover.levels],
        "begun": [[number, outputs] for number, outputs in sorted(leftover.begun.items())],
        # Of a level and a rank; of this rank itself, only where.
        "ahead": [[*span] for span in (*leftover.ahead, *(own.ahead if own is not None else ()))],
        "rank": rank,
    }


def read_place(state: Mapping[str, Any]) -> Place:
    """Return the place that a state tells of, as it was written.

    Raises:
      StateError: It is no state, or damaged.
    """
    if not isinstance(state, Mapping) or state.get("version") != _VERSION:
        version = state.get("version") if isinstance(state, Mapping) else None
        raise StateError(f"this is no state of a DataLoader of version {_VERSION} (its version is {version!r})")
    epoch, position, first = (count_of(state, name) for name in ("epoch", "position", "first_epoch"))
    levels, begun, own = _read_lists(state, "levels"), _read_pairs(state, "begun"), _read_own(state.get("rank", []))
    if epoch < first:
        raise StateError(f"the state is in epoch {epoch}, before its first epoch {first}")
    ahead, own_ahead = _read_ahead(state, levels, own)
    leftover = Leftover(position, levels, dict(begun), ahead) if levels or begun or (own is not None and position) else None
    return Place(epoch, position, first, leftover, own if own is None else replace(own, ahead=own_ahead))


def _read_own(rank: Any) -> Own | None:
    if rank in ([], ()):
        return None
    if not isinstance(rank, (list, tuple)) or len(rank) not in (5, 6):
        raise StateError(f"the state's 'rank' is {rank!r}; it must be a list of five or six numbers")
    index, count, position, outputs, of, *window = (count_of({"rank": number}, "rank") for number in rank)
    if not index < count:
        raise StateError(f"the state's rank is {index} of {count}; it must lie in 0 <= rank < {count}")
    return Own(index, count, position, outputs, of, window[0] if window else None)


def _read_lists(state: Mapping[str, Any], name: str) -> tuple[tuple[int, ...], ...]:
    value = state.get(name, [])
    if not isinstance(value, (list, tuple)) or not all(isinstance(each, (list, tuple)) and each for each in value):
        raise StateError(f"the state's {name!r} is {value!r}; it must be a list of lists")
    return tuple(tuple(count_of({name: number}, name) for number in each) for each in value)


def _read_ahead(
    state: Mapping[str, Any], levels: tuple[tuple[int, ...], ...], own: Own | None
) -> tuple[tuple[tuple[int, int, int, int], ...], tuple[tuple[int, int], ...]]:
    """Return what was used ahead of a level's ranks, and of this rank."""
    spans = _read_lists(state, "ahead")
    reached: dict[tuple[int, ...], int] = {
        (level, rank): used for level, ranks in enumerate(levels) for rank, used in enumerate(ranks)
    }
    if own is not None:
        reached[()] = own.position
    for *whose, start, stop in spans if all(len(span) in (2, 4) for span in spans) else [(0, 0)]:
        # Each behind the one before it, and something between.
        if not reached.get(tuple(whose), stop) < start < stop:
            raise StateError(
                f"the state's 'ahead' is {state['ahead']!r}; it must be spans in ascending order, of ranks that are there"
            )
        reached[tuple(whose)] = stop
    of_levels = tuple((span[0], span[1], span[2], span[3]) for span in spans if len(span) == 4)
    return of_levels, tuple((span[0], span[1]) for span in spans if len(span) == 2)


def _read_pairs(state: Mapping[str, Any], name: str) -> list[tuple[int, int]]:
    pairs = _read_lists(state, name)
    if not all(len(pair) == 2 for pair in pairs):
        raise StateError(f"the state's {name!r} is {state[name]!r}; it must be a list of pairs")
    return [(pair[0], pair[1]) for pair in pairs]


def compare(saved: Any, here: Any, name: str = "") -> list[str]:
    """Return what differs between two JSON values, in words."""
    if isinstance(saved, Mapping) and isinstance(here, Mapping):
        keys = {**here, **saved}
        return [text for key in keys for text in compare(saved.get(key), here.get(key), key)]
    return [] if saved == here else [f"{name.replace('_', ' ')} was {saved!r}, here it is {here!r}"]
