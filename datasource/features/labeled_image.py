"""Images whose pixels are class labels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ..errors import SchemaError
from .base import Json
from .class_label import ClassLabel
from .image import Image
from .image_codec import ImageFormat
from .shapes import Shape

__all__ = ["LabeledImage"]


class LabeledImage(Image):
    """A one-channel image in which each pixel is the number of a class.

    Args:
      labels: The classes' names, or how many there are, or ``None``.
    """

    json_class = "labeled_image.LabeledImage"

    def __init__(
        self,
        *,
        labels: Iterable[str] | int | None,
        shape: Shape | None = None,
        dtype: npt.DTypeLike = np.uint8,
        encoding_format: ImageFormat | None = None,
        description: str = "",
        value_range: str = "",
    ) -> None:
        super().__init__(
            shape=shape or (None, None, 1),
            dtype=dtype,
            encoding_format=encoding_format,
            use_colormap=True,
            description=description,
            value_range=value_range,
        )
        if self.shape[-1] != 1:
            raise SchemaError(f"an image of labels has one channel, got shape {self.shape}")
        self.labels = ClassLabel(labels) if labels is None or isinstance(labels, int) else ClassLabel(names=labels)

    @property
    def num_classes(self) -> int | None:
        """How many classes there are; ``None`` if unknown."""
        return self.labels.num_classes

    @property
    def names(self) -> list[str]:
        """The classes' names; "0", "1", ... where none were given."""
        return self.labels.names

    @property
    def has_names(self) -> bool:
        """Whether the names are more than the numbers."""
        return self.labels.has_names

    def with_names(self, names: Iterable[str]) -> LabeledImage:
        """Return the same feature with other names of classes."""
        return LabeledImage(
            labels=list(names),
            shape=self.shape,
            dtype=self.dtype,
            encoding_format=self.encoding_format,
            description=self.description,
            value_range=self.value_range,
        )

    def to_content(self) -> Json:
        return {**super().to_content(), "label": self.labels.to_content()}

    @classmethod
    def from_content(cls, content: Json) -> Self:
        labels = content.get("labels") or content.get("label", {}).get("num_classes")
        return cls(
            labels=labels or None,
            shape=content.get("shape"),
            dtype=content.get("dtype") or np.uint8,
            encoding_format=content.get("encoding_format") or None,
        )

    def _identity(self) -> Any:
        return self.to_json(), self.labels

    def _details(self) -> dict[str, Any]:
        return {"num_classes": self.num_classes}
