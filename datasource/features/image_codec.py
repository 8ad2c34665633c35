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

__all__ = [
    "MAX_PIXELS",
    "MAX_PIXELS_PER_BYTE",
    "ImageFormat",
    "convert_channels",
    "decode_frames",
    "decode_image",
    "encode_image",
    "opencv",
    "rgb_flags",
]

ImageFormat: TypeAlias = Literal["png", "jpeg"]

# Width times height beyond which an image is taken for an attack; the number at which Pillow, too, refuses.
MAX_PIXELS = 178_956_970

# What a byte of the format's compression can stand for at most, so that no memory is taken for pixels that cannot be there:
# deflate makes a byte of 1,032, each eight one-bit pixels; a block of 64 pixels takes a bit in a progressive JPEG.
MAX_PIXELS_PER_BYTE = {"png": 1032 * 8, "jpeg": 64 * 8}

_NEED = "images need OpenCV (opencv-python-headless) or Pillow: pip install 'arrayfeed[images]'"


@functools.cache
def opencv() -> Any:
    """Return OpenCV, or None where it is not installed."""
    try:
        import cv2
    except ImportError:
        return None
    return cv2


@functools.cache
def _has_pillow() -> bool:
    try:
        _pillow()
    except ImportError:
        return False
    return True


@functools.cache
def _pillow() -> Any:
    try:
        import PIL.Image
    except ImportError:
        raise ImportError(_NEED) from None
    return PIL.Image


def decode_frames(data: bytes) -> npt.NDArray[Any]:
    """Return the frames of an animation, uint8 of shape ``(frames, height, width, 3)``. Needs Pillow.

    Raises:
      DecodeError: The bytes are no image that can be read, or all frames together have more than ``MAX_PIXELS`` pixels.
      ImportError: Pillow is not installed.
    """
    header = _check_header(data)
    pillow = _pillow()
    try:
        with pillow.open(io.BytesIO(data)) as image:
            count = getattr(image, "n_frames", 1)
            if count * image.width * image.height > MAX_PIXELS:
                raise DecodeError(f"{count} frames of {image.width} x {image.height} pixels; at most {MAX_PIXELS} are decoded")
            frames = []
            for number in range(count):
                image.seek(number)
                frames.append(np.array(image.convert("RGB")))
            return np.stack(frames)
    except _pillow_errors() as error:
        raise DecodeError(f"a {header.format} animation of {len(data)} bytes cannot be decoded: {error}") from None


def decode_image(data: bytes) -> npt.NDArray[Any]:
    """Return the pixels of an encoded image: ``(height, width)`` if gray, else ``(height, width, channels)``, RGB or RGBA.

    uint8, or uint16 for 16-bit images. Of an animation, the first frame. No rotation by EXIF.

    Raises:
      DecodeError: The bytes are no image that can be read, or one of more than ``MAX_PIXELS`` pixels.
      ImportError: Neither OpenCV nor Pillow is installed.
    """
    header = _check_header(data)
    cv2 = opencv()
    pixels = None if cv2 is None else _decode_with_opencv(cv2, data, header)
    if pixels is not None:
        return pixels
    # Builds of OpenCV differ in the rarer formats that they read.
    if cv2 is None or (header.format not in ("png", "jpeg") and _has_pillow()):
        if header.format == "png" and data[24] == 16 and header.channels != 1:
            raise DecodeError("a 16-bit colour PNG, which Pillow reads as 8-bit; install opencv-python-headless")
        pixels = _decode_with_pillow(data)
    if pixels is None:
        raise DecodeError(f"a {header.format} image of {len(data)} bytes cannot be decoded; it is damaged or cut short")
    return pixels


def rgb_flags(cv2: Any) -> int | None:
    """Return the flags for pixels in RGB order, with no rotation; None for a version that gives them in BGR order only."""
    if not hasattr(cv2, "IMREAD_COLOR_RGB"):
        return None
    flags: int = cv2.IMREAD_COLOR_RGB | cv2.IMREAD_ANYDEPTH | cv2.IMREAD_IGNORE_ORIENTATION
    return flags


def _check_header(data: bytes) -> ImageHeader:
    header = read_header(data)
    if header is None:
        raise DecodeError(f"{len(data)} bytes are no image of a known format, or are cut short; they begin {data[:8]!r}")
    kind, width, height, _ = header
    if width * height > MAX_PIXELS:
        raise DecodeError(f"{width} x {height} pixels claimed in {len(data)} bytes; at most {MAX_PIXELS} are decoded")
    if width * height > len(data) * MAX_PIXELS_PER_BYTE.get(kind, MAX_PIXELS):
        raise DecodeError(f"{width} x {height} pixels cannot be in {len(data)} bytes of {kind}")
    return header


def _pillow_errors() -> tuple[type[Exception], ...]:
    pillow = _pillow()
    # Its warnings, too, where the caller has made them errors.
    return (OSError, ValueError, SyntaxError, EOFError, Warning, pillow.DecompressionBombError)


def _decode_with_opencv(cv2: Any, data: bytes, header: ImageHeader) -> npt.NDArray[Any] | None:
    buffer = np.frombuffer(data, np.uint8)
    try:
        if header.channels == 3 and (flags := rgb_flags(cv2)) is not None:
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
            if image.mode in ("I", "I;16", "I;16B", "I;16L", "I;16N"):
                return np.asarray(image).astype(np.uint16)
            if image.mode not in ("L", "RGB", "RGBA"):
                transparent = "A" in image.mode or "transparency" in image.info
                gray = image.mode == "1"
                image = image.convert("L" if gray else "RGBA" if transparent else "RGB")
            elif "transparency" in image.info and image.mode == "RGB":
                image = image.convert("RGBA")
            return np.array(image)
    except _pillow_errors():
        return None


def convert_channels(pixels: npt.NDArray[Any], channels: int) -> npt.NDArray[Any]:
    """Return ``pixels``, shape ``(height, width, found)``, with 1 (gray), 2 (gray, alpha), 3 (RGB) or 4 (RGBA) ``channels``.

    Alpha is dropped, or made opaque; gray is repeated; colour becomes gray by its luma (ITU-R BT.601).
    """
    found = pixels.shape[2]
    if found == channels:
        return pixels
    if found > 2 > channels or (found, channels) in ((3, 2), (4, 2)):
        # In 16.16 fixed point, as libjpeg and Pillow have it.
        luma = (pixels[..., :3].astype(np.int64) @ np.array([19595, 38470, 7471]) + 0x8000) >> 16
        colour = luma.astype(pixels.dtype)[..., None]
    elif found < 3 <= channels:
        colour = np.repeat(pixels[..., :1], 3, axis=2)
    else:
        colour = pixels[..., : 3 if found > 2 else 1]
    if channels % 2:
        return np.ascontiguousarray(colour)
    alpha = np.full_like(colour[..., :1], np.iinfo(pixels.dtype).max) if found % 2 else pixels[..., -1:]
    return np.concatenate([colour, alpha], axis=2)


def encode_image(pixels: npt.NDArray[Any], image_format: ImageFormat) -> bytes:
    """Return ``pixels``, shape ``(height, width, channels)``, as a PNG or a JPEG of quality 95.

    Args:
      pixels: uint8, or uint16 for PNG; 1 (gray), 2 (gray and alpha, PNG), 3 (RGB) or 4 (RGBA, PNG) channels.

    Raises:
      ValueError: The format cannot hold such pixels.
      ImportError: Neither OpenCV nor Pillow is installed.
    """
    channels = pixels.shape[2]
    cv2 = opencv()
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
