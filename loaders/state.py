"""What a saved state holds: a few integers that say where the stream stands, and enough to refuse another stream.

The place is a position in the *global* order, the one that all ranks stripe: rank ``r`` of ``w`` delivers positions ``r``,
``r + w``, ``r + 2w`` ... So the state is the same on all ranks, and any number of ranks can go on from it.

    global positions        0 1 2 3 4 5 6 7 8 9 10 11
    delivered by 3 ranks    0 1 2 0 1 2 . . . .  .  .      anchor 6
    then by 2 ranks                     0 1 0 1  0  1      rank 0 starts at its position 3, which is 6; rank 1 too, at 7
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..datasource.source import Source
from ..samplers import Sampler, StateError
from .plan import Cursor

__all__ = ["Place", "describe", "read_state", "write_state"]

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Place:
    """Where all ranks together stand.

    Attributes:
      epoch: The epoch under way.
      position: Global positions of it that were delivered.
      first_epoch: The epoch that the pass began with.
    """

    epoch: int
    position: int
    first_epoch: int

    def to_cursor(self, rank: int, world_size: int) -> Cursor:
        """Return the first position of a rank that was not delivered."""
        return Cursor(self.epoch, max(0, -(-(self.position - rank) // world_size)))

    def advance(self, cursor: Cursor, rank: int, world_size: int) -> Place:
        """Return the place once a rank that started here has come to ``cursor``, as all the others have by then."""
        if cursor.epoch != self.epoch:
            return Place(cursor.epoch, cursor.position * world_size, self.first_epoch)
        steps = cursor.position - self.to_cursor(rank, world_size).position
        return Place(self.epoch, self.position + steps * world_size, self.first_epoch)


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
      StateError: It was saved by another version, or over another data set or order; names what differs.
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
    numbers = {key: state.get(key) for key in ("epoch", "position", "first_epoch")}
    good = {key: number for key, number in numbers.items() if type(number) is int and number >= 0}
    if good != numbers:
        raise StateError(f"epoch, position and first_epoch must be integers >= 0, the state has {numbers}")
    return Place(**good)


def _compare(saved: Any, here: Any, name: str = "") -> list[str]:
    """Return what differs between two JSON values, in words."""
    if isinstance(saved, Mapping) and isinstance(here, Mapping):
        keys = {**here, **saved}
        return [text for key in keys for text in _compare(saved.get(key), here.get(key), key)]
    return [] if saved == here else [f"{name.replace('_', ' ')} was {saved!r}, here it is {here!r}"]
