"""Decoded values in other types than ``tfds.data_source`` gives."""

from __future__ import annotations

import copy
from typing import Any, Literal

from .base import Feature
from .image import Image
from .leaf_feature import LeafFeature
from .text import Text

__all__ = ["list_options", "with_options"]


def with_options(
    features: Feature,
    *,
    text: Literal["bytes", "str"] = "bytes",
    sequences: Literal["list", "array"] = "list",
    channels: Literal["stored", "declared"] = "stored",
) -> Any:
    """Return ``features`` that decode to other types.

    Args:
      text: ``"str"``: texts are decoded from UTF-8; one that is not raises ``DecodeError``.
      sequences: ``"array"``: sequences of equally shaped elements become one array, of any others a list still.
      channels: ``"declared"``: images get the channels of their shape: alpha is dropped or made opaque, colour becomes gray.
    """

    def change(feature: LeafFeature, path: tuple[str, ...]) -> LeafFeature:
        changed = copy.copy(feature)
        changed.joins_to_arrays = sequences == "array"
        if isinstance(changed, Text):
            changed.gives_str = text == "str"
        elif isinstance(changed, Image):
            changed.keeps_channels = channels == "stored"
        return changed

    return features.map_leaves(change)


def list_options(features: Feature) -> list[str]:
    """Return in words which values of ``features`` are decoded to other types than by default; none of decoders' values."""
    found: list[str] = []

    def note(feature: LeafFeature, path: tuple[str, ...]) -> LeafFeature:
        name = "/".join(path)
        if feature.joins_to_arrays:
            found.append(f"{name}: sequences as arrays")
        if isinstance(feature, Text) and feature.gives_str:
            found.append(f"{name}: str")
        if isinstance(feature, Image) and not feature.keeps_channels:
            found.append(f"{name}: declared channels")
        return feature

    features.map_leaves(note)
    return found
