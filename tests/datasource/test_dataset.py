"""``arrayfeed.open``: what was written comes back, from any split, in any process, and what cannot be opened says why."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from array_record.python.array_record_module import ArrayRecordWriter

import arrayfeed
from arrayfeed import (
    CorruptShardError,
    DataError,
    DatasetIncompleteError,
    DatasetNotFoundError,
    DatasetWriter,
    DecodeError,
    ExampleDataSource,
    ShardNotFoundError,
)
from arrayfeed.datasource.features import SkipDecoding
from arrayfeed.datasource.tfds import DatasetInfo
from arrayfeed.datasource.writing.publish import Staging
from support import spawn_reader
from support.equal import difference

FEATURES: dict[str, Any] = {
    "image": arrayfeed.features.Image(shape=(5, 4, 3)),
    "label": arrayfeed.features.ClassLabel(names=["cat", "dog", "cow"]),
    "nested": {"numbers": arrayfeed.features.Tensor(shape=(3,), dtype=np.float32), "word": arrayfeed.features.Text()},
}


def example(number: int) -> dict[str, Any]:
    """Return an example as it is read: keys sorted, text as bytes, Python scalars."""
    return {
        "image": np.random.default_rng(number).integers(0, 256, (5, 4, 3), dtype=np.uint8),
        "label": number % 3,
        "nested": {"numbers": np.array([number, 0.5, -number], np.float32), "word": f"wörd {number}".encode()},
    }


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """25 examples in three shards of ``train``, 3 in one of ``test-1``, none in ``empty``."""
    path = tmp_path_factory.mktemp("open") / "animals" / "1.0.0"
    with DatasetWriter(path, FEATURES, name="animals", shard_records=10) as writer:
        writer.write_all(example(number) for number in range(25))
        writer.write_all((example(number) for number in range(100, 103)), split="test-1")
        writer.write_all([], split="empty")
    return path


@pytest.fixture
def train(directory: Path) -> ExampleDataSource:
    """The largest split."""
    return arrayfeed.open(directory, split="train")


# -- what comes back --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("io", ["mmap", "pread"])
@pytest.mark.parametrize("check", ["structure", "crc", "hash"])
def test_every_example_comes_back_from_every_split(directory: Path, io: Any, check: Any) -> None:
    """One by one and many at once, in any order, however files are read and checked."""
    splits = arrayfeed.open(directory, io=io, check=check)

    assert list(splits) == ["train", "test-1", "empty"]
    assert difference(list(splits["train"]), [example(number) for number in range(25)]) == ""
    assert difference(splits["train"][[24, -25, 10, 10]], [example(number) for number in (24, 0, 10, 10)]) == ""
    assert difference(list(splits["test-1"]), [example(number) for number in range(100, 103)]) == ""


def test_columns_have_the_declared_dtypes_and_a_batch_axis(train: ExampleDataSource) -> None:
    """Nested as the examples are; text as objects."""
    batch = train.read_batch([3, 24, 3])

    assert difference(batch["image"], np.stack([example(number)["image"] for number in (3, 24, 3)])) == ""
    assert difference(batch["label"], np.array([0, 0, 0])) == ""
    assert batch["nested"]["numbers"].dtype == np.float32
    assert batch["nested"]["numbers"][:, 0].tolist() == [3, 24, 3]
    assert batch["nested"]["word"].tolist() == ["wörd 3".encode(), "wörd 24".encode(), "wörd 3".encode()]


def test_an_empty_split_is_an_empty_source(directory: Path) -> None:
    """It has a length, no elements, columns without rows, and a loader over it has no batches."""
    empty = arrayfeed.open(directory, split="empty")

    assert (len(empty), list(empty), bool(empty)) == (0, [], False)
    assert empty.read_batch([])["image"].shape == (0, 5, 4, 3)
    assert list(arrayfeed.DataLoader(empty, batch_size=3, shuffle=True)) == []
    with pytest.raises(IndexError, match="index 0 is out of range for 0 examples"):
        empty[0]


def test_an_empty_shard_among_others_is_stepped_over(tmp_path: Path, directory: Path) -> None:
    """TFDS writes such where records are few."""
    path = tmp_path / "data"
    shutil.copytree(directory, path)
    info = json.loads((path / "dataset_info.json").read_text())
    for split in info["splits"]:
        if split["name"] == "train":
            split["shardLengths"] = ["10", "0", "10", "5"]
    (path / "dataset_info.json").write_text(json.dumps(info))
    for old, new in ((2, 3), (1, 2), (0, 0)):
        (path / f"animals-train.array_record-0000{old}-of-00003").rename(
            path / f"animals-train.array_record-0000{new}-of-00004"
        )
    ArrayRecordWriter(str(path / "animals-train.array_record-00001-of-00004"), "group_size:1").close()
    for index in path.glob("*train*index*"):
        index.unlink()

    found = arrayfeed.open(path, split="train")
    assert difference(list(found), [example(number) for number in range(25)]) == ""
    assert found.read_batch([9, 10])["nested"]["numbers"][:, 0].tolist() == [9, 10]


def test_opening_reads_no_shard(tmp_path: Path, directory: Path) -> None:
    """A description is enough for length, features, fingerprint and repr; what is missing shows when it is read."""
    path = tmp_path / "data"
    shutil.copytree(directory, path)
    for shard in path.glob("*array_record*"):
        shard.unlink()
    source = arrayfeed.open(path, split="train")

    assert len(source) == 25
    assert source.fingerprint == arrayfeed.open(directory, split="train").fingerprint
    with pytest.raises(ShardNotFoundError, match="array_record-00001-of-00003"):
        source[12]


def test_a_path_may_be_of_any_kind(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A string, a path object, relative, with a slash behind, through a link."""
    monkeypatch.chdir(directory.parent)
    link = directory.parent / "link"
    if not link.exists():
        link.symlink_to(directory)
    for path in (str(directory), directory, "1.0.0", "1.0.0/", link, Path("link")):
        assert difference(arrayfeed.open(path, split="test-1")[2], example(102)) == ""


# -- the source it gives ----------------------------------------------------------------------------------------------


def test_a_source_says_what_it_is(train: ExampleDataSource) -> None:
    """Name, number of examples, features."""
    assert repr(train) == "ExampleDataSource('animals/train', 25 examples, features=['image', 'label', 'nested'])"


def test_a_source_shows_where_it_is_from_and_what_it_holds(directory: Path, train: ExampleDataSource) -> None:
    """Printed: name, examples, shards, bytes on the disk, folder, every feature with dtype and shape, names of classes."""
    stored = sum(path.stat().st_size for path in directory.glob("animals-train.array_record-*"))
    assert str(train).splitlines() == [
        f"animals/train: 25 examples in 3 shards of {stored:,} bytes, {directory}",
        "FeaturesDict({",
        "    'image': Image(shape=(5, 4, 3), dtype=uint8),",
        "    'label': ClassLabel(shape=(), dtype=int64, num_classes=3),",
        "    'nested': FeaturesDict({",
        "        'numbers': Tensor(shape=(3,), dtype=float32),",
        "        'word': Text(shape=(), dtype=string),",
        "    }),",
        "})",
        "label: 0 'cat', 1 'dog', 2 'cow'",
    ]
    assert "animals/empty: 0 examples in 0 shards" in str(arrayfeed.open(directory, split="empty"))
    label: Any = train.features["label"]
    assert label.num_classes == 3 and label.str2int("cow") == 2


def test_features_as_tuples_are_the_only_ones_decoded(directory: Path, train: ExampleDataSource) -> None:
    """What a supervised model takes: ``as_supervised`` of TFDS; columns too, and an image that is none disturbs nobody."""
    pairs = train.as_tuple("image", "label")
    assert not difference(pairs[7], (example(7)["image"], 1))
    images, labels = pairs.read_batch([3, 1])
    assert images.shape == (2, 5, 4, 3) and labels.tolist() == [0, 1]
    words = train.as_tuple("nested/word", "label")
    assert words[4] == ("wörd 4".encode(), 1)
    assert "features=['label', 'nested']" in repr(words)
    with pytest.raises(ValueError, match="no feature is called 'lable'; there are"):
        train.as_tuple("lable")


@pytest.mark.parametrize("index", [25, -26, 2**70])
def test_an_index_out_of_range_says_how_many_there_are(train: ExampleDataSource, index: int) -> None:
    """As a list does, with numbers."""
    with pytest.raises(IndexError, match=f"index {index} is out of range for 25 examples"):
        train[index]
    with pytest.raises(IndexError, match="out of range for 25 examples"):
        train.read_batch([0, index])


def test_a_pickled_source_is_small_and_reads_the_same(train: ExampleDataSource) -> None:
    """After it was read from, too: neither data nor places go along."""
    list(train)
    data = pickle.dumps(train)
    loaded = pickle.loads(data)

    assert len(data) < 3000
    assert difference(list(loaded), list(train)) == ""
    assert (loaded.fingerprint, repr(loaded)) == (train.fingerprint, repr(train))


def shout(stored: bytes, feature: object) -> bytes:
    """A decoder of texts."""
    return stored.upper()


def test_a_fingerprint_tells_apart_what_is_decoded_otherwise(tmp_path: Path, directory: Path) -> None:
    """Types, channels and decoders too: a cache of one is not taken for that of another. It shows, and pickles."""
    options: list[Any] = [
        *({}, {"text": "str"}, {"sequences": "array"}, {"channels": "declared"}, {"features": {"image", "nested"}}),
        *({"decoders": {"image": SkipDecoding()}}, {"decoders": {"nested": {"word": shout}}}, {"decoders": {"image": shout}}),
    ]
    sources = [arrayfeed.open(directory, split="train", **each) for each in options]
    prints = [source.fingerprint for source in sources]

    assert len({*prints}) == len(options)
    assert [pickle.loads(pickle.dumps(source)).fingerprint for source in sources] == prints
    assert "decoders={'image': 'arrayfeed.datasource.features.decoders.SkipDecoding'}" in repr(sources[5])
    with sources[0].cache(path=tmp_path / "cache") as cached:
        list(cached)
    for source in sources[1:]:
        with pytest.raises(DataError, match="filled from another source"):
            source.cache(path=tmp_path / "cache")


def test_a_fingerprint_tells_data_sets_apart(tmp_path: Path, directory: Path) -> None:
    """By splits, number of records and features; not by where they are."""
    moved = tmp_path / "elsewhere"
    shutil.copytree(directory, moved)
    with DatasetWriter(tmp_path / "other", FEATURES | {"more": np.int64}, name="animals", shard_records=10) as writer:
        writer.write_all(example(number) | {"more": 1} for number in range(25))
    prints = {source.fingerprint for source in arrayfeed.open(directory).values()}

    assert len(prints) == 3
    assert {source.fingerprint for source in arrayfeed.open(moved).values()} == prints
    assert arrayfeed.open(tmp_path / "other", split="train").fingerprint not in prints
    assert arrayfeed.open(directory, split="train")[:24].fingerprint not in prints


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_another_process_reads_the_same(directory: Path, method: str) -> None:
    """A source that was read from here is handed to a child, forked or spawned; both read on."""
    command = [sys.executable, "-W", "error", spawn_reader.__file__, str(directory), method]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert (run.returncode, run.stdout, run.stderr) == (0, "same\n", "")


def test_threads_may_share_a_source(directory: Path) -> None:
    """From its first read on."""
    source = arrayfeed.open(directory, split="train")
    wrong: list[str] = []
    start = threading.Barrier(6)

    def read(seed: int) -> None:
        start.wait()
        for number in np.random.default_rng(seed).permutation(25).tolist() * 3:
            wrong.append(difference(source[number], example(number)))
            wrong.append(difference(source.read_batch([number])["image"][0], example(number)["image"]))

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(wrong) == {""}


def test_a_closed_source_says_so(directory: Path) -> None:
    """What was read before stays valid."""
    with arrayfeed.open(directory, split="train") as source:
        first, batch = source[0], source.read_batch([1])
    with pytest.raises(ValueError, match="closed"):
        source[0]
    with pytest.raises(ValueError, match="closed"):
        source.read_batch([1])

    assert difference(first, example(0)) == ""
    assert difference(batch["image"][0], example(1)["image"]) == ""


# -- what cannot be opened --------------------------------------------------------------------------------------------


def test_an_unknown_split_is_told_which_there_are(directory: Path) -> None:
    """By name."""
    with pytest.raises(ValueError, match="validation") as caught:
        arrayfeed.open(directory, split="validation")

    assert all(name in str(caught.value) for name in ("train", "test-1", "empty"))


def test_what_is_no_data_set_says_what_is_there_instead(tmp_path: Path, directory: Path) -> None:
    """Nothing, an empty directory, a file, a shard, the folder above a version: each says so, with the path."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("hello")
    shard = next(directory.glob("*train.array_record-00000*"))
    for path, message in (
        (tmp_path / "nothing", "nothing"),
        (tmp_path / "empty", "empty"),
        (tmp_path / "file", "this is a file, not a data set's directory"),
        (shard, "ArrayRecordDataSource opens shards"),
        (directory.parent, "1.0.0"),
    ):
        with pytest.raises(DatasetNotFoundError, match=message) as caught:
            arrayfeed.open(path)
        assert str(path) in str(caught.value)
        assert isinstance(caught.value, FileNotFoundError)


def test_what_a_writer_has_not_finished_is_incomplete(tmp_path: Path, directory: Path) -> None:
    """While it is written, after it was abandoned, and not once it is there."""
    staging = Staging(tmp_path / "data")
    with pytest.raises(
        DatasetIncompleteError, match="incomplete: written by an interrupted run, or still being written"
    ) as caught:
        arrayfeed.open(tmp_path / "data")
    assert staging.directory in str(caught.value)

    shutil.copytree(directory, tmp_path / "data")
    assert len(arrayfeed.open(tmp_path / "data", split="train")) == 25
    staging.discard()


@pytest.mark.parametrize("io", ["mmap", "pread"])
def test_a_shard_that_vanishes_is_an_error_that_names_it(tmp_path: Path, directory: Path, io: Any) -> None:
    """Before it was first read; one that is open is still there for whoever has it open, and the others are not disturbed."""
    copy = shutil.copytree(directory, tmp_path / "copy")
    source = arrayfeed.open(copy, split="train", io=io)
    assert not difference(source[3], example(3))
    for shard in sorted(copy.glob("animals-train.array_record-*"))[:2]:
        shard.unlink()

    assert not difference(source[[4, 22, 9]], [example(k) for k in (4, 22, 9)])
    for read in (lambda: source[12], lambda: source[[0, 12]], lambda: source.read_batch([21, 12, 3])):
        with pytest.raises(ShardNotFoundError) as caught:
            read()
        assert caught.value.path == os.fspath(copy / "animals-train.array_record-00001-of-00003")
    assert not difference(source[22], example(22))


def test_on_a_network_file_system_a_shard_that_shrinks_is_an_error(
    tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``open`` maps no files there: what another machine cuts short would end this process."""
    monkeypatch.setattr("arrayfeed.datasource.filesystems.filesystem_of", lambda path: "nfs4")
    copy = shutil.copytree(directory, tmp_path / "copy")
    source = arrayfeed.open(copy, split="train")
    assert not difference(source[0], example(0))
    shard = copy / "animals-train.array_record-00000-of-00003"
    os.truncate(shard, 300)
    for read in (lambda: source[9], lambda: source[[3, 9]], lambda: source.read_batch([9, 8])):
        with pytest.raises(CorruptShardError, match="the file ends here; it had") as caught:
            read()
        assert caught.value.path == os.fspath(shard)
    assert not difference(source[15], example(15))


def test_a_blocked_version_is_refused_with_its_reason(tmp_path: Path, directory: Path) -> None:
    """As TFDS refuses it; the description itself can be read, and says why."""
    blocked = shutil.copytree(directory, tmp_path / "blocked")
    path = blocked / "dataset_info.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"isBlocked": "labels of 2019 were wrong"}))
    for options in ({}, {"split": "train"}, {"split": "train", "raw": True}):
        with pytest.raises(DataError, match=r"animals 1\.0\.0 is blocked: labels of 2019 were wrong\. Take another") as caught:
            arrayfeed.open(blocked, **options)
        assert caught.value.path == os.fspath(blocked)
    assert DatasetInfo.read(blocked).blocked == "labels of 2019 were wrong"


@pytest.mark.parametrize("name", ["dataset_info.json", "features.json"])
@pytest.mark.parametrize("content", ["", "{", "[]", "5", "{}", "null", '{"splits": 5}', "\xff\xfe"], ids=repr)
def test_a_damaged_description_is_named(tmp_path: Path, directory: Path, name: str, content: str) -> None:
    """A DataError with the file's name, or a data set with nothing in it: never another error."""
    path = tmp_path / "data"
    shutil.copytree(directory, path)
    (path / name).write_bytes(content.encode("latin-1"))
    try:
        opened = arrayfeed.open(path)
    except DataError as error:
        assert name in str(error)
    else:
        assert content == "{}"
        assert all(isinstance(source, ExampleDataSource) for source in opened.values())


def test_shards_of_another_length_than_described_are_refused(tmp_path: Path, directory: Path) -> None:
    """When they are first read, with both numbers."""
    path = tmp_path / "data"
    shutil.copytree(directory, path)
    info = (path / "dataset_info.json").read_text()
    assert info.count('"5"') == 1
    (path / "dataset_info.json").write_text(info.replace('"5"', '"6"'))
    for index in path.glob("*index*"):
        index.unlink()
    source = arrayfeed.open(path, split="train")

    assert difference(source[3], example(3)) == ""
    with pytest.raises(CorruptShardError, match="the file holds 5 records, 6 were expected"):
        source[25]


def test_a_description_of_other_features_names_the_record(tmp_path: Path, directory: Path) -> None:
    """A feature that the records do not have: file, record and feature are told, for an example and for a column."""
    path = tmp_path / "data"
    shutil.copytree(directory, path)
    text = (path / "features.json").read_text()
    (path / "features.json").write_text(text.replace('"label"', '"lebal"'))
    source = arrayfeed.open(path, split="train")
    for read in (lambda: source[12], lambda: source[[3, 12]], lambda: source.read_batch([12, 3])):
        with pytest.raises(DecodeError, match="feature 'lebal'") as caught:
            read()
        assert os.path.basename(str(caught.value.path)).startswith("animals-train")
        assert caught.value.record in (2, 3)
