"""CRC32C, from the library that has it in hardware."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["load_crc32c"]


def load_crc32c() -> Callable[[bytes], int]:
    """Return the function that gives the CRC32C (Castagnoli) of some bytes, importing it now: 0.2 us for 800 bytes.

    Raises:
      ImportError: google-crc32c is not installed; it is one of arrayfeed's own requirements.
    """
    import google_crc32c

    value: Callable[[bytes], int] = google_crc32c.value
    return value
