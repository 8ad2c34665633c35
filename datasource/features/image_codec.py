"""Encoded images to arrays and back, with OpenCV where it is installed, else with Pillow. Imports either when first used.

The two give the same pixels for PNG (gray, RGB, RGBA, palette, transparency; 8 bits, and 16 bits of gray) and for baseline
and progressive JPEG; CMYK JPEG differs by rounding. Only OpenCV reads 16-bit colour.

OpenCV's thread pool does not survive ``fork``, and turning it off would be a setting of the whole process. So nothing here
calls a function that uses the pool: pixels are put in RGB order by the decoder itself, or by ``mixChannels``.
"""

from __future__ import annotations

import functools
import io
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import DecodeError
from .image_header import ImageHeader, read_header

__all__ = ["MAX_PIXELS", "ImageFormat", "decode_image", "encode_image"]

ImageFormat: TypeAlias = Literal["png", "jpeg"]

# Width times height beyond which an image is taken for an attack; the number at which Pillow, too, refuses.
MAX_PIXELS = 178_956_970

_NEED = "images need OpenCV (opencv-python-headless) or Pillow: pip install 'arrayfeed[images]'"


@functools.cache
def _opencv() -> Any:
    try:
        import cv2
    except ImportError:
        return None
    return cv2


@functools.cache
def _pillow() -> Any:
    try:
        import PIL.Image
    except ImportError:
        raise ImportError(_NEED) from None
    return PIL.Image


def decode_image(data: bytes) -> npt.NDArray[Any]:
    """Return the pixels of an encoded image: ``(height, width)`` if gray, else ``(height, width, channels)``, RGB or RGBA.

    uint8, or uint16 for 16-bit images. Of an animation, the first frame. No rotation by EXIF.

    Raises:
      DecodeError: The bytes are no image that can be read, or one of more than ``MAX_PIXELS`` pixels.
      ImportError: Neither OpenCV nor Pillow is installed.
    """
    header = read_header(data)
    if header is None:
        raise DecodeError(f"{len(data)} bytes are no image of a known format; they begin {data[:8]!r}")
    if header.width * header.height > MAX_PIXELS:
        raise DecodeError(
            f"{header.width} x {header.height} pixels claimed in {len(data)} bytes; at most {MAX_PIXELS} are decoded"
        )
    cv2 = _opencv()
    pixels = _decode_with_pillow(data) if cv2 is None or header.format == "tiff" else _decode_with_opencv(cv2, data, header)
    if pixels is None:
        raise DecodeError(f"a {header.format} image of {len(data)} bytes cannot be decoded; it is damaged or cut short")
    return pixels


def _decode_with_opencv(cv2: Any, data: bytes, header: ImageHeader) -> npt.NDArray[Any] | None:
    buffer = np.frombuffer(data, np.uint8)
    try:
        if header.channels == 3 and hasattr(cv2, "IMREAD_COLOR_RGB"):
            flags = cv2.IMREAD_COLOR_RGB | cv2.IMREAD_ANYDEPTH | cv2.IMREAD_IGNORE_ORIENTATION
            rgb: npt.NDArray[Any] | None = cv2.imdecode(buffer, flags)
            return rgb
        pixels: npt.NDArray[Any] | None = cv2.imdecode(buffer, cv2.IMREAD_UNCHANGED)
    except cv2.error:
        return None
    if pixels is None or pixels.ndim == 2 or pixels.shape[2] not in (3, 4):
        return pixels
    ordered = np.empty_like(pixels)
    cv2.mixChannels([pixels], [ordered], [2, 0, 1, 1, 0, 2, 3, 3][: 2 * pixels.shape[2]])
    return ordered


def _decode_with_pillow(data: bytes) -> npt.NDArray[Any] | None:
    pillow = _pillow()
    try:
        with pillow.open(io.BytesIO(data)) as image:
            if image.width * image.height > MAX_PIXELS:
                return None
            if image.mode in ("I", "I;16", "I;16B", "I;16L", "I;16N"):
                return np.asarray(image).astype(np.uint16)
            if image.mode not in ("L", "RGB", "RGBA"):
                transparent = "A" in image.mode or "transparency" in image.info
                gray = image.mode == "1"
                image = image.convert("L" if gray else "RGBA" if transparent else "RGB")
            elif "transparency" in image.info and image.mode == "RGB":
                image = image.convert("RGBA")
            return np.array(image)
    except (OSError, ValueError, SyntaxError, EOFError, pillow.DecompressionBombError, pillow.DecompressionBombWarning):
        return None


def encode_image(pixels: npt.NDArray[Any], image_format: ImageFormat) -> bytes:
    """Return ``pixels``, shape ``(height, width, channels)``, as a PNG or a JPEG of quality 95.

    Args:
      pixels: uint8, or uint16 for PNG; 1 (gray), 2 (gray and alpha, PNG), 3 (RGB) or 4 (RGBA, PNG) channels.

    Raises:
      ValueError: The format cannot hold such pixels.
      ImportError: Neither OpenCV nor Pillow is installed.
    """
    channels = pixels.shape[2]
    cv2 = _opencv()
    if cv2 is None or channels == 2:
        return _encode_with_pillow(pixels, image_format)
    if channels > 1:
        pixels = pixels[..., [2, 1, 0, 3][:channels]]
    done, encoded = cv2.imencode(f".{image_format}", np.ascontiguousarray(pixels))
    if not done:
        raise ValueError(f"{pixels.dtype} pixels of shape {pixels.shape} cannot be encoded as {image_format}")
    data: bytes = encoded.tobytes()
    return data


def _encode_with_pillow(pixels: npt.NDArray[Any], image_format: ImageFormat) -> bytes:
    pillow = _pillow()
    channels = pixels.shape[2]
    if pixels.dtype == np.uint16 and channels > 1:
        raise ValueError("16-bit colour images need OpenCV: pip install opencv-python-headless")
    buffer = io.BytesIO()
    options = {"quality": 95} if image_format == "jpeg" else {}
    pillow.fromarray(pixels[..., 0] if channels == 1 else np.ascontiguousarray(pixels)).save(buffer, image_format, **options)
    return buffer.getvalue()
