"""Whether a saved state fits a loader, and the sampler set up as it was."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from ...datasource.source import Source
from ...samplers import Sampler, ShardOptions, StateError
from ...samplers.state import STATE_VERSION
from .place import Place, compare, describe, place_of, read_place, write_place

__all__ = ["read_state", "write_state"]

#: What every sampler's state has; a sampler that adds more needs it to go on.
_COMMON = {"version", "sampler", "first_epoch", "epoch", "global_place"}


def write_state(place: Place, source: Source[Any], sampler: Sampler, seed: int | str | None) -> dict[str, Any]:
    """Return a state, plain JSON.

    Args:
      seed: What transforms draw their random numbers from; None where none does.
    """
    state = write_place(place) | describe(source, sampler) | {"seed": seed}
    more = _more_of(sampler, place)
    return state | {"sampler": more} if more else state


def read_state(
    state: Mapping[str, Any], source: Source[Any], sampler: Sampler, seed: int | str | None
) -> tuple[Place, Sampler | None]:
    """Return the place that ``state`` tells of, and the sampler as it was there, if that is not how ``sampler`` is now.

    Raises:
      StateError: It was saved by another version, or over another data set, order or seed; says which.
    """
    place = read_place(state)
    here = describe(source, sampler)
    saved = {key: state.get(key) for key in here}
    if seed is not None and state.get("seed") is not None:
        here, saved = {**here, "seed": seed}, {**saved, "seed": state["seed"]}
    differences = compare(saved, here)
    if not differences:
        return place, None
    others = compare({**saved, "order": None}, {**here, "order": None})
    resumed = None if others else _resume(state, sampler, place)
    if resumed is None:
        raise StateError(
            f"this state was saved over another stream: {'; '.join(differences)}. Open the same files in the same order with "
            "the same seed, or start a new epoch"
        )
    if resumed.identity() == state["order"]:
        return place, resumed
    # Another mixture of the same sources: it begins an epoch.
    return place_of(resumed), resumed


def _resume(state: Mapping[str, Any], sampler: Sampler, place: Place) -> Sampler | None:
    """Return a copy of a sampler that has taken up what a state says of it; None if it cannot."""
    more = state.get("sampler")
    inner = {
        "version": STATE_VERSION,
        "sampler": state.get("order"),
        "first_epoch": place.first_epoch,
        "epoch": place.epoch,
        "global_place": place.position,
        **(more if isinstance(more, Mapping) else {}),
    }
    resumed = copy.copy(sampler)
    try:
        resumed.load_state_dict(inner)
    except StateError:
        return None
    if resumed.identity() != state.get("order") and (place.own is not None or place.leftover is not None):
        return None  # in the middle of an epoch, no one number tells how much was drawn of each source
    return resumed


def _more_of(sampler: Sampler, place: Place) -> dict[str, Any]:
    """Return what a sampler's own state at a place has on top of place and order."""
    if sampler.state_dict().keys() <= _COMMON:
        return {}
    there = copy.copy(sampler)
    there.set_epoch(place.epoch)
    position = place.position if place.leftover is None and place.own is None else 0
    if position % there.shard.count and position < there.global_length:
        # Other ranks came there; the order is laid out for theirs, so that one rank sees the same.
        there = there.with_shard(ShardOptions())
    state = there.state_dict(min(position // there.shard.count, there.epoch_length))
    return {key: value for key, value in state.items() if key not in _COMMON}
