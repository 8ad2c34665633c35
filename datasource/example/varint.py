"""Protocol-buffer varints: seven bits a byte, least significant first, the top bit set on all but the last byte.

Layout: https://protobuf.dev/programming-guides/encoding/#varints. A negative int64 is its 64-bit two's complement,
hence ten bytes. Of a tenth byte only the lowest bit counts, as in protobuf's own parsers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["decode_varints", "encode_varint", "encode_varints"]

_UINT64 = (1 << 64) - 1
# Below this many bytes a Python loop is faster than the dozen NumPy calls (measured: 60 ns a byte against 9 us a list).
_LOOP_BYTES = 96


def encode_varint(value: int) -> bytes:
    """Return ``0 <= value < 2**64`` as 1 to 10 bytes."""
    if value < 128:
        return value.to_bytes(1, "little")
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_varints(values: npt.NDArray[np.int64]) -> bytes:
    """Return int64 ``values`` of shape ``(n,)`` as one packed list of varints."""
    if values.size == 0:
        return b""
    if values.size <= 8:
        return b"".join([encode_varint(value & _UINT64) for value in values.tolist()])
    unsigned = np.ascontiguousarray(values).view(np.uint64)
    longest = max(1, -(-int(unsigned.max()).bit_length() // 7))
    if longest == 1:
        return unsigned.astype(np.uint8).tobytes()
    shifts = np.arange(longest, dtype=np.uint64) * np.uint64(7)
    groups = unsigned[:, None] >> shifts
    # A group is written when it or a later one has a bit; the first always is.
    used = groups > 0
    used[:, 0] = True
    out = (groups & np.uint64(127)).astype(np.uint8)
    out[:, :-1] |= used[:, 1:].view(np.uint8) << np.uint8(7)
    return out[used].tobytes()


def decode_varints(data: bytes, start: int, stop: int) -> npt.NDArray[np.int64] | None:
    """Return the packed varints of ``data[start:stop]`` as int64 of shape ``(n,)``.

    ``None`` if one is longer than ten bytes or the last is cut off; the caller knows where that is.
    """
    if stop - start <= _LOOP_BYTES:
        values = _loop(data, start, stop)
        return None if values is None else np.array(values, np.int64)
    raw = np.frombuffer(data, np.uint8, stop - start, start)
    if raw.max() < 128:
        return raw.astype(np.int64)
    last = np.flatnonzero(raw < 128)
    if last.size == 0 or last[-1] != raw.size - 1:
        return None
    first = np.empty_like(last)
    first[0] = 0
    first[1:] = last[:-1] + 1
    lengths = last - first
    longest = int(lengths.max()) + 1
    if longest > 10:
        return None
    # One pass a byte of the longest varint: short lists of passes over whole arrays beat reduceat three to one.
    result = (raw[first] & 127).astype(np.uint64)
    rows = np.flatnonzero(lengths >= 1)
    for place in range(1, longest):
        rows = rows[lengths[rows] >= place]
        result[rows] |= (raw[first[rows] + place] & np.uint8(127)).astype(np.uint64) << np.uint64(7 * place)
    return result.view(np.int64)


def _loop(data: bytes, start: int, stop: int) -> Sequence[int] | None:
    values = []
    value = shift = 0
    for byte in data[start:stop]:
        if byte < 128 and shift == 0:
            values.append(byte)
            continue
        value |= (byte & 127) << shift
        if byte < 128:
            value &= _UINT64
            values.append(value - (1 << 64) if value >> 63 else value)
            value = shift = 0
            continue
        shift += 7
        if shift == 70:
            return None
    return None if shift else values
