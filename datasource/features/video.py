"""Videos: sequences of encoded images."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ..errors import SchemaError
from .base import Json, named
from .dtypes import dtype_name
from .image import Image
from .image_codec import ImageFormat
from .sequence import Sequence
from .shapes import Shape, check_shape, shape_to_json

__all__ = ["Video"]


class Video(Sequence):
    """Frames of shape ``(frames, height, width, channels)``, stored one image each, decoded to a list of arrays.

    A value to encode is an array of all frames, or a list of frames as ``Image`` takes them.

    Args:
      shape: ``None`` for what examples differ in.
      ffmpeg_extra_args: Kept for readers of the schema.
    """

    json_class = "video_feature.Video"
    content_key = "video"

    def __init__(
        self,
        shape: Shape | None = None,
        *,
        encoding_format: ImageFormat | None = "png",
        ffmpeg_extra_args: Iterable[str] = (),
        use_colormap: bool = False,
        dtype: npt.DTypeLike = np.uint8,
        description: str = "",
        value_range: str = "",
    ) -> None:
        shape = check_shape(shape or (None, None, None, 3))
        if len(shape) != 4:
            raise SchemaError(f"a video has shape (frames, height, width, channels), got {shape}")
        frame = Image(shape=shape[1:], dtype=dtype, encoding_format=encoding_format, use_colormap=use_colormap)
        super().__init__(frame, shape[0], description=description, value_range=value_range)
        self.ffmpeg_extra_args = tuple(ffmpeg_extra_args)
        self._frame = frame

    def collect(self, value: Any, path: tuple[str, ...]) -> list[Any]:
        if isinstance(value, (str, bytes, os.PathLike)) or hasattr(value, "read"):
            raise named(SchemaError("frames expected, got a video file; decode it to images first"), path)
        return super().collect(value, path)

    def to_content(self) -> Json:
        content: Json = {"shape": shape_to_json(self.shape), "dtype": dtype_name(self.dtype)}
        if self._frame.encoding_format is not None:
            content["encodingFormat"] = self._frame.encoding_format
        if self._frame.use_colormap:
            content["useColormap"] = True
        if self.ffmpeg_extra_args:
            content["ffmpegExtraArgs"] = list(self.ffmpeg_extra_args)
        return content

    @classmethod
    def from_content(cls, content: Json) -> Self:
        return cls(
            content.get("shape"),
            encoding_format=content.get("encoding_format") or None,
            ffmpeg_extra_args=content.get("ffmpeg_extra_args", ()),
            use_colormap=bool(content.get("use_colormap")),
            dtype=content.get("dtype") or np.uint8,
        )

    def _identity(self) -> Any:
        return self.to_json()
