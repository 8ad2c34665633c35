"""A dict of features: what a whole example is."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, Self, TypeAlias, cast

import numpy.typing as npt

from ..errors import SchemaError
from ..example.wire import WireValues
from .base import Feature, Json, named
from .dtypes import as_dtype
from .leaf import Leaf
from .leaf_feature import LeafFeature
from .shapes import Shape
from .tensor import Tensor

__all__ = ["FeatureLike", "FeaturesDict", "as_feature"]

# What may stand for a feature: a dtype for a scalar of it, a mapping for a FeaturesDict.
FeatureLike: TypeAlias = Feature | npt.DTypeLike | Mapping[str, "FeatureLike"]


def as_feature(feature: FeatureLike) -> Feature:
    """Return the feature that ``feature`` stands for.

    Raises:
      SchemaError: It stands for none.
    """
    if isinstance(feature, Feature):
        return feature
    if isinstance(feature, Mapping):
        return FeaturesDict(cast(Mapping[str, FeatureLike], feature))
    if isinstance(feature, type) and issubclass(feature, Feature):
        raise SchemaError(f"{feature.__name__} is the class, not a feature; write {feature.__name__}(...)")
    if feature is None:
        raise SchemaError("a feature expected, got None")
    return Tensor(shape=(), dtype=as_dtype(feature))


class FeaturesDict(Feature):
    """Named features; examples are dicts with the same keys.

        features = FeaturesDict({"image": Image(shape=(28, 28, 1)), "label": ClassLabel(10), "size": {"w": np.int32}})
        features["label"].num_classes, features.keys(), len(features), "image" in features

    Decoded dicts have their keys sorted, at every level.

    Args:
      features: By name. A dtype stands for a scalar, a dict for a ``FeaturesDict``.
    """

    json_class = "features_dict.FeaturesDict"
    content_key = "featuresDict"

    def __init__(self, features: Mapping[str, FeatureLike], *, description: str = "", value_range: str = "") -> None:
        super().__init__(description=description, value_range=value_range)
        self._features: dict[str, Feature] = {}
        for name, feature in features.items():
            if not isinstance(name, str):
                raise SchemaError(f"names of features are str, got {name!r}")
            try:
                self._features[name] = as_feature(feature)
            except SchemaError as error:
                raise named(error, (name,)) from None
        self._sorted = sorted(self._features.items())
        self._leaves: list[Leaf] | None = None
        # By name, if no feature is a dict or sequence of its own: then nothing needs to be nested.
        self._readers: list[tuple[str, Callable[[Mapping[str, WireValues]], Any]]] = []

    def __getitem__(self, name: str) -> Feature:
        return self._features[name]

    def __contains__(self, name: object) -> bool:
        return name in self._features

    def __iter__(self) -> Iterator[str]:
        return iter(self._features)

    def __len__(self) -> int:
        return len(self._features)

    def keys(self) -> KeysView[str]:
        return self._features.keys()

    def values(self) -> ValuesView[Feature]:
        return self._features.values()

    def items(self) -> ItemsView[str, Feature]:
        return self._features.items()

    @property
    def shape(self) -> dict[str, Any]:
        return {name: feature.shape for name, feature in self._features.items()}

    @property
    def dtype(self) -> dict[str, Any]:
        return {name: feature.dtype for name, feature in self._features.items()}

    # -- whole examples -------------------------------------------------------------------------------------------

    def leaves(self) -> list[Leaf]:
        """Return every value of an example that is decoded by itself, in the order of sorted keys.

        Raises:
          SchemaError: Two of them would be stored under one key.
        """
        if self._leaves is None:
            leaves = list(self.walk())
            owners: dict[str, Leaf] = {}
            for leaf in leaves:
                for key in leaf.keys:
                    if key in owners:
                        raise SchemaError(f"features {owners[key].path} and {leaf.path} share the stored key {key!r}")
                    owners[key] = leaf
            self._leaves = leaves
            if all(isinstance(feature, LeafFeature) for feature in self._features.values()):
                self._readers = [(leaf.path[0], leaf.read) for leaf in leaves]
        return self._leaves

    def encode_example(self, example: Mapping[str, Any]) -> dict[str, WireValues]:
        """Return ``example`` as the lists of a record, by key; see ``serialize_example``.

        Features that are optional may be missing or ``None``.

        Raises:
          SchemaError: A feature is missing or unknown, or a value does not fit; names the feature, what was expected,
            what came.
        """
        wire: dict[str, WireValues] = {}
        for leaf, value in zip(self.leaves(), self.collect(example, ()), strict=True):
            leaf.write(value, wire)
        return wire

    def decode_example(self, wire: Mapping[str, WireValues]) -> dict[str, Any]:
        """Return the example that the lists of a record hold; unknown keys are ignored.

        Raises:
          DecodeError: A value is missing or not as promised; names the feature.
        """
        if self._readers:
            return {name: read(wire) for name, read in self._readers}
        return self.nest(iter([leaf.read(wire) for leaf in self.leaves()]))

    # -- structure ------------------------------------------------------------------------------------------------

    def walk(self, path: tuple[str, ...] = (), lengths: Shape = ()) -> Iterator[Leaf]:
        for name, feature in self._sorted:
            yield from feature.walk((*path, name), lengths)

    def nest(self, values: Iterator[Any]) -> dict[str, Any]:
        return {name: feature.nest(values) for name, feature in self._sorted}

    def collect(self, value: Any, path: tuple[str, ...]) -> list[Any]:
        if not isinstance(value, Mapping):
            raise named(SchemaError(f"a dict with the keys {sorted(self)} expected, got {type(value).__name__}"), path)
        unknown = [key for key in value if key not in self._features]
        if unknown:
            raise named(SchemaError(f"no feature is called {unknown[0]!r}; there are {sorted(self)}"), path)
        collected: list[Any] = []
        for name, feature in self._sorted:
            if name not in value and not (isinstance(feature, LeafFeature) and feature.optional):
                raise named(SchemaError(f"it is missing; there are {sorted(value)}"), (*path, name))
            collected += feature.collect(value.get(name), (*path, name))
        return collected

    def map_leaves(
        self, change: Callable[[LeafFeature, tuple[str, ...]], LeafFeature], path: tuple[str, ...] = ()
    ) -> FeaturesDict:
        changed = {name: feature.map_leaves(change, (*path, name)) for name, feature in self._features.items()}
        if all(changed[name] is feature for name, feature in self._features.items()):
            return self
        return FeaturesDict(changed, description=self.description, value_range=self.value_range)

    def select(self, names: Iterable[str]) -> FeaturesDict:
        """Return the features called ``names``; ``"objects/bbox"`` is one of the features of ``"objects"``.

        Raises:
          ValueError: There is none of that name; lists what there is.
        """
        from .selection import select

        return select(self, names)

    # -- description ----------------------------------------------------------------------------------------------

    def to_content(self) -> Json:
        return {"features": {name: feature.to_json() for name, feature in self._features.items()}} if self else {}

    @classmethod
    def from_content(cls, content: Json) -> Self:
        return cls(content.get("features", {}))

    def _identity(self) -> Any:
        return self._features

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_leaves": None, "_readers": []}

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__}({{"]
        for name, feature in sorted(self._features.items()):
            lines += [f"    {line}" for line in f"'{name}': {feature.short_repr()},".split("\n")]
        return "\n".join([*lines, "})"])
