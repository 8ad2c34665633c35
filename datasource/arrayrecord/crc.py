"""CRC32C, from the library that has it in hardware."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["load_crc32c", "load_crc32c_extend"]


def load_crc32c() -> Callable[[bytes | npt.NDArray[np.uint8]], int]:
    """Return the function that gives the CRC32C (Castagnoli) of some bytes, importing it now: 0.2 us for 800 bytes.

    An array, which must be read-only, is read in place.

    Raises:
      ImportError: google-crc32c is not installed; it is one of arrayfeed's own requirements.
    """
    import google_crc32c

    value: Callable[[bytes | npt.NDArray[np.uint8]], int] = google_crc32c.value
    return value


def load_crc32c_extend() -> Callable[[int, bytes | npt.NDArray[Any]], int]:
    """Return the function that gives the CRC32C of what one was taken of and more, as ``load_crc32c`` does."""
    import google_crc32c

    extend: Callable[[int, bytes | npt.NDArray[Any]], int] = google_crc32c.extend
    return extend
