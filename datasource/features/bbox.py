"""Bounding boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Self, TypeAlias, get_args

import numpy as np

from ..errors import SchemaError
from ..example.wire import WireValues
from .base import Json
from .tensor import Tensor

__all__ = ["BBox", "BBoxFeature", "BBoxFormat"]

BBoxFormat: TypeAlias = Literal["XYXY", "YXYX", "XYWH", "REL_XYXY", "REL_YXYX"]


class BBox(NamedTuple):
    """A box by its four coordinates, in the order in which they are stored."""

    ymin: float
    xmin: float
    ymax: float
    xmax: float


class BBoxFeature(Tensor):
    """A box: four float32, ``[ymin, xmin, ymax, xmax]`` in whatever format.

    Args:
      bbox_format: What the numbers mean. ``REL_*`` are fractions of the image's sides, from 0 to 1; of ``YXYX`` and
        ``REL_YXYX``, no minimum may exceed its maximum. ``None``: unknown, nothing is checked.
    """

    json_class = "bounding_boxes.BBoxFeature"
    content_key = "boundingBox"

    def __init__(self, *, bbox_format: BBoxFormat | None = "REL_YXYX", description: str = "", value_range: str = "") -> None:
        super().__init__(shape=(4,), dtype=np.float32, description=description, value_range=value_range)
        if bbox_format is not None and bbox_format not in get_args(BBoxFormat):
            raise SchemaError(f"bbox_format must be one of {get_args(BBoxFormat)} or None, got {bbox_format!r}")
        self.bbox_format = bbox_format

    def encode(self, value: Any) -> WireValues:
        if not isinstance(value, (Sequence, np.ndarray)) or len(value) != 4:
            raise SchemaError(f"ymin, xmin, ymax, xmax expected, got {value!r:.80}")
        box = BBox(*(float(coordinate) for coordinate in value))
        if self.bbox_format in ("REL_XYXY", "REL_YXYX") and not all(0 <= coordinate <= 1 for coordinate in box):
            raise SchemaError(f"coordinates from 0 to 1 expected, got {box}")
        if self.bbox_format in ("YXYX", "REL_YXYX") and (box.xmax < box.xmin or box.ymax < box.ymin):
            raise SchemaError(f"min <= max expected, got {box}")
        return super().encode(list(box))

    def encode_many(self, elements: Any) -> tuple[WireValues, ...]:
        if len(elements) == 0:
            return super().encode_many([])
        return (np.concatenate([self._encode_element(place, box) for place, box in enumerate(elements)]),)

    def _encode_element(self, place: int, box: Any) -> Any:
        try:
            return self.encode(box)
        except SchemaError as error:
            raise SchemaError(f"element {place}: {error.message}") from None

    def to_content(self) -> Json:
        content: Json = {"shape": {"dimensions": ["4"]}, "dtype": "float32"}
        if self.bbox_format is not None:
            content["bboxFormat"] = self.bbox_format
        return content

    @classmethod
    def from_content(cls, content: Json) -> Self:
        return cls(bbox_format=content.get("bbox_format") or None)
