"""Decoded values in other types than ``tfds.data_source`` gives."""

from __future__ import annotations

import copy
from typing import Any, Literal

from .base import Feature
from .image import Image
from .leaf_feature import LeafFeature
from .text import Text

__all__ = ["with_options"]


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
