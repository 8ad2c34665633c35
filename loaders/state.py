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
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..datasource.source import Source
from ..samplers import Sampler, ShardOptions, StateError
from ..samplers.state import count_of
from .plan import Cursor

__all__ = ["Place", "describe", "place_of", "read_state", "write_state"]

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Place:
    """Where all ranks together stand.

    Attributes:
      epoch: The epoch under way.
      position: Global positions of it that were delivered; past its end once its last batches were.
      first_epoch: The epoch that the pass began with.
    """

    epoch: int
    position: int
    first_epoch: int

    def to_cursor(self, shard: ShardOptions) -> Cursor:
        """Return the first position of a rank that was not delivered."""
        return Cursor(self.epoch, max(0, -(-(self.position - shard.index) // shard.count)))

    def advance(self, cursor: Cursor, shard: ShardOptions, batch_size: int) -> Place:
        """Return the place once a rank that started here has come to ``cursor``, and all others have made as many steps."""
        start, delivered = (self.to_cursor(shard).position, self.position) if cursor.epoch == self.epoch else (0, 0)
        steps = -(-(cursor.position - start) // batch_size)
        return Place(cursor.epoch, delivered + steps * batch_size * shard.count, self.first_epoch)


def place_of(sampler: Sampler) -> Place:
    """Return where a sampler stands that was set to an epoch, or had a state loaded; the start of epoch 0 for others."""
    state = sampler.state_dict()
    return Place(count_of(state, "epoch"), count_of(state, "global_place"), count_of(state, "first_epoch"))


def describe(source: Source[Any], sampler: Sampler) -> dict[str, Any]:
    """Return what decides the stream besides the place in it, as JSON."""
    fingerprint = getattr(source, "fingerprint", None)
    return {"source": fingerprint or type(source).__name__, "num_records": len(source), "order": sampler.identity()}


def write_state(place: Place, source: Source[Any], sampler: Sampler) -> dict[str, Any]:
    """Return a state, plain JSON."""
    where = {"epoch": place.epoch, "position": place.position, "first_epoch": place.first_epoch}
    return {"version": _VERSION, **where, **describe(source, sampler)}


def read_state(state: Mapping[str, Any], source: Source[Any], sampler: Sampler) -> Place:
    """Return the place that ``state`` tells of.

    Raises:
      StateError: It was saved by another version, or over another data set or order, says which; or the ranks of
        ``sampler``, which are to make equal steps, could not do so from there.
    """
    if not isinstance(state, Mapping) or state.get("version") != _VERSION:
        version = state.get("version") if isinstance(state, Mapping) else None
        raise StateError(f"this is no state of a DataLoader of version {_VERSION} (its version is {version!r})")
    saved = {key: state.get(key) for key in ("source", "num_records", "order")}
    differences = _compare(saved, describe(source, sampler))
    if differences:
        raise StateError(
            f"this state was saved over another stream: {'; '.join(differences)}. Open the same files in the same order with "
            "the same seed, or start a new epoch"
        )
    place = Place(count_of(state, "epoch"), count_of(state, "position"), count_of(state, "first_epoch"))
    if place.epoch < place.first_epoch:
        raise StateError(f"the state is in epoch {place.epoch}, before its first epoch {place.first_epoch}")
    tail = getattr(sampler, "tail", "uneven")
    left = place.position < sampler.epoch_length * sampler.shard.count
    if tail != "uneven" and left and place.position % sampler.shard.count:
        raise StateError(
            f"the state stands at position {place.position} of all ranks, which {sampler.shard.count} ranks do not reach in "
            f"equal steps, as tail={tail!r} promises; use tail='uneven' for this epoch, or a number of ranks that divides it"
        )
    return place


def _compare(saved: Any, here: Any, name: str = "") -> list[str]:
    """Return what differs between two JSON values, in words."""
    if isinstance(saved, Mapping) and isinstance(here, Mapping):
        keys = {**here, **saved}
        return [text for key in keys for text in _compare(saved.get(key), here.get(key), key)]
    return [] if saved == here else [f"{name.replace('_', ' ')} was {saved!r}, here it is {here!r}"]
