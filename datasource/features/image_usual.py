"""The usual pictures, decoded without looking at each of their headers anew.

Most pictures of a data set start the same. What ``decode_image`` finds out about a picture, to refuse it or to choose how it is
decoded, follows from that start and its length, but for the size of a JPEG; so it is found out once. All others are left to
``decode_image``, and so is whatever cannot be decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from . import image_codec
from .image_codec import MAX_PIXELS, MAX_PIXELS_PER_BYTE, rgb_flags
from .image_header import (
    JPEG_SIZE,
    PNG_CHUNK_STOP,
    PNG_FRAME_BYTES,
    PNG_START_BYTES,
    are_one_chunk,
    find_jpeg_size,
    is_one_chunk,
    read_png_start,
)

__all__ = ["alike_decoder", "usual_decoder"]

Data: TypeAlias = bytes | memoryview
#: Gives what OpenCV gives; None for a picture that is to be looked at more closely.
Read: TypeAlias = Callable[[Data], npt.NDArray[Any] | None]

#: Starts of PNGs that are kept, 33 bytes each.
_MAX_STARTS = 256


def usual_decoder(decode: Callable[[bytes], npt.NDArray[Any]], channels: int) -> Callable[[Data], npt.NDArray[Any]]:
    """Return a faster ``decode`` of uint8 pictures, which asks ``decode`` for the unusual ones.

    A picture of 28 x 28 pixels takes 2 us less of 20.

    Args:
      decode: Returns pixels of shape ``(height, width, channels)``.
      channels: For which gray is repeated.
    """
    cv2 = image_codec.opencv()
    if cv2 is None:
        return lambda data: decode(bytes(data))
    read_png, read_jpeg = _png_reader(cv2), _jpeg_reader(cv2)

    def decode_usual(data: Data) -> npt.NDArray[Any]:
        pixels = (read_png if data[0] == 0x89 else read_jpeg)(data)
        if pixels is None:
            return decode(bytes(data))
        if pixels.ndim == 3:
            return pixels
        pixels = pixels[..., None]
        return pixels if channels == 1 else np.repeat(pixels, channels, axis=2)

    return decode_usual


def _png_reader(cv2: Any) -> Read:
    """Return what reads PNGs of 8-bit gray or RGB, in one chunk."""
    imdecode, frombuffer, uint8 = cv2.imdecode, np.frombuffer, np.uint8
    #: What ``_look_at_png`` says of a picture that starts so.
    known: dict[bytes, tuple[int, int, int]] = {}

    def look(data: Data) -> tuple[int, int, int] | None:
        start = bytes(data[:PNG_START_BYTES])
        usual = _look_at_png(cv2, start)
        if usual is not None and len(known) < _MAX_STARTS:
            known[start] = usual
        return usual

    def read(data: Data) -> npt.NDArray[Any] | None:
        usual = known.get(data[:PNG_START_BYTES]) or look(data)  # type: ignore[arg-type]  # a view of equal bytes is found
        if usual is None or len(data) < usual[2] or not is_one_chunk(data):
            return None
        pixels: npt.NDArray[Any] | None = imdecode(frombuffer(data, uint8), usual[1])
        return pixels

    return read


def _look_at_png(cv2: Any, start: bytes) -> tuple[int, int, int] | None:
    """Return channels, flags to decode with and least length of a usual PNG that starts so; None if it is another."""
    found = read_png_start(start)
    if found is None:
        return None
    header, bits = found
    flags = {1: cv2.IMREAD_UNCHANGED, 3: rgb_flags(cv2)}.get(header.channels)
    if bits != 8 or flags is None or header.width * header.height > MAX_PIXELS:
        return None
    least_bytes = max(PNG_FRAME_BYTES, header.width * header.height // MAX_PIXELS_PER_BYTE["png"] + 1)
    return header.channels, flags, least_bytes


def alike_decoder(
    heads: Callable[[int], npt.NDArray[np.uint8]], sizes: npt.NDArray[np.int64], channels: int
) -> Callable[[npt.NDArray[np.uint8]], npt.NDArray[Any]] | None:
    """Return a faster decoder of PNGs that all start alike, of one chunk each; None where they do not. Looked at all at once.

    It raises for what cannot be decoded. See ``LeafFeature.alike_decoder``.
    """
    cv2 = image_codec.opencv()
    if cv2 is None or sizes.min() < PNG_FRAME_BYTES:
        return None
    starts = heads(PNG_CHUNK_STOP)
    usual = _look_at_png(cv2, starts[0, :PNG_START_BYTES].tobytes())
    if usual is None or usual[0] != channels or sizes.min() < usual[2]:
        return None
    if (starts[:, :PNG_START_BYTES] != starts[0, :PNG_START_BYTES]).any() or not are_one_chunk(starts, sizes):
        return None
    imdecode, flags = cv2.imdecode, usual[1]
    return (lambda data: imdecode(data, flags)[..., None]) if channels == 1 else (lambda data: imdecode(data, flags))


def _jpeg_reader(cv2: Any) -> Read:
    """Return what reads JPEGs of gray or colour that start as the last one did, up to their size."""
    imdecode, frombuffer, uint8 = cv2.imdecode, np.frombuffer, np.uint8
    flags_of = {1: cv2.IMREAD_UNCHANGED, 3: rgb_flags(cv2)}
    last = b"\0"  # as no JPEG starts

    def read(data: Data) -> npt.NDArray[Any] | None:
        nonlocal last
        start = last
        if data[: len(start)] != start:
            at = find_jpeg_size(data)
            if at is None:
                return None
            start = last = bytes(data[:at])
        height, width, channels = JPEG_SIZE(data, len(start))
        pixels = height * width
        flags = flags_of.get(channels)
        if flags is None or pixels > MAX_PIXELS or pixels > len(data) * MAX_PIXELS_PER_BYTE["jpeg"]:
            return None
        found: npt.NDArray[Any] | None = imdecode(frombuffer(data, uint8), flags)
        return found

    return read
