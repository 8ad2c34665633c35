"""Some of the features of an example, so that the others are never decoded."""

from __future__ import annotations

from collections.abc import Iterable

from .base import Feature
from .features_dict import FeaturesDict
from .sequence import Sequence

__all__ = ["select"]


def select(features: FeaturesDict, names: Iterable[str]) -> FeaturesDict:
    """Return the features called ``names``; ``"objects/bbox"`` is one of the features of ``"objects"``.

    Raises:
      ValueError: There is none of that name; lists what there is.
    """
    wanted = {names} if isinstance(names, str) else set(names)
    found: set[str] = set()
    selected = _select(features, (), wanted, found)
    if wanted - found:
        known = sorted({leaf.key for leaf in features.leaves()} | set(features))
        raise ValueError(f"no feature is called {min(wanted - found)!r}; there are {known}")
    return selected if isinstance(selected, FeaturesDict) else FeaturesDict({})


def _select(feature: Feature, path: tuple[str, ...], wanted: set[str], found: set[str]) -> Feature | None:
    key = "/".join(path)
    if path and key in wanted:
        found.add(key)
        return feature
    if isinstance(feature, FeaturesDict):
        members = {name: _select(member, (*path, name), wanted, found) for name, member in feature.items()}
        chosen = {name: member for name, member in members.items() if member is not None}
        return FeaturesDict(chosen, description=feature.description) if chosen else None
    if isinstance(feature, Sequence):
        inner = _select(feature.feature, path, wanted, found)
        return None if inner is None else feature.of(inner)
    return None
