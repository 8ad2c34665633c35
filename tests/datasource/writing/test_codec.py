"""Codec strings, what array_record makes of them, and the choice of "auto"."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from array_record.python.array_record_module import ArrayRecordWriter

from arrayfeed.datasource.arrayrecord.cache import GroupCache
from arrayfeed.datasource.arrayrecord.reader import ShardReader
from arrayfeed.datasource.arrayrecord.source import ArrayRecordDataSource
from arrayfeed.datasource.features import Tensor
from arrayfeed.datasource.writing import DatasetWriter
from arrayfeed.datasource.writing.codec import SAMPLE_BYTES, SAMPLE_RECORDS, check_codec, choose_codec, writer_options

CODECS = ["none", "zstd", "zstd:1", "zstd:22", "zstd:-7", "brotli", "brotli:0", "brotli:11", "snappy"]


@pytest.mark.parametrize("codec", CODECS)
def test_array_record_takes_every_codec_that_is_let_through(tmp_path: Path, codec: str) -> None:
    """The options of each are understood, compress where they should, and read back."""
    path = tmp_path / "shard"
    writer = ArrayRecordWriter(str(path), writer_options(check_codec(codec)))
    records = [bytes(3000), b"", b"abc" * 1000]
    for record in records:
        writer.write(record)
    writer.close()

    assert list(ArrayRecordDataSource(path)) == records
    stored = path.read_bytes()
    assert (b"abc" * 100 in stored) == (codec == "none")
    reader = ShardReader(str(path), io="pread", check="hash", max_chunk_bytes=1 << 20, cache=GroupCache())
    assert reader.index.record_ends is None  # one record in every chunk


@pytest.mark.parametrize(
    ("codec", "message"),
    [
        ("gzip", "codec 'gzip' is unknown; take 'auto', 'none', 'zstd'"),
        ("", "codec '' is unknown"),
        ("none:3", "unknown"),
        ("snappy:1", "unknown"),
        ("auto:3", "unknown"),
        ("zstd:23", "level of zstd must be an integer, -131072 <= level <= 22"),
        ("brotli:12", "0 <= level <= 11"),
        ("brotli:-1", "0 <= level <= 11"),
        ("zstd:fast", "must be an integer"),
        ("zstd:", "must be an integer"),
        ("zstd:3,transpose", "must be an integer"),
    ],
)
def test_other_codecs_are_refused_with_what_there_is(codec: str, message: str) -> None:
    """A misspelt codec is an error at once, and nothing else gets into array_record's options."""
    with pytest.raises(ValueError, match=message):
        check_codec(codec)


@pytest.mark.parametrize("codec", ["zstd", "brotli", "snappy"])
def test_redundant_data_take_less_room(tmp_path: Path, codec: str) -> None:
    """In every codec but none."""
    sizes = []
    features = {"x": Tensor(shape=(1000,), dtype=np.uint8, encoding="bytes")}
    for each in ("none", codec):
        with DatasetWriter(tmp_path / each, features, codec=each) as writer:
            writer.write_columns({"x": np.tile(np.arange(10, dtype=np.uint8), (1000, 100))})
        sizes.append(sum(path.stat().st_size for path in (tmp_path / each).glob("*array_record*")))

    assert sizes[1] < 0.3 * sizes[0]


def test_auto_compresses_only_where_it_pays(rng: np.random.Generator) -> None:
    """What shrinks by a quarter is compressed; noise, encoded images, empty records and no records are not."""
    noise = [rng.bytes(2000) for _ in range(20)]
    mixed = [record[:1400] + bytes(600) for record in noise]
    barely = [record[:1700] + bytes(300) for record in noise]

    assert choose_codec([bytes(2000)] * 20) == "zstd"
    assert choose_codec(mixed) == "zstd"
    assert choose_codec(barely) == "none"
    assert choose_codec(noise) == "none"
    assert choose_codec([b"", b""]) == "none"
    assert choose_codec([]) == "none"


def test_auto_looks_at_the_first_records_only(rng: np.random.Generator) -> None:
    """So many, or so many bytes: whether they come one by one or by the thousand, the choice is the same."""
    zeros, noise = bytes(1000), rng.bytes(1000)
    large_zeros, large_noise = bytes(SAMPLE_BYTES), rng.bytes(SAMPLE_BYTES)

    assert choose_codec([noise] * SAMPLE_RECORDS + [zeros] * 10_000) == "none"
    assert choose_codec([zeros] * SAMPLE_RECORDS + [noise] * 10_000) == "zstd"
    assert choose_codec([large_noise] + [large_zeros] * 10) == "none"
    assert choose_codec([large_zeros] + [large_noise] * 10) == "zstd"
