"""What an index says of neighbours together, of places and of records that are alike: a shortcut, and never believed."""

from __future__ import annotations

import json
import struct
from functools import partial
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest
from array_record.python.array_record_module import ArrayRecordWriter

import arrayfeed
from arrayfeed import features
from arrayfeed.datasource.arrayrecord.blocks import BLOCK_BYTES, to_physical
from arrayfeed.datasource.arrayrecord.index_writing import DescribedShard, write_record_index
from arrayfeed.datasource.arrayrecord.mapping import Region
from arrayfeed.datasource.arrayrecord.neighbours import choose_run
from arrayfeed.datasource.arrayrecord.record_index import RecordIndex
from arrayfeed.datasource.arrayrecord.steps import Steps
from arrayfeed.datasource.errors import CorruptShardError
from arrayfeed.datasource.example.wire import serialize_example
from arrayfeed.datasource.indexing import describe_shard_file
from arrayfeed.datasource.shards import Shard
from support.equal import difference

COUNT = 300


def index_shards(folder: Path, shards: list[list[bytes]]) -> tuple[list[str], Path]:
    """Write uncompressed shards and a record index of them; return their paths."""
    paths = []
    for number, records in enumerate(shards):
        paths.append(str(folder / f"{number}.array_record"))
        writer = ArrayRecordWriter(paths[-1], "group_size:1,uncompressed")
        for record in records:
            writer.write(record)
        writer.close()
    write_record_index(str(folder / "index"), {Path(path).name: partial(describe_shard_file, path) for path in paths})
    return paths, folder / "index"


def open_indexed(paths: list[str], counts: list[int], index: Path) -> arrayfeed.ArrayRecordDataSource:
    shards = [Shard(path) for path in paths]
    return arrayfeed.ArrayRecordDataSource.from_lengths(shards, counts, check="crc", indexes=[RecordIndex(str(index))])


@pytest.fixture(params=[True, False], ids=["alike", "varied"])
def indexed(request: pytest.FixtureRequest, tmp_path: Path, rng: np.random.Generator) -> tuple[list[str], Path, list[bytes]]:
    """Two shards of 300 records in all, of 800 bytes each or of up to 1,600, and their index."""
    sizes = [800] * COUNT if request.param else rng.integers(0, 1600, COUNT).tolist()
    records = [rng.bytes(size) for size in sizes]
    paths, index = index_shards(tmp_path, [records[:170], records[170:]])
    assert (RecordIndex(str(index)).alike is not None) == request.param
    return paths, index, records


def test_damage_in_a_run_fails_its_own_record_only(
    indexed: tuple[list[str], Path, list[bytes]], rng: np.random.Generator
) -> None:
    """Of 60 flips anywhere in a shard: records that they missed are read, in batches; the one that was hit is named."""
    paths, index, records = indexed
    whole = Path(paths[1]).read_bytes()
    found = RecordIndex(str(index)).lookup("1.array_record")
    assert found is not None
    starts = np.asarray(found.index.starts)
    assert 2 <= found.run < 64
    hit = 0
    for record in rng.integers(1, 129, 60).tolist():  # the first chunk and the last are the shard's signature
        damaged = bytearray(whole)
        size = len(records[170 + record])
        # Within the chunk, in the file: block headers stand every 65,536 bytes.
        logical = int(starts[record + 1]) - 1 - int(rng.integers(size + 40))
        damaged[logical + 24 * (logical // 65512 + 1)] ^= 1 << int(rng.integers(8))
        Path(paths[1]).write_bytes(damaged)
        source = open_indexed(paths, [170, 130], index)
        others = rng.permutation([k for k in range(COUNT) if k != 170 + record])
        for _ in range(2):
            assert source[others] == [records[k] for k in others]
            try:
                assert source[[0, 170 + record, 1]][1] == records[170 + record]  # a hash of the chunk's own was hit
            except arrayfeed.CorruptShardError as error:
                assert (error.path, error.record) == (paths[1], record)
                hit += 1
    assert hit > 80


@pytest.mark.parametrize("length", range(33, 64, 3))
def test_damage_is_found_wherever_shards_end_in_a_slot(tmp_path: Path, rng: np.random.Generator, length: int) -> None:
    """Runs begin anew with each shard, slots do not: up to four runs reach into one slot of 32 records."""
    records = [rng.bytes(900) for _ in range(5 * length)]
    paths, index = index_shards(tmp_path, [records[k * length : (k + 1) * length] for k in range(5)])
    found = RecordIndex(str(index)).lookup("2.array_record")
    assert found is not None and found.run == 32
    whole = Path(paths[2]).read_bytes()
    for record in range(1, length - 1):
        damaged = bytearray(whole)
        logical = int(found.index.starts[record + 1]) - 3
        damaged[to_physical(logical)] ^= 1
        Path(paths[2]).write_bytes(damaged)
        source = open_indexed(paths, [length] * 5, index)
        with pytest.raises(arrayfeed.CorruptShardError) as caught:
            source[rng.permutation(len(records))]
        assert caught.value.record == record


def forge(index: Path, changes: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Change what an index says, checksums of the lie included.

    Args:
      changes: Of the description.
      arrays: By name, functions that change an array in place.
    """
    read = RecordIndex(str(index))
    written = index.read_bytes()
    description = json.loads(written[32 : 32 + int.from_bytes(written[16:24], "little")]) | changes
    named = {"starts": read.starts, "sizes": read.sizes, "checksums": read.checksums, "runs": read.runs, "places": read.places}
    if description["alike"] is not None:
        named["starts"] = named["sizes"] = None
    if description["version"] == 1:
        named["runs"] = named["places"] = None
    copies = {name: np.array(array) for name, array in named.items() if array is not None}
    for name, change in arrays.items():
        change(copies[name])
    first = first_run = 0
    for number, shard in enumerate(description["shards"]):
        stop, stop_run = first + shard["records"], first_run - (-shard["records"] // shard["run"])
        parts = {
            "starts": slice(first + number, stop + number + 1),
            "runs": slice(first_run, stop_run),
        }
        covered = [copies[name][parts.get(name, slice(first, stop))] for name in copies if name != "places"]
        shard["crc32c"] = google_crc32c.value(b"".join(part.tobytes() for part in covered))
        first, first_run = stop, stop_run
    text = json.dumps(description).encode()
    data = written[:16] + struct.pack("<QII", len(text), google_crc32c.value(text), 0) + text
    for array in copies.values():
        data += bytes(-len(data) % 64) + array.tobytes()
    index.unlink()
    index.write_bytes(data)


def shuffle_rows(array: Any) -> None:
    np.random.default_rng(0).shuffle(array)


@pytest.mark.parametrize(
    ("name", "lie"),
    [
        ("places", shuffle_rows),
        ("places", lambda places: places.__imul__(-1)),
        ("places", lambda places: places.__iadd__(65536)),
        ("places", lambda places: places.fill(2**62)),
        ("places", lambda places: places.fill(-(2**63))),
        ("places", lambda places: places.fill(0)),
        ("runs", lambda runs: runs.fill(7)),
        ("runs", shuffle_rows),
    ],
)
@pytest.mark.filterwarnings("ignore:.*record index is not used")
def test_lies_about_places_and_runs_give_no_wrong_record(
    indexed: tuple[list[str], Path, list[bytes]], name: str, lie: Any, rng: np.random.Generator
) -> None:
    """With checksums that match the lie, one by one and in batches."""
    paths, index, records = indexed
    forge(index, {}, {name: lie})
    source = open_indexed(paths, [170, 130], index)
    for _ in range(4):
        chosen = rng.integers(0, COUNT, 40)
        assert source[chosen] == [records[k] for k in chosen]
    assert [source[k] for k in range(COUNT)] * 2 == records + [source[k] for k in range(COUNT)]


@pytest.mark.parametrize("alike", [[40, 845, 801], [41, 844, 800], [844 + 40, 844, 800], [40, 844 + 43, 844 - 1], [0, 43, 0]])
@pytest.mark.filterwarnings("ignore:.*record index is not used")
def test_lies_about_what_records_have_in_common_give_no_wrong_record(
    tmp_path: Path, rng: np.random.Generator, alike: list[int]
) -> None:
    """Another size, another beginning: errors, or the right records."""
    records = [rng.bytes(800) for _ in range(COUNT)]
    paths, index = index_shards(tmp_path, [records])
    assert RecordIndex(str(index)).alike == (40, 844, 800)
    forge(index, {"alike": alike}, {})
    try:
        source = open_indexed(paths, [COUNT], index)
    except arrayfeed.DataError as error:
        assert "arrayfeed index" in str(error)
        return
    for chosen in (range(COUNT), *([k] for k in range(COUNT))):
        try:
            assert source[chosen] == [records[k] for k in chosen]
        except arrayfeed.CorruptShardError as error:
            assert error.path == paths[0]


def test_an_index_of_version_1_is_read(tmp_path: Path, rng: np.random.Generator) -> None:
    """By starts, sizes and checksums: the records are the same, and damage is noticed."""
    records = [rng.bytes(int(size)) for size in rng.integers(0, 1600, COUNT)]
    paths, index = index_shards(tmp_path, [records[:170], records[170:]])
    forge(index, {"version": 1}, {})
    source = open_indexed(paths, [170, 130], index)
    assert source[range(COUNT)] == [source[k] for k in range(COUNT)] == records
    data = bytearray(Path(paths[0]).read_bytes())
    found = RecordIndex(str(index)).lookup("0.array_record")
    assert found is not None
    data[int(found.index.starts[31]) + 24 - 3] ^= 1
    Path(paths[0]).write_bytes(data)
    with pytest.raises(arrayfeed.CorruptShardError, match="CRC32C") as caught:
        open_indexed(paths, [170, 130], index)[range(40)]
    assert caught.value.record == 30


def test_records_of_one_size_may_be_laid_out_in_many_ways(tmp_path: Path, rng: np.random.Generator) -> None:
    """Alike in length, with their keys in another order, or other lengths within: each is what the parser makes of it."""
    values = [{"a": rng.bytes(300 + k % 3), "b": rng.bytes(302 - k % 3)} for k in range(COUNT)]
    # By turns in either order, and for a stretch all in one.
    orders = [["a", "b"] if k % 2 or k > 200 else ["b", "a"] for k in range(COUNT)]
    records = [serialize_example({key: [each[key]] for key in order}) for each, order in zip(values, orders, strict=True)]
    paths, index = index_shards(tmp_path, [records[:170], records[170:]])
    assert RecordIndex(str(index)).alike is not None
    source = open_indexed(paths, [170, 130], index).decode({"a": features.Text(), "b": features.Text()})
    fixed = open_indexed(paths, [170, 130], index).decode(
        {"b": features.Tensor(shape=(300,), dtype=np.uint8, encoding="bytes")}
    )
    for _ in range(10):
        chosen = rng.integers(0, COUNT, 32)
        batch = source.read_batch(chosen)
        assert [*zip(batch["a"], batch["b"], strict=True)] == [(values[k]["a"], values[k]["b"]) for k in chosen]
        some = chosen[chosen % 3 == 2]
        expected = np.array([np.frombuffer(values[k]["b"], np.uint8) for k in some]).reshape(-1, 300)
        assert np.array_equal(fixed.read_batch(some)["b"], expected)


def test_deferred_batches_are_the_same_batches(tmp_path: Path, rng: np.random.Generator) -> None:
    """Made late, in any order, even when the source is closed already."""
    images, labels = rng.integers(0, 256, (COUNT, 20, 20), np.uint8), rng.integers(0, 10, COUNT)
    schema: dict[str, Any] = {
        "image": features.Tensor(shape=(20, 20), dtype=np.uint8, encoding="bytes"),
        "label": features.ClassLabel(num_classes=10),
    }
    with arrayfeed.DatasetWriter(tmp_path / "data", schema, codec="none", shard_records=130) as writer:
        writer.write_columns({"image": images, "label": labels})
    source = arrayfeed.open(tmp_path / "data", split="train")
    indices, bounds = rng.permutation(COUNT), (0, 50, 51, 200, COUNT)
    deferred = source.defer_batches(indices, bounds)
    assert deferred is not None
    expected = source.read_batches(indices, bounds)
    source.close()

    for batch, whole, nbytes in zip(reversed(deferred), reversed(expected), (40_000, 59_600, 400, 20_000), strict=True):
        assert batch.nbytes == nbytes
        assert difference(batch.make(), whole) == ""
    assert np.array_equal(np.concatenate([batch["image"] for batch in expected]), images[indices])


def test_steps_are_an_array_of_equal_distances() -> None:
    """Whatever they are indexed with."""
    steps, array = Steps(7, 5, 12), np.arange(7, 67, 5)

    assert len(steps) == 12 and np.array_equal(np.asarray(steps), array)
    assert [steps[k] for k in range(-12, 12)] == [int(array[k]) for k in range(-12, 12)]
    assert np.array_equal(steps[np.array([3, 0, 11])], array[[3, 0, 11]])
    for part in (slice(2, 5), slice(-3, None), slice(None, None, -2)):
        assert np.array_equal(steps[part], array[part])
    with pytest.raises(IndexError, match="place 12 is out of range for 12 numbers"):
        steps[12]


def test_a_run_fills_32_kilobytes_or_is_one_record(tmp_path: Path, rng: np.random.Generator) -> None:
    """A power of two, at most 64: short records are looked at one by one when the first of a run is read."""
    for size, expected in [(1, 64), (300, 64), (800, 32), (5000, 4), (12_000, 2), (20_000, 1), (100_000, 1)]:
        paths, _ = index_shards(tmp_path, [[rng.bytes(size) for _ in range(20)]])
        described: DescribedShard = describe_shard_file(paths[0])
        assert choose_run(described.index) == expected


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_byte_that_changes_between_writing_and_closing_never_gets_past_the_index(
    tmp_path: Path, rng: np.random.Generator, codec: str
) -> None:
    """The checksum of neighbours is taken of the file: it must not vouch for a record that was another in memory.

    Plain ones are compared when the writer closes, those in two blocks too, and the error names file, record and byte;
    compressed ones when they are read.
    """
    images = rng.integers(0, 4, (80, 40, 40), dtype=np.uint8)
    form = {"image": features.Tensor(shape=(40, 40), dtype=np.uint8, encoding="bytes")}
    crossed = 0
    for record in (0, 17, 38, 39, 40, 79):  # some 39 of 1,650 bytes fill a block
        path = tmp_path / f"{record}"
        writer = arrayfeed.DatasetWriter(path, form, codec=codec, shard_records=len(images))
        writer.write_columns({"image": images})
        writer.write_columns({"image": images[:1]})  # begins another shard: the first is closed
        (shard,) = Path(writer.directory).glob("train-00000.partial")
        found = describe_shard_file(str(shard)).index
        start, stop = (to_physical(int(at)) for at in found.starts[record : record + 2])
        crossed += start // BLOCK_BYTES < (stop - 1) // BLOCK_BYTES
        with open(shard, "r+b") as file:
            file.seek(stop - 10)
            (byte,) = file.read(1)
            file.seek(stop - 10)
            file.write(bytes([byte ^ 1]))
        if codec == "none":
            with pytest.raises(CorruptShardError, match="before it was written") as caught:
                writer.close()
            assert caught.value.record == record
            assert caught.value.offset == start
            assert caught.value.path is not None and "train" in caught.value.path
            writer.abort()
            continue
        writer.close()
        source = arrayfeed.open(path, split="train")
        with pytest.raises(CorruptShardError) as caught:
            source.read_batch(range(len(images)))
        assert caught.value.record == record
    assert crossed or codec != "none"


def test_files_in_a_region_begin_where_large_pages_do(tmp_path: Path) -> None:
    """At multiples of 2 MiB, each with its own bytes, however short those before it are."""
    sizes = [BLOCK_BYTES, 40 * BLOCK_BYTES, 2 * BLOCK_BYTES]
    region = Region(sizes)
    for number, size in enumerate(sizes):
        path = tmp_path / f"{number}"
        path.write_bytes(bytes([number + 1]) * size)
        with open(path, "rb") as file:
            mapped = region.map(number, file.fileno(), size)
        assert mapped.ctypes.data % (1 << 21) == 0
        assert mapped.ctypes.data == region.array.ctypes.data + region.starts[number]
    for number, (start, size) in enumerate(zip(region.starts, sizes, strict=True)):
        assert (region.array[start : start + size] == number + 1).all()
