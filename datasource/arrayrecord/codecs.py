"""The four compressions of a chunk's buffers. Every decoder knows beforehand how much may come out, and gives just that."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

__all__ = ["CODECS", "CodecError", "decompress"]

#: Compression byte of a chunk -> its name.
CODECS = {0: "none", ord("z"): "zstd", ord("b"): "brotli", ord("s"): "snappy"}

_local = threading.local()


class CodecError(ValueError):
    """Compressed bytes are damaged, or hold another number of bytes than they should."""


def decompress(codec: int, data: memoryview, size: int) -> bytes | memoryview:
    """Return the ``size`` bytes that ``data`` holds under ``codec``, a key of ``CODECS``.

    No more than ``size`` bytes are ever produced, so the caller bounds memory by bounding ``size``. Threads may call it.

    Raises:
      CodecError: Damaged data, or data of another decompressed size.
    """
    if codec == 0:
        if len(data) != size:
            raise CodecError(f"{len(data)} bytes are stored where {size} are expected")
        return data
    if size == 0:
        # riegeli writes the frame of an empty buffer or leaves it out; either way nothing is to be read from it.
        return b""
    return _DECODERS[codec](data, size)


def _decompress_zstd(data: memoryview, size: int) -> bytes:
    import zstandard

    decoder = getattr(_local, "zstd", None)
    if decoder is None:
        # One context a thread: making one costs more than decoding a small record.
        decoder = _local.zstd = zstandard.ZstdDecompressor()
    try:
        # A frame that states its size makes the decoder allocate that much, whatever the limit: look first.
        stated = zstandard.frame_content_size(data)
        if stated not in (-1, size):
            raise CodecError(f"a zstd frame of {stated} bytes stands where {size} are expected")
        out: bytes = decoder.decompress(data, max_output_size=size)
    except zstandard.ZstdError as error:
        raise CodecError(str(error)) from None
    if len(out) != size:
        raise CodecError(f"zstd gave {len(out)} bytes where {size} are expected")
    return out


def _decompress_brotli(data: memoryview, size: int) -> memoryview:
    from cramjam import brotli

    return _decompress_into(brotli.decompress_into, "brotli", data, size)


def _decompress_snappy(data: memoryview, size: int) -> memoryview:
    from cramjam import snappy

    return _decompress_into(snappy.decompress_raw_into, "snappy", data, size)


def _decompress_into(decode: Callable[[memoryview, memoryview], int], name: str, data: memoryview, size: int) -> memoryview:
    from cramjam import DecompressionError

    out = np.empty(size, np.uint8).data  # not bytearray, which would write all of a size that is a lie
    try:
        count = decode(data, out)
    except DecompressionError as error:
        raise CodecError(f"{name}: {error} (expected {size} bytes)") from None
    if count != size:
        raise CodecError(f"{name} gave {count} bytes where {size} are expected")
    return out


_DECODERS: dict[int, Callable[[memoryview, int], bytes | memoryview]] = {
    ord("z"): _decompress_zstd,
    ord("b"): _decompress_brotli,
    ord("s"): _decompress_snappy,
}
