"""Batches as Keras wants them: inputs, targets and sample weights, picked from a batch that is a dict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["Keys", "Supervised"]

#: One field, or several: these come as a dict.
Keys: TypeAlias = str | Sequence[str]


@dataclass(frozen=True, slots=True)
class Supervised:
    """Turns a dict into ``(x,)``, ``(x, y)`` or ``(x, y, sample_weight)``; without any keys, leaves a batch as it is.

    Attributes:
      x, y, sample_weight: Keys of the batch; a list of keys gives a dict of these fields.
    """

    x: Keys | None = None
    y: Keys | None = None
    sample_weight: Keys | None = None

    def __post_init__(self) -> None:
        if self.x is None and (self.y is not None or self.sample_weight is not None):
            raise ValueError("y or sample_weight is given without x: name the fields of the inputs, too")
        if self.y is None and self.sample_weight is not None:
            raise ValueError("sample_weight is given without y: name the fields of the targets, too")

    def pick(self, batch: Any) -> Any:
        """Return what a model is fed with."""
        if self.x is None:
            return batch
        if not isinstance(batch, Mapping):
            raise TypeError(f"x={self.x!r} names a field of a dict; batches are no dicts, but {type(batch).__name__}")
        keys = [key for key in (self.x, self.y, self.sample_weight) if key is not None]
        return tuple(batch[key] if isinstance(key, str) else {name: batch[name] for name in key} for key in keys)
