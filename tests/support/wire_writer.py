"""A slow and plain writer of protocol buffers, which can write the same message in every way the format allows."""

from __future__ import annotations

import struct
from collections.abc import Iterable

__all__ = ["fixed32", "group", "length_delimited", "packed_floats", "varint", "varint_field"]


def varint(value: int, *, padding: int = 0) -> bytes:
    """Return ``value`` as a varint, with ``padding`` more bytes than it needs."""
    value &= (1 << 64) - 1
    out = []
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    for _ in range(padding):
        out[-1] |= 128
        out.append(0)
    return bytes(out)


def length_delimited(number: int, content: bytes, *, padding: int = 0) -> bytes:
    """Return a field of a string, message or packed list."""
    return varint(number << 3 | 2) + varint(len(content), padding=padding) + content


def varint_field(number: int, value: int) -> bytes:
    """Return a field of one integer."""
    return varint(number << 3) + varint(value)


def fixed32(number: int, value: float) -> bytes:
    """Return a field of one float32."""
    return varint(number << 3 | 5) + struct.pack("<f", value)


def group(number: int, content: bytes) -> bytes:
    """Return a group, an old way to nest messages."""
    return varint(number << 3 | 3) + content + varint(number << 3 | 4)


def packed_floats(values: Iterable[float]) -> bytes:
    """Return what a packed list of float32 contains."""
    return b"".join(struct.pack("<f", value) for value in values)
