"""WAV files to samples.

Layout: chunks of a RIFF container, https://www.mmsp.ece.mcgill.ca/Documents/AudioFormats/WAVE/WAVE.html. The standard library's
``wave`` reads neither floating-point samples nor the extensible header before Python 3.12.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DecodeError

__all__ = ["decode_wav", "mix_channels"]

_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE


def decode_wav(data: bytes) -> tuple[npt.NDArray[Any], int]:
    """Return the samples, shape ``(length, channels)``, and the sample rate in Hz of a WAV file.

        8 bits     int8 (the file's unsigned samples less 128)        32 bits          int32
        16 bits    int16                                              floating point   float32, float64
        24 bits    int32, in the upper 24 bits

    Raises:
      DecodeError: The bytes are no WAV file, or its samples are compressed.
    """
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        raise DecodeError(f"a WAV file expected, {len(data)} bytes begin {data[:12]!r}")
    layout: tuple[int, int, int, int] | None = None
    at = 12
    while at + 8 <= len(data):
        kind, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        at += 8
        if kind == b"fmt ":
            layout = _read_layout(data[at : at + size])
        elif kind == b"data":
            if layout is None:
                break
            # Writers to a pipe do not know the size and put the largest number there: the file's end is the end.
            return _read_samples(data[at : at + size], layout), layout[2]
        at += size + size % 2
    raise DecodeError(f"a WAV file of {len(data)} bytes without samples; it is damaged or cut short")


def mix_channels(samples: npt.NDArray[Any], channels: int | None) -> npt.NDArray[Any]:
    """Return samples of shape ``(length, found)`` with as many ``channels``: one is repeated, several are averaged to one.

    Args:
      channels: How many; ``None`` for those found.

    Raises:
      DecodeError: Several are to become several others.
    """
    found = samples.shape[1]
    if channels in (None, found):
        return samples
    if found == 1:
        return np.repeat(samples, channels or 1, axis=1)
    if channels != 1:
        raise DecodeError(f"{found} channels do not become {channels}")
    if samples.dtype.kind == "f":
        return np.asarray(samples.mean(axis=1, keepdims=True), samples.dtype)
    # As pydub mixes, and so TFDS: two are added before the half is taken; of more, each one's share is rounded down.
    wide = samples.astype(np.int64)
    mixed: npt.NDArray[Any] = wide.sum(axis=1) // 2 if found == 2 else (wide // found).sum(axis=1)
    return mixed[:, None]


def _read_layout(chunk: bytes) -> tuple[int, int, int, int]:
    """Return format, channels, rate and bits per sample."""
    try:
        kind, channels, rate, _bytes_per_second, _bytes_per_frame, bits = struct.unpack_from("<HHIIHH", chunk)
        if kind == _EXTENSIBLE:
            (kind,) = struct.unpack_from("<H", chunk, 24)
    except struct.error:
        raise DecodeError(f"a WAV header of {len(chunk)} bytes is too short") from None
    return kind, channels, rate, bits


def _read_samples(raw: bytes, layout: tuple[int, int, int, int]) -> npt.NDArray[Any]:
    kind, channels, _rate, bits = layout
    if channels == 0 or (kind, bits) not in {(_PCM, 8), (_PCM, 16), (_PCM, 24), (_PCM, 32), (_FLOAT, 32), (_FLOAT, 64)}:
        raise DecodeError(f"WAV format {kind} with {bits} bits and {channels} channels; only PCM and floating point are read")
    raw = raw[: len(raw) - len(raw) % (channels * bits // 8)]
    samples: npt.NDArray[Any]
    if kind == _FLOAT:
        samples = np.frombuffer(raw, f"<f{bits // 8}").astype(f"f{bits // 8}")
    elif bits == 8:
        samples = (np.frombuffer(raw, np.uint8) ^ 128).view(np.int8)
    elif bits == 24:
        wide = np.zeros((len(raw) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(raw, np.uint8).reshape(-1, 3)
        samples = wide.view("<i4")[:, 0].astype(np.int32)
    else:
        samples = np.frombuffer(raw, f"<i{bits // 8}").astype(f"i{bits // 8}")
    return samples.reshape(-1, channels)
