"""Images, stored as encoded files."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ..errors import DecodeError, SchemaError
from ..example.wire import WireValues
from .base import Json
from .dtypes import as_dtype, dtype_name
from .image_codec import ImageFormat, convert_channels, decode_frames, decode_image, encode_image
from .image_header import read_header
from .image_usual import alike_decoder, usual_decoder
from .leaf_feature import LeafFeature
from .shapes import Shape, check_shape, fits, shape_to_json
from .values import single

__all__ = ["Image"]


class Image(LeafFeature):
    """An image: given as an array, or encoded already; stored as a PNG, JPEG or other file; decoded to an array.

    A value to encode is an array of shape ``(height, width, channels)``, the bytes of an image file (stored as they are), the
    path of one, a file object, or a Pillow image. Decoded, it is an array of the shape and dtype below, channels in RGB(A)
    order; gray pixels are repeated for as many channels as the shape has. Otherwise a file decides by itself how many
    channels it has.

    Args:
      shape: ``(height, width, channels)``, with ``None`` for what examples differ in. Channels: 1, 2, 3 or 4. With four
        axes, ``(frames, height, width, 3)``, animated GIFs.
      dtype: uint8, uint16 (PNG) or float32 (PNG, one channel: the four bytes of each float become RGBA).
      encoding_format: ``"png"`` or ``"jpeg"``: what arrays are encoded to; PNG if ``None``.
      use_colormap: Whether viewers show gray values as colours.
    """

    json_class = "image_feature.Image"
    content_key = "image"

    decodes_views = True
    # Whether a colour image keeps the channels it was stored with, whatever the shape says; see ``options``.
    keeps_channels = True

    def __init__(
        self,
        *,
        shape: Shape | None = None,
        dtype: npt.DTypeLike = np.uint8,
        encoding_format: ImageFormat | None = None,
        use_colormap: bool = False,
        description: str = "",
        value_range: str = "",
    ) -> None:
        super().__init__(description=description, value_range=value_range)
        self._shape = check_shape(shape or (None, None, 3))
        self._dtype = as_dtype(dtype)
        self.encoding_format = encoding_format
        self.use_colormap = use_colormap
        self.parts = {"": "bytes"}
        if encoding_format not in (None, "png", "jpeg"):
            raise SchemaError(f'encoding_format must be "png", "jpeg" or None, got {encoding_format!r}')
        if len(self._shape) < 3:
            raise SchemaError(f"an image has shape (height, width, channels), got {self._shape}")
        if self._dtype not in (np.uint8, np.uint16, np.float32):
            raise SchemaError(f"images are uint8, uint16 or float32, got {dtype_name(self._dtype)}")
        if encoding_format == "jpeg" and self._dtype != np.uint8:
            raise SchemaError(f"JPEG holds uint8, got {dtype_name(self._dtype)}; use PNG")
        if self._dtype == np.float32 and self._shape[-1] != 1:
            raise SchemaError(f"float32 images have one channel, got shape {self._shape}")
        # TFDS takes 0 channels for "as the file has them".
        self._channels = self._shape[-1] or 1
        self._is_float = self._dtype == np.float32
        self._is_animated = len(self._shape) == 4

    @property
    def shape(self) -> Shape:
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._dtype

    def encode(self, value: Any) -> WireValues:
        if isinstance(value, np.ndarray):
            return [self._encode_array(value)]
        if self._dtype == np.float32:
            raise SchemaError(f"a float32 array expected, got {type(value).__name__}")
        if isinstance(value, (str, os.PathLike)):
            value = Path(value).read_bytes()
        elif hasattr(value, "save") and hasattr(value, "mode"):
            buffer = io.BytesIO()
            value.save(buffer, self.encoding_format or "png")
            value = buffer.getvalue()
        elif hasattr(value, "read"):
            value = value.read()
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise SchemaError(f"an array, image file, path or Pillow image expected, got {type(value).__name__}")
        data = bytes(value)
        header = read_header(data)
        if header is None:
            raise SchemaError(f"an encoded image expected, got {len(data)} bytes that begin {data[:8]!r}")
        if header.width and len(self._shape) == 3 and not fits((header.height, header.width), self._shape[:2]):
            raise SchemaError(f"an image of shape {self._shape} expected, got one of {header.height} x {header.width} pixels")
        return [data]

    def _encode_array(self, array: npt.NDArray[Any]) -> bytes:
        if array.dtype != self._dtype:
            raise SchemaError(f"{dtype_name(self._dtype)} expected, got {array.dtype}")
        if array.ndim != 3 or not fits(array.shape, self._shape):
            raise SchemaError(f"shape {self._shape} expected, got {array.shape}")
        if 0 in array.shape or array.shape[2] > 4 or (self.encoding_format == "jpeg" and array.shape[2] not in (1, 3)):
            raise SchemaError(f"an array of shape {array.shape} cannot be encoded as {self.encoding_format or 'png'}")
        if self._dtype == np.float32:
            array = np.ascontiguousarray(array, "<f4").view(np.uint8)
        return encode_image(array, self.encoding_format or "png")

    def decode(self, values: WireValues) -> npt.NDArray[Any]:
        return self._decode_file(single(values))

    @property
    def _may_be_usual(self) -> bool:
        return self._dtype == np.uint8 and not self._is_animated and self.keeps_channels

    def payload_decoder(self) -> Callable[[bytes], Any] | None:
        if not self._may_be_usual:
            return lambda data: self._decode_file(bytes(data))
        return usual_decoder(self._decode_file, self._channels)

    def alike_decoder(
        self, heads: Callable[[int], npt.NDArray[np.uint8]], sizes: npt.NDArray[np.int64]
    ) -> Callable[[npt.NDArray[np.uint8]], npt.NDArray[Any]] | None:
        if not self._may_be_usual:
            return None
        return alike_decoder(heads, sizes, self._channels)

    def _decode_file(self, data: bytes) -> npt.NDArray[Any]:
        if self._is_animated:
            return decode_frames(data)
        pixels = decode_image(data)
        if pixels.ndim == 2:
            pixels = pixels[..., None]
        if self._is_float:
            if pixels.dtype != np.uint8 or pixels.shape[2] != 4:
                raise DecodeError(f"a float32 image is stored as 8-bit RGBA; the record has {pixels.shape[2]} channels")
            return pixels.view(np.float32)
        if pixels.dtype != self._dtype:
            # 16 bits where 8 are promised: the upper ones are the picture.
            pixels = (pixels >> 8 if self._dtype == np.uint8 else pixels).astype(self._dtype)
        if not self.keeps_channels:
            return convert_channels(pixels, self._channels)
        if pixels.shape[2] == 1 and self._channels > 1:
            pixels = np.repeat(pixels, self._channels, axis=2)
        return pixels

    def to_content(self) -> Json:
        content: Json = {"shape": shape_to_json(self._shape), "dtype": dtype_name(self._dtype)}
        if self.encoding_format is not None:
            content["encodingFormat"] = self.encoding_format
        if self.use_colormap:
            content["useColormap"] = True
        return content

    @classmethod
    def from_content(cls, content: Json) -> Self:
        return cls(
            shape=content.get("shape"),
            dtype=content.get("dtype") or np.uint8,
            encoding_format=content.get("encoding_format") or None,
            use_colormap=bool(content.get("use_colormap")),
        )
