"""Batches of records that were read before are the same batches, whatever the records, and whoever asks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from array_record.python.array_record_module import ArrayRecordWriter

import arrayfeed
from arrayfeed import features
from arrayfeed.datasource import dataset
from arrayfeed.datasource.arrayrecord import crossings, places
from arrayfeed.datasource.example.wire import serialize_example
from support.equal import difference

#: So long that a fifth of the records lie in two blocks of the file.
LONG = 12_000


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 records in 4 shards, with a raw leaf, several numbers, a list and a flag."""
    rng = np.random.default_rng(3)
    path = tmp_path_factory.mktemp("known") / "data"
    values: dict[str, Any] = {
        "image": rng.integers(0, 256, (400, LONG), dtype=np.uint8),
        "label": rng.integers(0, 10, 400),
        "scale": rng.standard_normal(400).astype(np.float32),
        "box": rng.integers(100, 128, (400, 4)),
        "flag": rng.integers(0, 2, 400).astype(bool),
    }
    schema: dict[str, Any] = {
        "image": features.Tensor(shape=(LONG,), dtype=np.uint8, encoding="bytes"),
        "label": features.ClassLabel(num_classes=10),
        "scale": features.Scalar(np.float32),
        "box": features.Tensor(shape=(4,), dtype=np.int64),
        "flag": features.Scalar(np.bool_),
    }
    with arrayfeed.DatasetWriter(path, schema, codec="none", shard_records=100) as writer:
        writer.write_columns(values)
    return path


def known(source: Any, indices: Any) -> bool:
    """Whether a batch is read by its records' addresses alone."""
    numbers = np.array(indices)
    return source._plan.decode_known(source.records.located(), numbers, (0, numbers.size)) is not None


@pytest.mark.parametrize("is_indexed", [True, False], ids=["index", "no index"])
@pytest.mark.parametrize("kept_bytes", [0, 64 << 20], ids=["no copies", "copies"])
def test_a_batch_read_again_is_the_same_batch(
    directory: Path, kept_bytes: int, is_indexed: bool, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """All are read by their addresses the second time, those in two blocks too: by an index, or where copies are kept."""
    monkeypatch.setattr(places, "_MAX_COPIED_BYTES", kept_bytes)
    monkeypatch.setattr(crossings, "_MAX_KEPT_BYTES", kept_bytes)
    if not is_indexed:
        monkeypatch.setattr(dataset, "find_index", lambda *_: None)
    source = arrayfeed.open(directory, split="train")
    whole = [source[index] for index in range(len(source))]
    for _ in range(3):
        order = rng.integers(-len(source), len(source), 64)
        batch = source.read_batch(order)
        for row, index in enumerate(order.tolist()):
            assert all(np.array_equal(column[row], whole[index][name]) for name, column in batch.items())
    source.read_batch(np.arange(400))
    source.read_batch(np.arange(400))

    crossing = np.flatnonzero(~source.records.located().is_known(np.arange(400)))  # type: ignore[union-attr]
    assert (crossing.size == 0) == (kept_bytes > 0 or is_indexed)
    assert known(source, np.setdiff1d(np.arange(400), crossing))
    assert not crossing.size or not known(source, crossing[:1])
    batches = source.read_batches(np.arange(400), (0, 7, 130, 400))
    assert [len(batch["label"]) for batch in batches] == [7, 123, 270]
    assert difference(np.concatenate([batch["image"] for batch in batches]), source.read_batch(range(400))["image"]) == ""


def test_indices_are_judged_as_ever(directory: Path) -> None:
    """Lists, small and unsigned integers, negatives; what is no index raises what it raised before."""
    source = arrayfeed.open(directory, split="train")
    expected = source.read_batch([3, 399, 3])
    source.read_batch(np.arange(400))
    assert known(source, [3, 399, 3])

    for same in ([3, -1, 3], (3, 399, 3), np.array([3, 399, 3], np.uint16), np.array([3, -1, 3], np.int32)):
        assert difference(source.read_batch(same), expected) == ""
    for outside in ([400], [-401]):
        with pytest.raises(IndexError, match="out of range for 400 examples"):
            source.read_batch(outside)
    wrong: list[Any] = [[1.0], np.array([True]), np.zeros((2, 2), np.int64)]
    for no_indices in wrong:
        with pytest.raises(TypeError, match=r"indices|integer"):
            source.read_batch(no_indices)
    assert source.read_batch([])["image"].shape == (0, LONG)


def test_a_value_that_a_feature_refuses_is_refused_every_time(tmp_path: Path) -> None:
    """A record can be known to be laid out like all others, and hold a number that its feature does not."""
    for number in range(20):
        record = serialize_example({"n": np.array([130 if number != 7 else 300])})
        assert len(record) == len(serialize_example({"n": np.array([130])}))
        if number == 0:
            writer = ArrayRecordWriter(str(tmp_path / "a.array_record"), "group_size:1,uncompressed")
        writer.write(record)
    writer.close()
    source = arrayfeed.ArrayRecordDataSource(tmp_path / "a.array_record").decode({"n": features.Scalar(np.uint8)})

    for _ in range(3):
        with pytest.raises(arrayfeed.DecodeError, match=r"record 7\b.*'n'"):
            source.read_batch(np.arange(20))
        assert source.read_batch(np.arange(7))["n"].tolist() == [130] * 7


def test_a_closed_source_stays_closed(directory: Path) -> None:
    """What was handed out stays valid; what was known is not read."""
    source = arrayfeed.open(directory, split="train")
    source.read_batch(np.arange(50))
    batch = source.read_batch(np.arange(50))
    kept = {name: column.copy() for name, column in batch.items()}
    source.close()

    assert difference(batch, kept) == ""
    with pytest.raises(ValueError, match="closed"):
        source.read_batch(np.arange(50))


def test_threads_that_read_the_same_records_for_the_first_time_agree(directory: Path, rng: np.random.Generator) -> None:
    """What one of them knows of a record already, another may be finding out: neither takes anything back."""
    expected = arrayfeed.open(directory, split="train", io="pread").read_batch(np.arange(400))["image"]
    for _ in range(10):
        source = arrayfeed.open(directory, split="train")
        orders = [rng.integers(0, 400, (20, 32)) for _ in range(4)]

        def read(batches: Any, source: Any = source) -> bool:
            return all(np.array_equal(source.read_batch(rows)["image"], expected[rows]) for rows in batches)

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(read, orders)) == [True] * 4


def test_long_records_are_read_one_by_one_wherever_they_are_kept(tmp_path: Path, rng: np.random.Generator) -> None:
    """Of records longer than most, those in one block are decoded in the mapping, the others from copies of them."""
    pictures = rng.integers(0, 256, (60, 120, 100, 3), dtype=np.uint8)
    with arrayfeed.DatasetWriter(tmp_path / "data", {"image": features.Image(shape=(120, 100, 3))}, codec="none") as writer:
        writer.write_columns({"image": pictures})
    source = arrayfeed.open(tmp_path / "data", split="train")
    assert np.array_equal(source.read_batch(range(60))["image"], pictures)

    assert source.records._hold().indexed.is_sound(np.arange(60)).all()  # type: ignore[attr-defined]
    assert all(np.array_equal(source[index]["image"], pictures[index]) for index in range(60))


def test_small_columns_that_are_kept_are_those_that_are_cut(tmp_path: Path, rng: np.random.Generator) -> None:
    """Once all records are known; a batch of them is the caller's own."""
    schema: dict[str, Any] = {
        "large": features.Tensor(shape=(300,), dtype=np.uint8, encoding="bytes"),
        "number": features.Scalar(np.int32),
        "flag": features.Scalar(np.bool_),
        "three": features.Tensor(shape=(3,), dtype=np.float32),
    }
    columns = {
        "large": rng.integers(0, 256, (500, 300), np.uint8),
        "number": rng.integers(0, 100, 500).astype(np.int32),
        "flag": rng.random(500) < 0.5,
        "three": rng.random((500, 3)).astype(np.float32),
    }
    with arrayfeed.DatasetWriter(tmp_path / "data", schema, codec="none", shard_records=200) as writer:
        writer.write_columns(columns)
    source = arrayfeed.open(tmp_path / "data", split="train", io="mmap")
    for _ in range(6):
        chosen = rng.permutation(500)[: int(rng.integers(100, 500))]
        bounds = [0, 7, 50, chosen.size]
        deferred = source.defer_batches(chosen, bounds)
        assert deferred is not None
        for k, batch in enumerate(each.make() for each in deferred):
            for name, column in columns.items():
                assert batch[name].dtype == column.dtype
                assert (batch[name] == column[chosen[bounds[k] : bounds[k + 1]]]).all()
                batch[name][...] = 0  # nobody else sees it
    known = source._plan._known

    assert known is not None and known._columns is not None and len(known._columns) == 2
