"""The record index: what it says, what it notices, and that it is never believed where it does not fit."""

from __future__ import annotations

import os
import pickle
import shutil
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest

import arrayfeed
from arrayfeed.cli.main import main
from arrayfeed.datasource.arrayrecord.record_index import RecordIndex
from arrayfeed.datasource.features import ClassLabel, Tensor
from arrayfeed.datasource.indexing import build_indexes, index_path
from arrayfeed.datasource.tfds import DatasetInfo

FEATURES = {"image": Tensor(shape=(6, 7), dtype=np.uint8, encoding="bytes"), "label": ClassLabel(num_classes=10)}
RECORDS = 40


@pytest.fixture(params=["none", "zstd"])
def dataset(request: pytest.FixtureRequest, tmp_path: Path, rng: np.random.Generator) -> Path:
    """A data set of 40 examples in three shards, with the index that the writer made."""
    path = tmp_path / "data"
    images = rng.integers(0, 256, (RECORDS, 6, 7), np.uint8)
    with arrayfeed.DatasetWriter(path, FEATURES, codec=request.param, shard_records=16) as writer:
        writer.write_columns({"image": images, "label": rng.integers(0, 10, RECORDS)}, split="train")
    return path


def raw(path: Path, **options: str) -> arrayfeed.ArrayRecordDataSource:
    return arrayfeed.open(path, split="train", raw=True, **options)  # type: ignore[call-overload, no-any-return]


def index_of(path: Path) -> Path:
    return index_path(path, DatasetInfo.read(path), "train")


def test_the_writers_index_is_the_one_made_of_its_shards(dataset: Path) -> None:
    """Checksums taken before writing and places found by reading agree, to the byte."""
    written = index_of(dataset).read_bytes()

    assert [split for split, _ in build_indexes(dataset)] == ["train"]

    assert index_of(dataset).read_bytes() == written


def test_records_are_the_same_with_and_without_an_index(dataset: Path) -> None:
    """One by one, in batches, the first time and the second."""
    with_index = raw(dataset)
    index_of(dataset).unlink()
    without = raw(dataset)

    for source in (with_index, without):
        assert source[:].__getitems__(range(RECORDS)) == [without[i] for i in range(RECORDS)]
        assert [source[i] for i in range(RECORDS)] == list(without)


# A bit of the first or last chunk's header makes the shard another one to the index; its own footer is used then.
@pytest.mark.filterwarnings("ignore:.*record index is not used")
@pytest.mark.parametrize("batched", [False, True])
def test_every_flipped_bit_of_a_record_is_an_error_that_names_it(dataset: Path, batched: bool) -> None:
    """A process's first read of a damaged record raises, with shard, record and offset; thousands of bits, each in turn."""
    index = RecordIndex(str(index_of(dataset)))
    shard = sorted(dataset.glob("*.array_record-*"))[1]
    found = index.lookup(shard.name)
    assert found is not None
    whole = shard.read_bytes()
    flips = 0
    for record in (0, 7, 15):
        start, stop = (int(place) + 24 for place in found.index.starts[record : record + 2])
        # The chunk's own hashes, 8 and 16 bytes into its header, are not the record's; neither is the count of its data.
        for byte in (*range(start + 8, start + 16), *range(start + 24, stop)):
            for bit in range(8):
                damaged = bytearray(whole)
                damaged[byte] ^= 1 << bit
                shard.write_bytes(damaged)
                source = raw(dataset)
                place = 16 + record
                try:
                    data = source.__getitems__([place, place])[0] if batched else source[place]
                except arrayfeed.CorruptShardError as error:
                    assert error.path == str(shard) and error.record == record
                    assert error.offset is not None and start - 24 <= error.offset < stop
                else:
                    # Bits that no record depends on: the sizes buffer of a chunk of one record, a frame's flags.
                    assert data == found_record(whole, shard, record)
                flips += 1
                source.close()
    shard.write_bytes(whole)

    assert flips > 1500


def found_record(whole: bytes, shard: Path, record: int) -> bytes:
    intact = shard.with_name("intact")
    if not intact.exists():
        intact.write_bytes(whole)
    with arrayfeed.ArrayRecordDataSource(intact) as source:
        return source[record]


def test_a_damaged_record_raises_every_time(dataset: Path) -> None:
    """A failed check is not remembered as a passed one."""
    shard = sorted(dataset.glob("*.array_record-*"))[0]
    index = RecordIndex(str(index_of(dataset))).lookup(shard.name)
    assert index is not None
    data = bytearray(shard.read_bytes())
    data[int(index.index.starts[6]) + 24 - 5] ^= 1  # five bytes before the end of record 5
    shard.write_bytes(data)
    source = raw(dataset)
    bad = [number for number in range(16) if raises(source, number)]

    assert bad == [5]
    for _ in range(2):
        assert raises(source, bad[0])
        with pytest.raises(arrayfeed.CorruptShardError, match="damaged"):
            source.__getitems__(range(RECORDS))


def raises(source: arrayfeed.ArrayRecordDataSource, number: int) -> bool:
    try:
        source[number]
    except arrayfeed.CorruptShardError:
        return True
    return False


def test_an_index_of_other_shards_is_noticed_and_not_used(dataset: Path, tmp_path: Path) -> None:
    """A shard that was written anew is read by its own footer, with a warning that says what to do."""
    again = tmp_path / "again"
    with arrayfeed.DatasetWriter(again, FEATURES, name="data", codec="none", shard_records=16) as writer:
        writer.write_columns({"image": np.zeros((RECORDS, 6, 7), np.uint8), "label": np.ones(RECORDS, int)}, split="train")
    for shard in again.glob("*.array_record-*"):
        shutil.copy(shard, dataset)
    source = arrayfeed.open(dataset, split="train")

    with pytest.warns(RuntimeWarning, match=r"record index is not used, .*; make it again with `arrayfeed index`"):
        assert source[17]["label"] == 1

    assert main(["index", str(dataset)]) == 0
    assert arrayfeed.open(dataset, split="train")[17]["label"] == 1


def test_no_damage_to_an_index_gives_a_wrong_record(dataset: Path, rng: np.random.Generator) -> None:
    """Whatever byte of an index changes: the right record, by the index or by the footer, or an error that names the index."""
    path = index_of(dataset)
    whole = path.read_bytes()
    expected = list(raw(dataset))
    outcomes = {"error": 0, "warning": 0, "unnoticed": 0, "distrusted": 0}
    places = RecordIndex(str(path)).places
    believed = len(whole) - (0 if places is None else places.nbytes)
    for place in [*range(32), *rng.choice(len(whole), 300, replace=False).tolist()]:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            source = raw(dataset)
        except arrayfeed.DataError as error:
            assert error.path == str(path) and "arrayfeed index" in str(error)
            outcomes["error"] += 1
            continue
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            assert list(source) == source[range(RECORDS)] == source[range(RECORDS)] == expected
        outcomes["warning" if seen else "unnoticed" if place < believed else "distrusted"] += 1

    assert outcomes["error"] > 30 and outcomes["warning"] > 30
    # Padding between the arrays says nothing, so that nothing is noticed there.
    assert outcomes["unnoticed"] < 60


def test_an_index_may_be_cut_anywhere(dataset: Path) -> None:
    """A cut index is an error that names it, never a crash."""
    path = index_of(dataset)
    whole = path.read_bytes()
    for size in range(0, len(whole), 37):
        path.write_bytes(whole[:size])
        with pytest.raises(arrayfeed.DataError, match="arrayfeed index"):
            raw(dataset)


def test_where_a_directory_is_read_only_the_index_goes_to_the_cache(
    dataset: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And is found there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    index_of(dataset).unlink()

    assert main(["index", "--in-cache", str(dataset)]) == 0

    assert not index_of(dataset).exists()
    (index,) = raw(dataset)._indexes
    assert index.path.startswith(str(tmp_path / "cache"))


def test_chunks_of_several_records_are_not_indexed(dataset: Path) -> None:
    """Their records have no places of their own; the error says so."""
    from array_record.python.array_record_module import ArrayRecordWriter

    shard = sorted(dataset.glob("*.array_record-*"))[0]
    shard.unlink()
    writer = ArrayRecordWriter(str(shard), "group_size:4")
    for _ in range(16):
        writer.write(b"record")
    writer.close()

    with pytest.raises(arrayfeed.DataError, match="group_size > 1"):
        list(build_indexes(dataset))


def test_an_index_costs_a_source_no_pickle(dataset: Path) -> None:
    """A source pickles by the index's path."""
    source = raw(dataset)

    assert len(pickle.dumps(source)) < 1500
    assert list(pickle.loads(pickle.dumps(source))) == list(source)


def test_checking_many_records_takes_memory_for_a_few(tmp_path: Path, rng: np.random.Generator) -> None:
    """4,096 of 200,000, of unlike lengths, lie in all runs of the index: all are checked, 2**15 at a time."""
    labels = np.arange(200_000)
    with arrayfeed.DatasetWriter(tmp_path, {"label": np.int64}, codec="none") as writer:
        writer.write_columns({"label": labels}, split="train")
    source = arrayfeed.open(tmp_path, split="train")
    chosen = rng.permutation(200_000)[:4096]
    source.read_batch(chosen[:1])
    tracemalloc.start()
    try:
        np.testing.assert_array_equal(source.read_batch(chosen)["label"], chosen)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    source.close()

    assert peak < 6 << 20  # at once, it took 17 MB


def test_a_split_of_a_thousand_shards_opens_without_a_look_into_them(tmp_path: Path, rng: np.random.Generator) -> None:
    """The first example needs one shard; 999 others may be missing until they are asked for."""
    path = tmp_path / "many"
    with arrayfeed.DatasetWriter(path, FEATURES, codec="none", shard_records=1) as writer:
        writer.write_columns({"image": rng.integers(0, 256, (50, 6, 7), np.uint8), "label": np.arange(50) % 10}, split="train")
    shards = sorted(path.glob("*.array_record-*"))
    for shard in shards[:-1]:
        os.unlink(shard)
    source = arrayfeed.open(path, split="train")

    assert source[-1]["label"] == 9
    with pytest.raises(arrayfeed.ShardNotFoundError):
        source[0]
