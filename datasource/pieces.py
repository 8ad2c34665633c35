"""Many byte ranges in a few buffers, and the one gather that everything fast is built on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Piece", "gather", "join"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Byte ranges that lie in one buffer: range ``k`` is ``buffer[starts[k] : starts[k] + sizes[k]]``.

    Attributes:
      rows: Which of the asked ranges these are, int64.
      buffer: uint8, not to be written to: it may be a mapped file itself.
      starts, sizes: int64, one a row, every range within the buffer.
    """

    rows: npt.NDArray[np.int64]
    buffer: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]


def join(rows: npt.NDArray[np.int64], parts: list[bytes | memoryview]) -> Piece:
    """Return ``parts`` end to end in a new buffer."""
    sizes = np.fromiter(map(len, parts), np.int64, len(parts))
    return Piece(rows, np.frombuffer(b"".join(parts), np.uint8), np.cumsum(sizes) - sizes, sizes)


def gather(
    buffer: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], dtype: Any, count: int = 1
) -> npt.NDArray[Any]:
    """Return ``count`` values of ``dtype`` from each byte offset of a buffer, shape ``(len(offsets), count)``.

    The buffer is seen as one void element at every byte offset, so that NumPy copies each range in one piece, without the
    GIL and without a loop: 6 times faster than an index array over single bytes, for 784 of them.

    Raises:
      IndexError: An offset is out of bounds.
    """
    dtype = np.dtype(dtype)
    width = dtype.itemsize * count
    if not width or not offsets.size:
        return np.empty((offsets.size, count), dtype)
    view: npt.NDArray[Any] = np.ndarray((max(buffer.size - width + 1, 0),), f"V{width}", buffer, 0, (1,))
    found: npt.NDArray[Any] = view[offsets].view(dtype)
    return found.reshape(offsets.size, count)
