"""Sequences of a feature, or of a dict of features."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

import numpy as np

from ..errors import SchemaError
from .base import Feature, Json, named
from .features_dict import FeatureLike, FeaturesDict, as_feature
from .leaf import Leaf
from .leaf_feature import LeafFeature
from .shapes import Shape

__all__ = ["Sequence"]


class Sequence(Feature):
    """Any number of one feature, one after the other.

    A sequence of dicts may be given as a list of dicts or as a dict of lists; it is decoded to a dict of lists.

        Sequence(np.int64)                      [np.int64(3), np.int64(1)]
        Sequence({"box": BBoxFeature()})        {"box": [array([...]), array([...])]}
        Sequence(Sequence(np.int64))            [array([3, 1]), array([])]

    The inner feature's members and attributes are reached through the sequence: ``features["objects"]["label"].names``.

    Args:
      feature: Of each element; a dtype stands for a scalar, a dict for a ``FeaturesDict``.
      length: How many elements there always are; ``None`` where examples differ.
    """

    json_class = "sequence_feature.Sequence"
    content_key = "sequence"

    def __init__(
        self, feature: FeatureLike, length: int | None = None, *, description: str = "", value_range: str = ""
    ) -> None:
        super().__init__(description=description, value_range=value_range)
        if length is not None and length < 0:
            raise SchemaError(f"a sequence has 0 or more elements, got length {length}")
        self.feature = as_feature(feature)
        self.length = length

    def __getitem__(self, name: str) -> Feature:
        found: Feature = self.feature[name]  # type: ignore[index]  # for those that have members
        return found

    def __contains__(self, name: object) -> bool:
        return name in self.feature  # type: ignore[operator]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "feature":  # Not there yet, while unpickling.
            raise AttributeError(name)
        return getattr(self.feature, name)

    @property
    def shape(self) -> Any:
        return _prepend(self.length, self.feature.shape)

    @property
    def dtype(self) -> Any:
        return self.feature.dtype

    # -- structure ------------------------------------------------------------------------------------------------

    def walk(self, path: tuple[str, ...] = (), lengths: Shape = ()) -> Iterator[Leaf]:
        return self.feature.walk(path, (*lengths, self.length))

    def nest(self, values: Iterator[Any]) -> Any:
        return self.feature.nest(values)

    def map_leaves(self, change: Callable[[LeafFeature, tuple[str, ...]], LeafFeature], path: tuple[str, ...] = ()) -> Feature:
        changed = self.feature.map_leaves(change, path)
        return self if changed is self.feature else self.of(changed)

    def of(self, feature: Feature) -> Feature:
        """Return the same sequence of another feature."""
        return Sequence(feature, self.length, description=self.description, value_range=self.value_range)

    def collect(self, value: Any, path: tuple[str, ...]) -> list[Any]:
        elements = self._elements(value, path)
        if self.length is not None and len(elements) != self.length:
            raise named(SchemaError(f"a sequence of {self.length} elements expected, got {len(elements)}"), path)
        if isinstance(self.feature, LeafFeature):
            return [elements]
        collected = [self.feature.collect(element, path) for element in elements]
        if not collected:
            return [[] for _ in self.feature.walk()]
        return [list(column) for column in zip(*collected, strict=True)]

    def _elements(self, value: Any, path: tuple[str, ...]) -> Any:
        """Return the elements of ``value`` as a list or an array; a dict of lists becomes a list of dicts."""
        if isinstance(value, Mapping):
            if isinstance(self.feature, LeafFeature):
                raise named(SchemaError(f"a list expected, got a dict with the keys {sorted(value)}"), path)
            return _transpose(value, path)
        if isinstance(value, (str, bytes)) or not (hasattr(value, "__len__") and hasattr(value, "__getitem__")):
            raise named(SchemaError(f"a list expected, got {type(value).__name__}"), path)
        if isinstance(value, np.ndarray) and value.ndim == 0:
            raise named(SchemaError("a list expected, got an array of shape ()"), path)
        return value

    # -- description ----------------------------------------------------------------------------------------------

    def to_content(self) -> Json:
        content: Json = {"feature": self.feature.to_json()}
        if self.length != 0:  # The default of protocol-buffer JSON is left out.
            content["length"] = str(-1 if self.length is None else self.length)
        return content

    @classmethod
    def from_content(cls, content: Json) -> Self:
        return cls(content["feature"], content["length"])

    def _identity(self) -> Any:
        return self.feature, self.length

    def __repr__(self) -> str:
        inner = self.feature.short_repr()
        if type(self.feature) is FeaturesDict:
            inner = inner.removeprefix("FeaturesDict(").removesuffix(")")
        return f"{type(self).__name__}({inner})"


def _prepend(length: int | None, shape: Any) -> Any:
    if isinstance(shape, dict):
        return {name: _prepend(length, inner) for name, inner in shape.items()}
    return (length, *shape)


def _transpose(columns: Mapping[str, Any], path: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return a dict of lists (or of dicts of lists) as a list of dicts."""
    lists = {name: _transpose(c, (*path, name)) if isinstance(c, Mapping) else c for name, c in columns.items()}
    for name, column in lists.items():
        if not hasattr(column, "__len__") or isinstance(column, (str, bytes)):
            raise named(SchemaError(f"a list expected, got {type(column).__name__}"), (*path, name))
    lengths = {name: len(column) for name, column in lists.items()}
    if len(set(lengths.values())) > 1:
        raise named(SchemaError(f"the lists of one sequence must be equally long, got {lengths}"), path)
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
