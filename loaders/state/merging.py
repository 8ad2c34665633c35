"""The states of ranks that came unequally far, joined into one that any number of ranks can load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...samplers import StateError
from .leftover import Leftover
from .place import Own, Place, compare, read_place, write_place

__all__ = ["merge_states"]

#: What a state says of the place; "sampler" is what was drawn of each source by then.
_PLACE = {"epoch", "position", "first_epoch", "levels", "begun", "ahead", "rank", "sampler"}


def merge_states(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one state in place of those that all ranks saved at the same step, for any number of ranks to load.

        states = [None] * world_size
        torch.distributed.all_gather_object(states, loader.state_dict())
        checkpoint["loader"] = arrayfeed.merge_states(states)

    Needed where a loader filters, multiplies, packs or skips records, or delivers batches out of order: ranks then come
    unequally far in an epoch, and their states differ. What is left of the epoch is what none of them has delivered. States
    that are the same on all ranks are returned as they are, so that calling this is never wrong. Merged states may be
    continued, saved and merged again.

    The merged state is JSON, and a few bytes a rank larger than one of them.

    Args:
      states: One of each rank, in any order.

    Raises:
      StateError: They are not of one stream, one is missing or there twice, or they are epochs apart: let ranks wait for each
        other at an epoch's end. Or a rank stands among the rows that ``pack`` made of a window of records.
    """
    if not states:
        raise StateError("there are no states to merge")
    places = [read_place(state) for state in states]
    for state in states[1:]:
        differences = compare(_without_place(states[0]), _without_place(state))
        if differences:
            raise StateError(f"the states are of different streams: {'; '.join(differences)}")
    owns = [place.own for place in places if place.own is not None]
    if not owns:
        if any(place != places[0] for place in places):
            raise StateError("the states are of different steps: all ranks must save at the same one")
        return dict(states[0])
    number, first = next((number, place) for number, place in enumerate(places) if place.own is not None)
    used, begun = _collect(places, replace(first, own=None), owns)
    ahead = [(own.index, start, stop) for own in sorted(owns, key=lambda own: own.index) for start, stop in own.ahead]
    merged = replace(first, own=None, leftover=(first.leftover or Leftover()).merge(used, begun, ahead))
    more = {"sampler": states[number]["sampler"]} if "sampler" in states[number] else {}
    return write_place(merged) | _without_place(states[0]) | more


def _collect(places: Sequence[Place], start: Place, owns: Sequence[Own]) -> tuple[list[int], dict[int, int]]:
    """Return how many positions each rank has used, and the outputs it has delivered of the next, where there are any."""
    count = owns[0].count
    found = sorted(own.index for own in owns)
    if any(own.count != count for own in owns) or len(set(found)) != len(found) or len(places) != count:
        raise StateError(f"one state of each of {count} ranks is needed; there are {len(places)}, of the ranks {found}")
    used, begun = [-1] * count, {}
    for own in owns:
        if own.window is not None:
            raise StateError(
                f"rank {own.index} stands among the rows that {own.window} neighbouring records were packed into, which other "
                'ranks cannot share. Load the states on as many ranks, or pack with strategy="concat"'
            )
        used[own.index] = own.position
        begun[own.index] = own.outputs
    apart = [place for place in places if replace(place, own=None) != start]
    finished = [place for place in apart if place.own is None and place.epoch == start.epoch + 1 and not place.position]
    if len(finished) != len(apart) or any(place.leftover is not None for place in finished):
        epochs = sorted({place.epoch for place in places})
        raise StateError(
            f"the states are of different steps (epochs {epochs}): all ranks must save at the same one, and wait for each "
            "other at an epoch's end"
        )
    waiting = len(places) - len(owns) - len(finished)
    if finished and waiting:
        raise StateError("one rank has ended the epoch before another has begun it; which one is not to be seen in the states")
    # A rank that has ended the epoch, or not begun it, does not say which it is; but it is one of those that are not there.
    rest = owns[0].of if finished else 0
    return [rest if own < 0 else own for own in used], begun


def _without_place(state: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key not in _PLACE}
