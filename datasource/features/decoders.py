"""Values decoded otherwise than their features say: left as they are stored, or given to a function of the caller's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self, TypeAlias

import numpy as np

from ..errors import DecodeError
from ..example.wire import WireValues
from .base import Feature, Json
from .dtypes import STRING
from .leaf_feature import LeafFeature
from .shapes import Shape
from .tensor import Tensor

__all__ = ["Decoder", "Decoders", "SkipDecoding", "list_decoders", "with_decoders"]


class SkipDecoding:
    """Leaves a value as it is stored: the bytes of an encoded image or a compressed tensor; plain values are values already."""

    def __call__(self, stored: Any, feature: Feature) -> Any:
        return stored

    def __repr__(self) -> str:
        return "SkipDecoding()"


# Called with the stored value and the feature, gives the decoded value.
Decoder: TypeAlias = Callable[[Any, Feature], Any]
# By name of feature, nested as the features are.
Decoders: TypeAlias = Mapping[str, "Decoder | Decoders"]


class Stored(LeafFeature):
    """A feature whose stored values go to a decoder. Encodes, and describes itself, as the feature."""

    def __init__(self, feature: LeafFeature, decoder: Decoder) -> None:
        super().__init__(description=feature.description, value_range=feature.value_range)
        self.json_class, self.content_key = feature.json_class, feature.content_key  # type: ignore[misc]
        self.parts, self.counts, self.optional = feature.parts, feature.counts, feature.optional
        self._feature = feature
        self._decoder = decoder

    @property
    def shape(self) -> Shape:
        return ()

    @property
    def dtype(self) -> np.dtype[Any]:
        return STRING

    @property
    def fills_arrays(self) -> bool:
        return False

    def encode(self, value: Any) -> WireValues:
        return self._feature.encode(value)

    def encode_parts(self, value: Any) -> tuple[WireValues, ...]:
        return self._feature.encode_parts(value)

    def decode(self, values: WireValues) -> Any:
        return self.decode_parts((values,))

    def decode_parts(self, parts: tuple[WireValues, ...]) -> Any:
        if len(parts) > 1:
            named = zip((suffix.lstrip("/") for suffix in self.parts), parts, strict=True)
            stored: Any = {name: part[0] if isinstance(part, list) and part else part for name, part in named}
        elif self.parts == {"": "bytes"} and self.counts == (1,):
            stored = parts[0]
            if not isinstance(stored, list) or len(stored) != 1:
                raise DecodeError(f"one bytes value expected, the record has {stored!r:.80}")
            stored = stored[0]
        else:
            stored = self._feature.decode_parts(parts)
        return self._decoder(stored, self._feature)

    def to_content(self) -> Json:
        return self._feature.to_content()

    @classmethod
    def from_content(cls, content: Json) -> Self:
        raise TypeError("a decoder is not part of what is stored")

    def __repr__(self) -> str:
        return repr(self._feature)


def with_decoders(features: Feature, decoders: Decoders) -> Any:
    """Return ``features`` with values decoded by ``decoders``, which names them as the features are nested.

    Inside a sequence or dataset, each element is decoded by itself.

    Raises:
      ValueError: A name is no single feature's; lists what there is.
      TypeError: A decoder is no function.
    """
    wanted = dict(_flatten(decoders, ()))
    known: list[str] = []

    def change(feature: LeafFeature, path: tuple[str, ...]) -> LeafFeature:
        known.append("/".join(path))
        decoder = wanted.pop(known[-1], None)
        if decoder is None:
            return feature
        # Plain values are decoded already: skipping would only lose their type.
        is_plain = isinstance(feature, Tensor) and feature.is_plain
        return feature if is_plain and isinstance(decoder, SkipDecoding) else Stored(feature, decoder)

    changed = features.map_leaves(change)
    if wanted:
        raise ValueError(f"decoders: no feature is called {next(iter(wanted))!r}; there are {sorted(known)}")
    return changed


def list_decoders(features: Feature) -> dict[str, Decoder]:
    """Return the decoders among ``features``, by name of feature."""
    found: dict[str, Decoder] = {}

    def note(feature: LeafFeature, path: tuple[str, ...]) -> LeafFeature:
        if isinstance(feature, Stored):
            found["/".join(path)] = feature._decoder
        return feature

    features.map_leaves(note)
    return found


def _flatten(decoders: Decoders, path: tuple[str, ...]) -> list[tuple[str, Decoder]]:
    found: list[tuple[str, Decoder]] = []
    for name, decoder in decoders.items():
        if isinstance(decoder, Mapping):
            found += _flatten(decoder, (*path, name))
        elif callable(decoder):
            found.append(("/".join((*path, name)), decoder))
        else:
            raise TypeError(f"decoders: {name!r} needs SkipDecoding() or a function, got {decoder!r}")
    return found
