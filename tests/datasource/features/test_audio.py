"""Audio: samples, WAV files, files that are kept."""

from __future__ import annotations

import io
import os
import struct
import wave
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from arrayfeed.datasource.errors import DecodeError, SchemaError
from arrayfeed.datasource.features import Audio
from arrayfeed.datasource.features.wav import decode_wav
from support.equal import difference


def riff(chunks: list[tuple[bytes, bytes]]) -> bytes:
    body = b"".join(kind + struct.pack("<I", len(content)) + content + bytes(len(content) % 2) for kind, content in chunks)
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WAVE" + body


def header(kind: int, channels: int, bits: int, rate: int = 8000) -> tuple[bytes, bytes]:
    return b"fmt ", struct.pack("<HHIIHH", kind, channels, rate, rate * channels * bits // 8, channels * bits // 8, bits)


def wav(samples: npt.NDArray[Any], rate: int = 8000) -> bytes:
    """Return a file of samples of shape (length, channels) by the standard library."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(samples.shape[1])
        file.setsampwidth(samples.dtype.itemsize)
        file.setframerate(rate)
        file.writeframes(samples.tobytes())
    return buffer.getvalue()


NOISE = np.random.default_rng(0)


@pytest.mark.parametrize("channels", [1, 2, 5])
@pytest.mark.parametrize("dtype", ["i2", "i4"])
def test_what_the_standard_library_writes_is_read(dtype: str, channels: int) -> None:
    samples = NOISE.integers(-30_000, 30_000, (17, channels)).astype(dtype)
    found, rate = decode_wav(wav(samples, 44_100))
    assert rate == 44_100
    assert not difference(found, samples)


def test_samples_of_8_bits_are_made_signed() -> None:
    found, _ = decode_wav(wav(np.array([[0], [127], [128], [255]], np.uint8)))
    assert not difference(found, np.array([[-128], [-1], [0], [127]], np.int8))


def test_samples_of_24_bits_fill_the_upper_ones_of_32() -> None:
    values = [0, 1, -1, 2**23 - 1, -(2**23)]
    raw = b"".join((value & 0xFFFFFF).to_bytes(3, "little") for value in values)
    found, _ = decode_wav(riff([header(1, 1, 24), (b"data", raw)]))
    assert found[:, 0].tolist() == [value * 256 for value in values]


@pytest.mark.parametrize("bits", [32, 64])
def test_floating_point_samples_are_read(bits: int) -> None:
    samples = NOISE.normal(size=(7, 2)).astype(f"f{bits // 8}")
    found, _ = decode_wav(riff([header(3, 2, bits), (b"fact", b"abc"), (b"data", samples.tobytes())]))
    assert not difference(found, samples)


def test_the_extensible_header_and_other_chunks_are_read() -> None:
    kind, layout = header(0xFFFE, 1, 16)
    chunks = [
        (b"LIST", b"odd"),
        (kind, layout + struct.pack("<HHIH", 22, 16, 0, 1) + bytes(14)),
        (b"data", b"\x01\x00\x02\x00"),
    ]
    assert decode_wav(riff(chunks))[0].tolist() == [[1], [2]]


def test_a_size_that_was_not_known_yet_ends_with_the_file() -> None:
    """Writers to a pipe put the largest number there."""
    data = bytearray(wav(np.array([[1], [2]], np.int16)))
    data[40:44] = b"\xff\xff\xff\xff"
    assert decode_wav(bytes(data) + b"\x07")[0].tolist() == [[1], [2]]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "a WAV file expected"),
        (b"ID3\x03mp3", "a WAV file expected, 7 bytes begin b'ID3"),
        (riff([]), "without samples"),
        (riff([(b"data", b"ab")]), "without samples"),
        (riff([header(1, 1, 16)]), "without samples"),
        (riff([(b"fmt ", b"\x01\x00"), (b"data", b"")]), "header of 2 bytes is too short"),
        (riff([(b"fmt ", header(0xFFFE, 1, 16)[1]), (b"data", b"")]), "too short"),
        (riff([header(2, 1, 4), (b"data", b"")]), "WAV format 2 with 4 bits"),
        (riff([header(1, 0, 16), (b"data", b"")]), "0 channels"),
        (riff([header(1, 1, 12), (b"data", b"")]), "12 bits"),
    ],
)
def test_what_is_no_wav_file_is_an_error(data: bytes, message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        decode_wav(data)


MONO = np.array([[100], [-200], [300]], np.int16)
STEREO = np.array([[100, 200], [-5, -2], [32767, 32767]], np.int16)


@pytest.mark.parametrize(
    ("shape", "file", "expected"),
    [
        ((None,), MONO, [100, -200, 300]),
        ((3,), MONO, [100, -200, 300]),
        ((None, 1), MONO, [[100], [-200], [300]]),
        ((None, 2), MONO, [[100, 100], [-200, -200], [300, 300]]),
        ((None, None), STEREO, STEREO.tolist()),
        ((None,), STEREO, [150, -4, 32767]),
        ((None,), np.array([[10, 20, 31]], np.int16), [20 - 1 + 0]),
    ],
)
def test_channels_become_those_of_the_shape(shape: Any, file: Any, expected: Any) -> None:
    """One is repeated; two are averaged, rounding down; of more, each one's share is."""
    feature = Audio(shape=shape, dtype=np.int32, file_format="wav")
    lazy = Audio(shape=shape, dtype=np.int32, file_format="wav", lazy_decode=True)
    for each in (feature, lazy):
        if shape == (None, None) and each is feature:
            continue  # Stored sample by sample, two unknown lengths cannot be told apart.
        assert not difference(each.decode(each.encode(wav(file))), np.array(expected, np.int32))


def test_whatever_holds_a_sound_may_be_given(tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    path.write_bytes(wav(MONO))
    feature = Audio(dtype=np.int16)
    for given in (path, os.fspath(path), wav(MONO), io.BytesIO(wav(MONO)), MONO[:, 0], [100, -200, 300]):
        assert not difference(feature.decode(feature.encode(given)), MONO[:, 0])


def test_files_are_kept_where_decoding_is_lazy() -> None:
    feature = Audio(file_format="mp3", lazy_decode=True, shape=(None,), dtype=np.float32)
    assert feature.encode(b"any file") == [b"any file"]
    assert feature.decode([b"any file"]) == b"any file"
    assert not feature.stored_raw


@pytest.mark.parametrize(
    ("feature", "value", "message"),
    [
        (Audio(lazy_decode=True), [1, 2], "an audio file expected, got list"),
        (Audio(), b"mp3 mp3 mp3", "a WAV file expected.*give other files as arrays"),
        (Audio(), riff([header(3, 1, 32), (b"data", bytes(4))]), "floating-point samples do not become int64"),
        (Audio(shape=(None, 2)), wav(np.zeros((1, 3), np.int16)), "3 channels do not become 2"),
        (Audio(shape=(2,)), wav(MONO), r"shape \(2,\) expected, got \(3,\)"),
        (Audio(dtype=np.int8), [300], "out of its range"),
    ],
)
def test_what_does_not_fit_is_refused(feature: Audio, value: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        feature.encode(value)


def test_audio_has_one_or_two_axes() -> None:
    with pytest.raises(SchemaError, match="length, channels"):
        Audio(shape=(1, 2, 3))


def test_a_lazy_file_that_is_none_is_an_error() -> None:
    feature = Audio(file_format="wav", lazy_decode=True)
    for values, message in (([b"x"], "WAV file expected"), ([], "one audio file"), (None, "no value")):
        with pytest.raises(DecodeError, match=message):
            feature.decode(values)
