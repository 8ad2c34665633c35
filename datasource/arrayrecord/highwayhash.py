"""HighwayHash-64 of many messages at once, in NumPy: the hash that guards every chunk of an ArrayRecord file.

The algorithm is Google's (J. Alakuijala, B. Cox, J. Wassenberg, "Fast keyed hash/pseudo-random function using SIMD
multiply and permute", arXiv:1612.06257). Its state is four vectors of four 64-bit lanes; a message is absorbed in
packets of 32 bytes, each packet depending on the one before. So one message cannot be vectorised, but any number of
them run in lockstep: here a lane is an array with one element for each message.

Cost on one core of a 2-core AMD EPYC (L2 1 MiB), shared with others (runs differ by half), medians, buffer in cache:

    messages    bytes each    messages/s    MB/s
         128           800       180,000     144
         128    500 to 1100       78,000      62
       4,096           800       460,000     370
           1             32       33,000       1
           1           800         9,800       8
           1     1,000,000            10      10
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["RIEGELI_KEY", "hash_bytes", "hash_many"]

# The four lanes of riegeli's fixed key: "Riegeli/", "records\n", twice.
RIEGELI_KEY = (0x2F696C6567656952, 0x0A7364726F636572, 0x2F696C6567656952, 0x0A7364726F636572)

_MUL0 = (0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3)
_MUL1 = (0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377)

_PACKET = 32
_MASK32 = 0xFFFFFFFF
_MASK64 = 0xFFFFFFFFFFFFFFFF

_Lanes: TypeAlias = npt.NDArray[np.uint64]
# v0, v1, mul0 and mul1, four lanes each, as Python integers.
_Scalars: TypeAlias = list[int]


def hash_many(
    buffer: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    *,
    key: Sequence[int] = RIEGELI_KEY,
) -> npt.NDArray[np.uint64]:
    """Return the HighwayHash-64 of every ``buffer[starts[k] : starts[k] + sizes[k]]``.

    Messages of equal length cost the least; others are sorted by length, and drop out of the lockstep as they end.
    Works beside ``buffer`` in about 2 MB, plus 40 bytes for each message. Safe from threads; releases the GIL in long
    stretches.

    Args:
      buffer: Contiguous bytes, a memory map for example; only the messages are touched.
      starts: First byte of each message, shape ``(n,)``.
      sizes: Bytes in each message, shape ``(n,)``; 0 is a message too.
      key: Four 64-bit integers.

    Returns:
      The hashes, shape ``(n,)``.

    Raises:
      ValueError: A message does not lie within ``buffer``, the shapes differ, or ``buffer`` is not contiguous.
    """
    starts, sizes = _check(buffer, starts, sizes)
    hashes = np.empty(len(starts), np.uint64)
    order = np.argsort(-sizes, kind="stable")
    for first in range(0, len(order), _BLOCK):
        block = order[first : first + _BLOCK]
        hashes[block] = _hash_block(buffer, starts[block], sizes[block], key)
    return hashes


def hash_bytes(data: bytes | bytearray | memoryview, *, key: Sequence[int] = RIEGELI_KEY) -> int:
    """Return the HighwayHash-64 of one message: plain Python integers, which beat NumPy below four messages."""
    view = memoryview(data).cast("B")
    state = _absorb(_start(key), view)
    tail = view[len(view) & -_PACKET :]
    if size := len(tail):
        for lane in range(4):
            state[lane] = (state[lane] + (size << 32) + size) & _MASK64
            low, high = state[4 + lane] & _MASK32, state[4 + lane] >> 32
            low = (low << size | low >> (32 - size)) & _MASK32
            high = (high << size | high >> (32 - size)) & _MASK32
            state[4 + lane] = high << 32 | low
        state = _absorb(state, bytes(0 if place < 0 else tail[place] for place in _TAIL[size].tolist()))
    for _ in range(4):
        turned = [state[lane] >> 32 | (state[lane] & _MASK32) << 32 for lane in (2, 3, 0, 1)]
        state = _absorb(state, struct.pack("<4Q", *turned))
    return (state[0] + state[4] + state[8] + state[12]) & _MASK64


# -- one message, in Python integers ----------------------------------------------------------------------------------

# Where each byte of a zipper merge comes from, among the 16 bytes of a pair of lanes. It spreads the well-mixed middle
# bytes of every product over the lane and its neighbour.
_ZIPPER = bytes([3, 12, 2, 5, 14, 1, 15, 0, 11, 4, 10, 13, 9, 6, 8, 7])
_ZIPPER_TWICE = _ZIPPER + bytes(place + 16 for place in _ZIPPER)


def _start(key: Sequence[int]) -> _Scalars:
    turned = [lane >> 32 | (lane & _MASK32) << 32 for lane in key]
    return [
        *(m ^ k for m, k in zip(_MUL0, key, strict=True)),
        *(m ^ k for m, k in zip(_MUL1, turned, strict=True)),
        *_MUL0,
        *_MUL1,
    ]


def _absorb(state: _Scalars, data: bytes | memoryview) -> _Scalars:
    """Return the state after the whole packets of ``data``; what is left over at its end is ignored."""
    a0, a1, a2, a3, b0, b1, b2, b3, m0, m1, m2, m3, n0, n1, n2, n3 = state
    # A merge as one bytes.translate, the state as its table: twice as fast as masks and shifts.
    pack, unpack, merge = struct.Struct("<4Q224x").pack, struct.Struct("<4Q").unpack, _ZIPPER_TWICE.translate
    for x0, x1, x2, x3 in struct.iter_unpack("<4Q", data[: len(data) & -_PACKET]):
        b0 = b0 + m0 + x0 & _MASK64
        b1 = b1 + m1 + x1 & _MASK64
        b2 = b2 + m2 + x2 & _MASK64
        b3 = b3 + m3 + x3 & _MASK64
        m0 ^= (b0 & _MASK32) * (a0 >> 32)
        m1 ^= (b1 & _MASK32) * (a1 >> 32)
        m2 ^= (b2 & _MASK32) * (a2 >> 32)
        m3 ^= (b3 & _MASK32) * (a3 >> 32)
        a0 = a0 + n0 & _MASK64
        a1 = a1 + n1 & _MASK64
        a2 = a2 + n2 & _MASK64
        a3 = a3 + n3 & _MASK64
        n0 ^= (a0 & _MASK32) * (b0 >> 32)
        n1 ^= (a1 & _MASK32) * (b1 >> 32)
        n2 ^= (a2 & _MASK32) * (b2 >> 32)
        n3 ^= (a3 & _MASK32) * (b3 >> 32)
        z0, z1, z2, z3 = unpack(merge(pack(b0, b1, b2, b3)))
        a0 = a0 + z0 & _MASK64
        a1 = a1 + z1 & _MASK64
        a2 = a2 + z2 & _MASK64
        a3 = a3 + z3 & _MASK64
        z0, z1, z2, z3 = unpack(merge(pack(a0, a1, a2, a3)))
        b0 = b0 + z0 & _MASK64
        b1 = b1 + z1 & _MASK64
        b2 = b2 + z2 & _MASK64
        b3 = b3 + z3 & _MASK64
    return [a0, a1, a2, a3, b0, b1, b2, b3, m0, m1, m2, m3, n0, n1, n2, n3]


# -- many messages, in lockstep ---------------------------------------------------------------------------------------

# Messages that run together: their state and two temporaries, 192 bytes for each, stay in the second-level cache.
_BLOCK = 2048
# Bytes gathered at a time: enough packets to pay for the call, few enough to stay in the cache. Of one message no more than
# the second: NumPy makes no view whose elements, end to end, would take 2**63 bytes, and a buffer may span 2**48.
_GATHER_BYTES = 1 << 18
_GATHER_EACH_BYTES = 1 << 14
# Below so many messages a packet costs less in Python integers (3 us each) than in NumPy calls (10 us for all).
_FEW = 4


def _tail_table() -> npt.NDArray[np.int64]:
    """Return where each byte of the last packet comes from, for tails of 0 to 31 bytes; -1 where it is zero."""
    table = np.full((_PACKET, _PACKET), -1, np.int64)
    for size in range(1, _PACKET):
        whole = size & -4
        table[size, :whole] = range(whole)
        if size & 16:
            table[size, 28:] = range(size - 4, size)
        elif size & 3:
            table[size, 16:19] = whole, whole + (size & 3) // 2, size - 1
    return table


_TAIL = _tail_table()


def _hash_block(
    buffer: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64], key: Sequence[int]
) -> npt.NDArray[np.uint64]:
    """Return the hashes of messages that are sorted by falling size."""
    state = np.empty((16, len(starts)), "<u8")
    state[:] = np.array(_start(key), np.uint64)[:, None]
    update_first = _updaters(state)
    packets = sizes // _PACKET
    position = 0
    # The packet counts at which messages end, rising: between two of them the running messages stay the same.
    for end in np.unique(packets).tolist():
        running = int(np.searchsorted(-packets, -end, side="right"))
        if running < _FEW:
            for k in range(running):
                message = buffer[starts[k] + position * _PACKET : starts[k] + end * _PACKET]
                state[:, k] = _absorb(state[:, k].tolist(), message.data)
        else:
            update = update_first(running)
            step = max(1, min(_GATHER_BYTES // running, _GATHER_EACH_BYTES) // _PACKET)
            for first in range(position, end, step):
                for lanes in _gather(buffer, starts[:running] + first * _PACKET, min(step, end - first)):
                    update(lanes)
        position = end
    _absorb_tails(state, buffer, starts, sizes)
    update = update_first(len(starts))
    for _ in range(4):
        turned = state[[2, 3, 0, 1]]
        update(turned << np.uint64(32) | turned >> np.uint64(32))
    hashes: _Lanes = state[0] + state[4] + state[8] + state[12]
    return hashes


def _updaters(state: _Lanes) -> Callable[[int], Callable[[_Lanes], None]]:
    """Return a function of ``count``; what that returns absorbs a packet of each of the first ``count`` messages.

    A merge moves bytes with eight strided copies between byte views, which are made here, once: masks and shifts take
    nineteen calls, and 5 times as long for 128 messages, twice for 1024.
    """
    merged, high = np.empty_like(state[:4]), np.empty_like(state[:4])
    # As arrays: a Python integer costs 0.3 us more at every call, a third of it.
    low_half, half = np.array(_MASK32, np.uint64), np.array(32, np.uint64)
    copies = _merge_copies(state, 0, merged), _merge_copies(state, 4, merged)

    def first(count: int) -> Callable[[_Lanes], None]:
        v0, v1, mul0, mul1 = (state[row : row + 4, :count] for row in (0, 4, 8, 12))
        low, up = merged[:, :count], high[:, :count]
        merge_v0, merge_v1 = ([(to[..., :count], source[..., :count]) for to, source in moves] for moves in copies)

        def update(lanes: _Lanes) -> None:
            np.add(v1, mul0, out=v1)
            np.add(v1, lanes, out=v1)
            np.bitwise_and(v1, low_half, out=low)
            np.right_shift(v0, half, out=up)
            np.multiply(low, up, out=up)
            np.bitwise_xor(mul0, up, out=mul0)
            np.add(v0, mul1, out=v0)
            np.bitwise_and(v0, low_half, out=low)
            np.right_shift(v1, half, out=up)
            np.multiply(low, up, out=up)
            np.bitwise_xor(mul1, up, out=mul1)
            for to, source in merge_v1:
                to[...] = source
            np.add(v0, low, out=v0)
            for to, source in merge_v0:
                to[...] = source
            np.add(v1, low, out=v1)

        return update

    return first


def _merge_copies(source: _Lanes, row: int, target: _Lanes) -> list[tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]]:
    """Return the byte copies that merge rows ``row`` to ``row + 4`` of ``source`` into ``target``, as (to, from) views.

    What an even lane takes from some byte of its pair, its odd neighbour takes from the same byte of the other lane.
    So a copy fills one byte of all four lanes: a strided view of shape (2 pairs, 2 lanes, count).
    """

    def view(lanes: _Lanes, row: int, even: int, odd: int) -> npt.NDArray[np.uint8]:
        step = lanes.strides[0]
        even, odd = even // 8 * step + even % 8, odd // 8 * step + odd % 8
        return np.ndarray((2, 2, lanes.shape[1]), np.uint8, lanes, row * step + even, (2 * step, odd - even, 8))

    return [
        (
            view(target, 0, place, _ZIPPER.index(_ZIPPER[place] ^ 8)),
            view(source, row, _ZIPPER[place], _ZIPPER[place] ^ 8),
        )
        for place in range(8)
    ]


def _gather(buffer: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], width: int) -> _Lanes:
    """Return ``width`` packets of every message from ``starts`` on, as lanes of shape ``(width, 4, len(starts))``."""
    item = np.dtype((np.void, width * _PACKET))
    every = np.ndarray(len(buffer) - item.itemsize + 1, item, buffer=buffer, strides=(1,))
    packets = every[starts].view("<u8").reshape(len(starts), width, 4)
    return packets.transpose(1, 2, 0)


def _absorb_tails(
    state: _Lanes, buffer: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
) -> None:
    """Absorb what each message has left past its last whole packet: 1 to 31 bytes, padded to a packet, or nothing."""
    tails = sizes % _PACKET
    (which,) = tails.nonzero()
    if not len(which):
        return
    tails = tails[which]
    places = _TAIL[tails]
    packets = buffer[np.maximum(places, 0) + (starts + sizes)[which, None] - tails[:, None]]
    packets[places < 0] = 0

    part = state.take(which, axis=1)
    count = tails.astype(np.uint64)
    part[:4] += count << 32 | count
    halves = part[4:8].view("<u4")
    turn = np.repeat(count.astype(np.uint32), 2)
    halves[:] = halves << turn | halves >> (32 - turn)
    _updaters(part)(len(which))(packets.view("<u8").T)
    state[:, which] = part


def _check(
    buffer: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    if buffer.dtype != np.uint8 or buffer.ndim != 1 or not buffer.flags.c_contiguous:
        raise ValueError(
            f"buffer must be contiguous bytes, got {buffer.dtype} of shape {buffer.shape}, strides {buffer.strides}"
        )
    starts, sizes = np.asarray(starts, np.int64), np.asarray(sizes, np.int64)
    if starts.ndim != 1 or starts.shape != sizes.shape:
        raise ValueError(f"starts and sizes must be of one shape (n,), got {starts.shape} and {sizes.shape}")
    # Written so that nothing overflows: sizes are bounded before they are added to anything.
    bad = (starts < 0) | (sizes < 0) | (sizes > len(buffer)) | (starts > len(buffer) - np.minimum(sizes, len(buffer)))
    if bad.any():
        k = int(bad.argmax())
        raise ValueError(
            f"message {k} is bytes {starts[k]} to {starts[k]} + {sizes[k]}, outside the buffer of {len(buffer)} bytes"
        )
    return starts, sizes
