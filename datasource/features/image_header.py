"""Format and size of an encoded image, read from its first bytes, so that a small file cannot claim a huge picture."""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = [
    "JPEG_SIZE",
    "PNG_CHUNK_STOP",
    "PNG_FRAME_BYTES",
    "PNG_START_BYTES",
    "ImageHeader",
    "are_one_chunk",
    "find_jpeg_size",
    "is_one_chunk",
    "read_header",
    "read_png_start",
]


class ImageHeader(NamedTuple):
    """What an encoded image says about itself.

    ``width`` and ``height`` are in pixels. ``channels`` is 0 where the decoder decides: palettes, transparency given apart
    from the pixels, CMYK, formats other than PNG and JPEG.
    """

    format: str
    width: int
    height: int
    channels: int = 0


# https://www.w3.org/TR/png-3/#11IHDR: colour type to channels; a palette (3) decides by its entries.
_PNG_CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}
# https://www.w3.org/Graphics/JPEG/itu-t81.pdf, table B.1: the markers that start a frame, and those without a length.
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_ALONE = frozenset((0x01, *range(0xD0, 0xD9)))

_PNG_CHUNK = struct.Struct(">I4s").unpack_from
# After the signature the first chunk: its kind, width, height, bits a channel, colour type.
_PNG_START = struct.Struct(">8x4x4sIIBB3x4x").unpack_from
PNG_START_BYTES = 33
# What frames a single chunk of pixels: the start, length, kind and checksum of the chunk, the chunk that ends the file.
PNG_FRAME_BYTES = PNG_START_BYTES + 12 + 12
# Where length and kind of the chunk behind the start end.
PNG_CHUNK_STOP = PNG_START_BYTES + 8
JPEG_SIZE = struct.Struct(">HHB").unpack_from


def read_header(data: bytes) -> ImageHeader | None:
    """Return the header of PNG, JPEG, GIF, BMP, WebP or TIFF ``data``; ``None`` for anything else, or if it is cut off."""
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n"):
            return _read_png(data)
        if data.startswith(b"\xff\xd8"):
            return _read_jpeg(data)
        if data.startswith((b"GIF87a", b"GIF89a")):
            return ImageHeader("gif", *struct.unpack_from("<HH", data, 6))
        if data.startswith(b"BM"):
            return _read_bmp(data)
        if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
            return _read_webp(data)
        if data.startswith((b"II*\0", b"MM\0*")):
            return _read_tiff(data)
    except (struct.error, IndexError):
        return None
    return None


def read_png_start(data: bytes) -> tuple[ImageHeader, int] | None:
    """Return what the first ``PNG_START_BYTES`` of a PNG say, and the bits of a channel; None if they are not that."""
    if len(data) < PNG_START_BYTES or not data.startswith(b"\x89PNG\r\n\x1a\n"):
        return None
    kind, width, height, bits, colour = _PNG_START(data)
    return (ImageHeader("png", width, height, _PNG_CHANNELS.get(colour, 0)), bits) if kind == b"IHDR" else None


def is_one_chunk(data: bytes | memoryview) -> bool:
    """Whether a PNG of at least ``PNG_FRAME_BYTES`` has nothing between its start and its end but one chunk of pixels."""
    length, kind = _PNG_CHUNK(data, PNG_START_BYTES)
    return bool(kind == b"IDAT" and length == len(data) - PNG_FRAME_BYTES)


def are_one_chunk(starts: npt.NDArray[np.uint8], sizes: npt.NDArray[np.int64]) -> bool:
    """Whether ``is_one_chunk`` holds for all PNGs of ``sizes`` whose first ``PNG_CHUNK_STOP`` bytes are ``starts``."""
    chunks = starts[:, PNG_START_BYTES:PNG_CHUNK_STOP]
    expected = np.empty((sizes.size, 2), ">u4")
    expected[:, 0] = sizes - PNG_FRAME_BYTES
    expected[:, 1] = int.from_bytes(b"IDAT", "big")
    return bool((sizes < 1 << 32).all() and np.array_equal(chunks, expected.view(np.uint8)))


def _read_png(data: bytes) -> ImageHeader | None:
    found = read_png_start(data)
    if found is None:
        return None
    header, _ = found
    if len(data) >= PNG_FRAME_BYTES and is_one_chunk(data):
        return header
    _, width, height, channels = header
    # OpenCV takes the memory that a chunk claims before it looks whether the chunk is there.
    at, end = PNG_START_BYTES, len(data)
    while at < end:
        length, kind = _PNG_CHUNK(data, at)
        at += 12 + length
        if at > end:
            return None
        if kind == b"tRNS" and channels == 3:
            channels = 0  # One colour is marked transparent.
        elif kind == b"IEND":
            break
    return ImageHeader("png", width, height, channels)


def find_jpeg_size(data: bytes | memoryview) -> int | None:
    """Return where height, width and number of channels of a JPEG stand, None if it has none.

    Raises:
      IndexError: It is cut off.
    """
    if data[:2] != b"\xff\xd8":
        return None
    at = 2
    while at < len(data):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF:  # Fill bytes may precede a marker.
            at += 1
        elif marker in _JPEG_ALONE:
            at += 2
        elif marker in _JPEG_FRAMES:
            return at + 5
        else:
            at += 2 + max(data[at + 2] << 8 | data[at + 3], 2)
    return None


def _read_jpeg(data: bytes) -> ImageHeader | None:
    at = find_jpeg_size(data)
    if at is None:
        return None
    height, width, channels = JPEG_SIZE(data, at)
    return ImageHeader("jpeg", width, height, channels if channels in (1, 3) else 0)


def _read_bmp(data: bytes) -> ImageHeader:
    (size,) = struct.unpack_from("<I", data, 14)
    if size == 12:  # The header of OS/2.
        return ImageHeader("bmp", *struct.unpack_from("<HH", data, 18))
    width, height = struct.unpack_from("<ii", data, 18)
    return ImageHeader("bmp", abs(width), abs(height))  # A negative height means: top row first.


def _read_webp(data: bytes) -> ImageHeader | None:
    # https://developers.google.com/speed/webp/docs/riff_container
    kind = data[12:16]
    if kind == b"VP8X":
        width, height = (1 + int.from_bytes(data[at : at + 3], "little") for at in (24, 27))
    elif kind == b"VP8 ":
        width, height = (value & 0x3FFF for value in struct.unpack_from("<HH", data, 26))
    elif kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        width, height = 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    else:
        return None
    return ImageHeader("webp", width, height)


def _read_tiff(data: bytes) -> ImageHeader | None:
    # The first directory's tags 256 and 257: https://www.itu.int/itudoc/itu-t/com16/tiff-fx/docs/tiff6.pdf, section 2.
    order = "<" if data.startswith(b"II") else ">"
    (at,) = struct.unpack_from(f"{order}I", data, 4)
    (count,) = struct.unpack_from(f"{order}H", data, at)
    sizes = {}
    for entry in range(at + 2, at + 2 + 12 * count, 12):
        tag, kind = struct.unpack_from(f"{order}HH", data, entry)
        if tag in (256, 257):
            (sizes[tag],) = struct.unpack_from(f"{order}{'H' if kind == 3 else 'I'}", data, entry + 8)
    return ImageHeader("tiff", sizes[256], sizes[257]) if len(sizes) == 2 else None
