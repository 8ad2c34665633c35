"""What a saved sampler holds, and how one that does not fit is refused."""

import hashlib
import json
from collections.abc import Mapping
from typing import Final

from .errors import StateError
from .shard import ShardOptions

__all__ = ["STATE_VERSION", "check_same", "count_of", "fingerprint", "read_state", "sampler_of", "write_state"]

STATE_VERSION: Final = 1


def fingerprint(identity: Mapping[str, object]) -> str:
    """Return a hash of an identity, 32 hexadecimal digits."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:32]


def write_state(identity: Mapping[str, object], *, first_epoch: int, epoch: int, place: int) -> dict[str, object]:
    """Return the state of samplers that began in `first_epoch` and stand at a global place of `epoch`."""
    return {
        "version": STATE_VERSION,
        "sampler": dict(identity),
        "first_epoch": first_epoch,
        "epoch": epoch,
        "global_place": place,
    }


def sampler_of(state: Mapping[str, object]) -> Mapping[str, object]:
    """Return the identity of the sampler that a state was saved from.

    Raises:
      StateError: If it is no state of this version.
    """
    if not isinstance(state, Mapping):
        raise StateError(f"a sampler's state is a dict; this is {type(state).__name__}")
    if state.get("version") != STATE_VERSION:
        raise StateError(
            f"the state has version {state.get('version')!r}; this release reads version {STATE_VERSION}. "
            "Use the release that wrote it, or start a new epoch"
        )
    saved = state.get("sampler")
    if not isinstance(saved, Mapping):
        raise StateError("the state has no 'sampler'; it was not written by a sampler's state_dict()")
    return saved


def read_state(
    identity: Mapping[str, object], state: Mapping[str, object], shard: ShardOptions, tail: str
) -> tuple[int, int, int]:
    """Return first epoch, epoch and global place of a state that fits `identity`.

    Raises:
      StateError: If it does not fit, or is no state.
    """
    check_same(sampler_of(state), identity)
    first_epoch, epoch, place = (count_of(state, name) for name in ("first_epoch", "epoch", "global_place"))
    if epoch < first_epoch:
        raise StateError(f"the state is in epoch {epoch}, before its first epoch {first_epoch}")
    if tail != "uneven" and place % shard.count:
        raise StateError(
            f"the state stands at global place {place}, which {shard.count} ranks do not reach in equal steps, as "
            f"tail={tail!r} promises; use tail='uneven' for this epoch, or a number of ranks that divides it"
        )
    return first_epoch, epoch, place


def check_same(saved: Mapping[str, object], present: Mapping[str, object]) -> None:
    """Raise StateError if two identities differ, telling how."""
    names = [*present, *(name for name in saved if name not in present)]
    differences = [
        f"{name} was {saved.get(name)!r}, here it is {present.get(name)!r}"
        for name in names
        if saved.get(name) != present.get(name)
    ]
    if differences:
        raise StateError(
            f"the state belongs to another order: {'; '.join(differences)}. Build the sampler as it was, or start a new epoch"
        )


def count_of(state: Mapping[str, object], name: str) -> int:
    """Return a whole number from a state, ``0 <= number < 2**62``.

    Raises:
      StateError: If there is no such number.
    """
    value = state.get(name)
    if type(value) is not int or not 0 <= value < 1 << 62:
        raise StateError(f"the state's {name!r} is {value!r}; it must be a whole number, 0 <= {name} < 2**62")
    return value
