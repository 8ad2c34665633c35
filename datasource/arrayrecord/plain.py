"""Chunks of one uncompressed record each, by far the most of them: recognised many at a time, by their first bytes.

Such a chunk is a header of 40 bytes, a byte 0 for no compression, the length of the sizes buffer as a varint, that buffer (the
record's length as a varint), and the record.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
import numpy.typing as npt

from ..memory import Extents
from ..varint import encode_varint
from .blocks import BLOCK_HEADER_BYTES, USABLE_BYTES
from .chunk import CHUNK_HEADER_BYTES, SIMPLE

__all__ = ["ONE_SIMPLE", "PLAIN_HEAD", "find_plain", "has_one_head", "head_bytes", "place_plain"]

Ints = npt.NDArray[np.int64]

#: The kind of a chunk and its number of records, as one word of the header.
ONE_SIMPLE: Final = SIMPLE | 1 << 8
#: data_size, kind, decoded_size, codec, bytes of the sizes buffer.
PLAIN_HEAD: Final = struct.Struct("<8xQ8xQQBB")
_HEAD_DTYPE = np.dtype(
    {
        "names": ["data_size", "kind", "decoded_size", "codec", "sizes_bytes"],
        "formats": ["<u8", "<u8", "<u8", "u1", "u1"],
        "offsets": [8, 24, 32, 40, 41],
        "itemsize": PLAIN_HEAD.size,
    }
)
_HEADER = struct.Struct("<8xQ8xQQ")
#: The header and what stands before the record fit 48 bytes for records of up to 2**28 bytes.
_HEAD_WORDS = 6


def head_bytes(sizes: Ints) -> Ints:
    """Return what stands before a record of each size in a plain chunk: 43 bytes, 44 from 128 on, 45 from 16,384 on ..."""
    return PLAIN_HEAD.size + 1 + np.searchsorted(_VARINT_STEPS, sizes, side="right")


def place_plain(starts: Ints, stops: Ints, sizes: Ints, offset: Ints | int = 0) -> Ints:
    """Return where in its file each record begins, or minus that for one that crosses a block's boundary and so is nowhere in
    one piece; 0 for one that cannot be plain, because its chunk has another length.

    Args:
      starts, stops: Logical positions at which its chunk begins and ends.
      sizes: Bytes of the record.
      offset: Where the file, or each one's, begins among others that lie side by side.
    """
    begins = starts + head_bytes(sizes if sizes.strides[0] else sizes[:1])  # of one size: the same for all
    blocks = begins // USABLE_BYTES + 1  # a remainder takes NumPy 4 times as long, and this is most of opening a shard
    physical = begins + blocks * BLOCK_HEADER_BYTES
    physical += offset
    ends = begins + sizes
    blocks *= USABLE_BYTES
    places = np.where(ends <= blocks, physical, -physical)
    other = ends != stops
    if other.any():
        places[other] = 0
    return places


def find_plain(chunks: Extents, sizes: Ints) -> tuple[npt.NDArray[np.bool_] | None, Ints | int]:
    """Return which chunks are plain and as their headers should say, None for all; and where in each the record starts.

    Args:
      chunks: Each of at least 42 bytes.
      sizes: What the shard's index says of each record's length.
    """
    if (sizes == sizes[0]).all() and (start := _find_alike(chunks, int(sizes[0]))):
        return None, start
    heads = chunks.field(0, _HEAD_DTYPE)[:, 0]
    starts = PLAIN_HEAD.size + heads["sizes_bytes"].astype(np.int64)
    fits = (heads["codec"] == 0) & (heads["kind"] == ONE_SIMPLE) & (heads["decoded_size"] == sizes)
    fits &= heads["data_size"].astype(np.int64) + CHUNK_HEADER_BYTES == starts + sizes
    fits &= (starts + sizes <= chunks.sizes) & (heads["sizes_bytes"] < 128)
    return (None if fits.all() else fits), starts


def has_one_head(varies: npt.NDArray[np.uint8], size: int) -> bool:
    """Return whether chunks that differ in some bits only, headers included, are all plain where one is, of ``size`` bytes."""
    prefix_bytes = int(head_bytes(np.array([size]))[0]) - CHUNK_HEADER_BYTES
    mask = _mask_of(prefix_bytes).view(np.uint8)[: varies.size - 8]
    return not (varies[8 : 8 + mask.size] & mask).any()


def _find_alike(chunks: Extents, size: int) -> int:
    """Return where in all of ``chunks`` a plain record of ``size`` bytes starts, 0 if one of them is something else.

    Records of one size have equal headers but for the hashes: a comparison of whole words takes a third of the time.
    """
    prefix = bytes(1) + encode_varint(len(encode_varint(size))) + encode_varint(size)
    start = CHUNK_HEADER_BYTES + len(prefix)
    if start + size > chunks.smallest or chunks.smallest < _HEAD_WORDS * 8 or start > _HEAD_WORDS * 8:
        return 0
    header = _HEADER.pack(len(prefix) + size, ONE_SIMPLE, size)
    known = np.frombuffer((header + prefix).ljust(_HEAD_WORDS * 8, bytes(1)), "<u8")[1:]
    return start if chunks.differing(8, known, _mask_of(len(prefix))) is None else 0


def _mask_of(prefix_bytes: int) -> npt.NDArray[np.uint64]:
    """Return which bits of the words behind the header hash are the same in all plain chunks of one size."""
    mask = np.zeros(_HEAD_WORDS * 8, np.uint8)
    mask[8:16] = mask[24 : CHUNK_HEADER_BYTES + prefix_bytes] = 0xFF
    return mask.view("<u8")[1:]


#: From these sizes on a varint takes one byte more.
_VARINT_STEPS = np.int64(1) << np.arange(7, 63, 7)
