"""Where the bytes of a chunk lie: 65,536-byte blocks, each opened by a 24-byte header that lies inside whatever crosses it.

Without the block headers a file is one unbroken stream. Positions in that stream are called *logical* here; in them every
chunk is contiguous, and all arithmetic is addition. Layout: riegeli, ``doc/riegeli_records_file_format.md``.

    physical   0..23    24..65535   65536..65559   65560..131071
    logical    header   0..65511    header         65512..131023
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["BLOCK_BYTES", "BLOCK_HEADER_BYTES", "USABLE_BYTES", "strip_block_headers", "to_logical", "to_physical"]

BLOCK_BYTES = 65536
BLOCK_HEADER_BYTES = 24
USABLE_BYTES = BLOCK_BYTES - BLOCK_HEADER_BYTES

# A position, or an int64 array of them.
P = TypeVar("P", int, npt.NDArray[np.int64])


def to_logical(physical: P) -> P:
    """Return the logical position of a physical one; one inside a block header means the first byte behind it."""
    block, place = physical // BLOCK_BYTES, physical % BLOCK_BYTES
    if isinstance(place, int):
        return block * USABLE_BYTES + max(place - BLOCK_HEADER_BYTES, 0)
    return block * USABLE_BYTES + np.maximum(place - BLOCK_HEADER_BYTES, 0)


def to_physical(logical: P) -> P:
    """Return the byte of the file at which a logical position lies."""
    return logical + BLOCK_HEADER_BYTES * (logical // USABLE_BYTES + 1)


def strip_block_headers(data: memoryview, physical: int) -> bytes:
    """Return ``data``, which was read at ``physical`` (never inside a block header), without the block headers in it."""
    first = BLOCK_BYTES - physical % BLOCK_BYTES
    pieces = [data[:first]]
    for start in range(first, len(data), BLOCK_BYTES):
        pieces.append(data[start + BLOCK_HEADER_BYTES : start + BLOCK_BYTES])
    return b"".join(pieces)
