"""What is read of all shards at once by a record index is what each shard by itself would have given, errors included."""

from __future__ import annotations

import shutil
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import arrayfeed
from arrayfeed.datasource.arrayrecord.source import ArrayRecordDataSource
from arrayfeed.datasource.errors import CorruptShardError

#: Around the lengths at which a varint takes a byte more, and one that no block holds.
LENGTHS = [0, 1, 5, 100, 127, 128, 129, 800, 16_383, 16_384, 20_000, 70_000]


def write(path: Path, rng: np.random.Generator, lengths: list[int], codec: str = "none") -> list[bytes]:
    """Write texts of these lengths, 20 to a shard; return the records in their order."""
    with arrayfeed.DatasetWriter(path, {"text": arrayfeed.features.Text()}, codec=codec, shard_records=20) as writer:
        for length in lengths:
            writer.write({"text": rng.integers(0, 256, length, dtype=np.uint8).tobytes()})
    return list(arrayfeed.open(path, split="train", raw=True, io="pread"))


def open_records(path: Path) -> ArrayRecordDataSource:
    source = arrayfeed.open(path, split="train", raw=True, io="mmap")
    assert isinstance(source, ArrayRecordDataSource)
    return source


def is_shortcut(source: ArrayRecordDataSource) -> bool:
    """Whether batches are read of all shards at once."""
    opened = source._hold()
    reads = opened.indexed
    open_shard = partial(source._reader, opened)
    return reads is not None and reads.gather(np.arange(len(source)), opened, open_shard) is not None


@pytest.mark.parametrize("lengths", [LENGTHS * 12, [800] * 130, [70_000] * 45], ids=["any length", "one length", "two blocks"])
def test_every_record_is_what_its_shard_gives(tmp_path: Path, rng: np.random.Generator, lengths: list[int]) -> None:
    """In any order, whatever was read before, in batches over all shards."""
    records = write(tmp_path / "data", rng, [int(length) for length in rng.permutation(lengths)])
    source = open_records(tmp_path / "data")
    for _ in range(12):
        chosen = rng.integers(0, len(records), int(rng.integers(1, 40)))
        assert source[chosen] == [records[index] for index in chosen]

    assert source[range(len(records))] == records
    assert is_shortcut(open_records(tmp_path / "data"))
    assert open_records(tmp_path / "data")[[3]] == records[3:4]


def test_a_part_of_a_split_is_counted_from_its_own_start(tmp_path: Path, rng: np.random.Generator) -> None:
    """Slices of shards, and shards left out."""
    records = write(tmp_path / "data", rng, LENGTHS * 8)
    source = arrayfeed.open(tmp_path / "data", split="train[33:81]", raw=True, io="mmap")

    assert is_shortcut(source)
    assert arrayfeed.open(tmp_path / "data", split="train[33:81]", raw=True, io="mmap")[range(48)] == records[33:81]


def test_compressed_records_take_the_usual_way(tmp_path: Path, rng: np.random.Generator) -> None:
    """There is nothing to point at in a compressed file."""
    records = write(tmp_path / "data", rng, [200] * 70, codec="zstd")
    source = open_records(tmp_path / "data")

    assert source[[65, 2, 2]] == [records[65], records[2], records[2]]
    assert not is_shortcut(source)


def test_a_flipped_bit_raises_what_the_shard_by_itself_raises(tmp_path: Path, rng: np.random.Generator) -> None:
    """Of 300 flips anywhere among the records, each is named alike, or does no harm to either."""
    write(tmp_path / "data", rng, LENGTHS * 5)
    noticed = 0
    for trial in range(300):
        copy = tmp_path / str(trial)
        shutil.copytree(tmp_path / "data", copy)
        shard = sorted(copy.glob("*.array_record-*"))[trial % 3]
        data = bytearray(shard.read_bytes())
        used = np.flatnonzero(np.frombuffer(bytes(data), np.uint8))
        data[int(rng.choice(used))] ^= 1 << int(rng.integers(8))
        shard.write_bytes(data)
        found = [describe(copy, shortcut) for shortcut in (True, False)]
        assert found[0] == found[1]
        noticed += found[0] != ""
        shutil.rmtree(copy)

    assert noticed > 200


def describe(path: Path, shortcut: bool) -> str:
    """Return what reading all records in one batch raises, "" for nothing."""
    source = open_records(path)
    if not shortcut:
        source._hold().indexed = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # where the flip is in what the index knows the shard by
            source[range(len(source))]
    except CorruptShardError as error:
        return f"{error} {error.record}"
    return ""
