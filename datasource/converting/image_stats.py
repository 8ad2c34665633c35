"""What encoded images have in common, for the feature that is to describe them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from ..features import Image
from ..features.image_header import read_header

__all__ = ["ImageStats"]


@dataclass(frozen=True, slots=True)
class ImageStats:
    """Height, width, channels and bits of a channel that a number of images share; None where they differ."""

    height: int | None
    width: int | None
    channels: int | None
    bits: int | None

    @classmethod
    def of(cls, data: bytes) -> Self | None:
        """Return those of one image; None for what is no PNG or JPEG, or not whole."""
        header = read_header(data)
        if header is None or header.format not in ("png", "jpeg") or not header.width:
            return None
        # https://www.w3.org/TR/png-3/#11IHDR: the bit depth follows width and height.
        bits = 16 if header.format == "png" and data[24] == 16 else 8
        return cls(header.height, header.width, header.channels, bits)

    def join(self, other: ImageStats) -> ImageStats:
        """Return what both share."""
        pairs = ((getattr(self, name), getattr(other, name)) for name in ("height", "width", "channels", "bits"))
        return ImageStats(*(a if a == b else None for a, b in pairs))

    def to_feature(self) -> Image:
        """Return the feature. Gray, gray with alpha and colour mixed, or left to the decoder, are colour."""
        dtype = np.uint16 if self.bits == 16 else np.uint8
        return Image(shape=(self.height, self.width, self.channels or 3), dtype=dtype)
