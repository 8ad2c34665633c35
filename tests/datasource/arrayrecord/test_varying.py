"""What an index says that chunks have in common is true, saves looking at each, and does no harm where it is a lie."""

from __future__ import annotations

import json
import struct
import zlib
from base64 import b64encode
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest

import arrayfeed
from arrayfeed import features
from arrayfeed.datasource.arrayrecord.file import open_file
from arrayfeed.datasource.arrayrecord.record_index import RecordIndex
from arrayfeed.datasource.arrayrecord.varying import Varying, pack_bits, unpack_bits
from arrayfeed.datasource.errors import DataError
from arrayfeed.datasource.indexing import build_indexes

FEATURES: dict[str, Any] = {
    "image": features.Tensor(shape=(28, 28), dtype=np.uint8, encoding="bytes"),
    "label": features.ClassLabel(num_classes=10),
}


def write(path: Path, rng: np.random.Generator, count: int = 1000) -> dict[str, Any]:
    """Write small images in shards of 300, some of which cross blocks; return their columns."""
    columns = {"image": rng.integers(0, 256, (count, 28, 28), np.uint8), "label": rng.integers(0, 10, count)}
    with arrayfeed.DatasetWriter(path, FEATURES, codec="none", shard_records=300) as writer:
        writer.write_columns(columns)
    return columns


def index_of(path: Path) -> Path:
    (found,) = path.glob("*.record_index")
    return found


def describe(path: Path) -> dict[str, Any]:
    written = index_of(path).read_bytes()
    found: dict[str, Any] = json.loads(written[32 : 32 + int.from_bytes(written[16:24], "little")])
    return found


def redescribe(path: Path, description: dict[str, Any]) -> None:
    """Say something else in an index, whose arrays stay as they are."""
    index = index_of(path)
    written = index.read_bytes()
    before = 32 + int.from_bytes(written[16:24], "little")
    text = json.dumps(description).encode()
    head = written[:16] + struct.pack("<QII", len(text), google_crc32c.value(text), 0) + text
    index.unlink()  # it may be mapped
    index.write_bytes(head + bytes(-len(head) % 64) + written[-(-before // 64) * 64 :])


def read(path: Path, indices: Any) -> dict[str, Any]:
    source = arrayfeed.open(path, split="train", io="mmap")
    few: Any = source.read_batch(indices[:7])
    batch: dict[str, Any] = source.read_batch(indices)
    assert all((few[name] == batch[name][:7]).all() for name in FEATURES)
    return batch


def test_it_says_in_which_bits_chunks_differ(tmp_path: Path, rng: np.random.Generator) -> None:
    """As comparing each with the first one does, over shards and blocks."""
    write(tmp_path / "data", rng)
    index = RecordIndex(str(index_of(tmp_path / "data")))
    assert index.alike is not None
    first, stride, _ = index.alike
    chunks = []
    for shard in sorted((tmp_path / "data").glob("*.array_record-*")):
        file = open_file(str(shard), "pread")
        found = index.lookup(shard.name)
        assert found is not None
        chunks += [bytes(file.read(first + k * stride, stride)) for k in range(found.index.num_records)]
    differing = [0] * stride
    for chunk in chunks:
        differing = [seen | ours ^ theirs for seen, ours, theirs in zip(differing, chunk, chunks[0], strict=True)]

    assert index.varies is not None and index.varies.tolist() == differing
    assert len(chunks) == 1000 and 0 < np.count_nonzero(index.varies) < stride


def test_an_index_of_what_was_appended_to_is_the_one_made_of_all_shards(tmp_path: Path, rng: np.random.Generator) -> None:
    """Shards that were there are not read again: what they have in common is in their index."""
    write(tmp_path / "data", rng)
    with arrayfeed.DatasetWriter(tmp_path / "data", FEATURES, codec="none", shard_records=300, mode="append") as writer:
        writer.write_columns({"image": np.zeros((50, 28, 28), np.uint8), "label": np.arange(50) % 10})
    appended = describe(tmp_path / "data")
    list(build_indexes(tmp_path / "data"))

    assert appended["varies"] and appended == describe(tmp_path / "data")


def test_nothing_is_said_of_chunks_of_several_lengths_or_long_ones(tmp_path: Path, rng: np.random.Generator) -> None:
    """Such an index is read as before."""
    for length, count in ((None, 40), (20_000, 40)):
        path = tmp_path / str(length)
        with arrayfeed.DatasetWriter(path, {"text": features.Text()}, codec="none") as writer:
            for _ in range(count):
                writer.write({"text": rng.bytes(int(length or rng.integers(100)))})
        assert RecordIndex(str(index_of(path))).varies is None
        expected = list(arrayfeed.open(path, split="train", io="pread"))
        assert arrayfeed.open(path, split="train", io="mmap")[range(count)] == expected


@pytest.mark.parametrize("says", [True, False])
def test_records_are_the_same_whether_it_is_said_or_not(tmp_path: Path, rng: np.random.Generator, says: bool) -> None:
    """Indexes of before it was thought of lack it."""
    columns = write(tmp_path / "data", rng)
    description = describe(tmp_path / "data")
    if not says:
        del description["varies"]
    redescribe(tmp_path / "data", description)
    source = arrayfeed.open(tmp_path / "data", split="train", io="mmap")
    for _ in range(20):
        chosen = rng.integers(0, 1000, int(rng.integers(1, 100)))
        batch = source.read_batch(chosen)
        for name, column in columns.items():
            assert (batch[name] == column[chosen]).all()
    known = source._plan._known

    assert known is not None and known.common == (1 if says else 0)


def test_records_that_look_different_are_read_one_by_one(tmp_path: Path, rng: np.random.Generator) -> None:
    """Of equal length, but with the lengths of their fields exchanged: no record's place stands for another's."""
    numbers = {"a": rng.choice([5, 500], 600), "x": np.zeros((600, 300), np.uint8)}
    numbers["b"] = 505 - numbers["a"]
    schema = {
        "a": features.Scalar(np.int64),
        "b": features.Scalar(np.int64),
        "x": features.Tensor(shape=(300,), dtype=np.uint8, encoding="bytes"),
    }
    with arrayfeed.DatasetWriter(tmp_path / "data", schema, codec="none", shard_records=300) as writer:
        writer.write_columns(numbers)
    assert describe(tmp_path / "data")["varies"]
    for _ in range(2):
        batch = arrayfeed.open(tmp_path / "data", split="train", io="mmap").read_batch(rng.permutation(600))
        assert set(zip(batch["a"].tolist(), batch["b"].tolist(), strict=True)) == {(5, 500), (500, 5)}

    # A lie takes fields from where they are in the first record: other numbers, of the same records.
    redescribe(tmp_path / "data", describe(tmp_path / "data") | {"varies": pack_bits(np.zeros(stride_of(tmp_path), np.uint8))})
    source = arrayfeed.open(tmp_path / "data", split="train", io="mmap")
    batch = source.read_batch(np.arange(600))
    assert batch["x"].shape == (600, 300) and batch["a"].shape == (600,)
    assert source[17] == {"a": numbers["a"][17], "b": numbers["b"][17], "x": pytest.approx(numbers["x"][17])}


def stride_of(path: Path) -> int:
    stride: int = describe(path / "data")["alike"][1]
    return stride


@pytest.mark.parametrize("byte", [0, 0x01, 0xFF])
def test_a_lie_about_headers_gives_no_damaged_record(tmp_path: Path, rng: np.random.Generator, byte: int) -> None:
    """Whatever is said to be common: each run's checksum is compared, and damage is named."""
    columns = write(tmp_path / "data", rng)
    lie = pack_bits(np.full(stride_of(tmp_path), byte, np.uint8))
    redescribe(tmp_path / "data", describe(tmp_path / "data") | {"varies": lie})
    chosen = rng.permutation(1000)
    batch = read(tmp_path / "data", chosen)
    assert all((batch[name] == columns[name][chosen]).all() for name in columns)

    index = RecordIndex(str(index_of(tmp_path / "data")))
    shard = sorted((tmp_path / "data").glob("*.array_record-*"))[1]
    whole = shard.read_bytes()
    found = index.lookup(shard.name)
    assert found is not None
    for place in np.abs(found.places[rng.integers(1, 299, 20)]).tolist():
        damaged = bytearray(whole)
        damaged[place - found.place_offset + int(rng.integers(-17, 700))] ^= 1 << int(rng.integers(8))
        shard.write_bytes(damaged)
        with pytest.raises(arrayfeed.CorruptShardError) as caught:
            read(tmp_path / "data", chosen)
        assert caught.value.path == str(shard)


@pytest.mark.parametrize(
    "varies",
    [
        "no base64",
        "AAAA",
        7,
        [1],
        b64encode(zlib.compress(bytes(800))).decode(),
        b64encode(zlib.compress(bytes(1 << 24))).decode(),
        b64encode(zlib.compress(bytes(20))[:-5]).decode(),
    ],
)
def test_what_is_no_mask_makes_no_index(tmp_path: Path, rng: np.random.Generator, varies: Any) -> None:
    """Damaged text, and masks of another length, unpacked no further than they may be."""
    write(tmp_path / "data", rng, 40)
    redescribe(tmp_path / "data", describe(tmp_path / "data") | {"varies": varies})
    with pytest.raises(DataError, match="make it again with `arrayfeed index`"):
        arrayfeed.open(tmp_path / "data", split="train")


def test_bits_are_unpacked_as_they_were_packed(rng: np.random.Generator) -> None:
    """Of any length up to 16 KiB; of longer ones nobody says anything."""
    for size in (1, 2, 800, 1 << 14):
        bits = rng.integers(0, 256, size, np.uint8)
        assert (unpack_bits(pack_bits(bits), size) == bits).all()
    with pytest.raises(ValueError, match="of which nothing is said"):
        unpack_bits(pack_bits(bits), 1 << 40)
    assert Varying().bits() is None
