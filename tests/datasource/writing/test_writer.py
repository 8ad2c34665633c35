"""DatasetWriter from the outside: what lands in the directory, and what does not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import arrayfeed
from arrayfeed.datasource.errors import DataError, DatasetExistsError, SchemaError
from arrayfeed.datasource.features import ClassLabel, FeaturesDict, Image, Tensor, Text
from arrayfeed.datasource.manifest import Manifest
from arrayfeed.datasource.tfds import DatasetInfo
from arrayfeed.datasource.writing import DatasetWriter, find_leftovers, remove_leftovers
from support.written import read_examples, read_records

FEATURES = {"image": Image(shape=(4, 4, 1)), "label": ClassLabel(names=["zero", "one"]), "text": Text()}


def make_examples(count: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    return [{"image": rng.integers(0, 256, (4, 4, 1), dtype=np.uint8), "label": k % 2, "text": b"%d" % k} for k in range(count)]


def equal(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> bool:
    """Return whether two lists of examples are equal, arrays and types included."""
    if len(found) != len(expected):
        return False
    pairs = [(a[key], b[key]) for a, b in zip(found, expected, strict=True) for key in {*a, *b}]
    return all(
        type(a) is type(b) and np.array_equal(a, b) and getattr(a, "dtype", 0) == getattr(b, "dtype", 0) for a, b in pairs
    )


# -- what is written --------------------------------------------------------------------------------------------------


def test_examples_come_back_in_their_order_split_by_split(tmp_path: Path, rng: np.random.Generator) -> None:
    """Values, types and order, over several shards, written to two splits by turns."""
    examples = make_examples(50, rng)
    with DatasetWriter(tmp_path / "data", FEATURES, shard_records=7) as writer:
        for number, example in enumerate(examples):
            writer.write(example, split="test" if number % 5 == 0 else "train")
        assert writer.num_records == {"test": 10, "train": 40}

    found = read_examples(tmp_path / "data")

    assert equal(found["test"], examples[::5])
    assert equal(found["train"], [example for number, example in enumerate(examples) if number % 5])


def test_the_directory_is_laid_out_as_tfds_would(tmp_path: Path, rng: np.random.Generator) -> None:
    """Names of shards, descriptions and class names; nothing else in the directory, nothing beside it."""
    with DatasetWriter(tmp_path / "my-data", FEATURES, metadata={"a": 1}, shard_records=4) as writer:
        writer.write_all(make_examples(10, rng))
        writer.write_all(make_examples(2, rng), split="test-1")

    assert os.listdir(tmp_path) == ["my-data"]
    assert sorted(os.listdir(tmp_path / "my-data")) == [
        "arrayfeed.json",
        "dataset_info.json",
        "features.json",
        "label.labels.txt",
        "metadata.json",
        "my_data-test-1.array_record-00000-of-00001",
        "my_data-test-1.record_index",
        "my_data-train.array_record-00000-of-00003",
        "my_data-train.array_record-00001-of-00003",
        "my_data-train.array_record-00002-of-00003",
        "my_data-train.record_index",
    ]
    form = json.loads((tmp_path / "my-data" / "dataset_info.json").read_text())
    assert form["fileFormat"] == "array_record"
    assert form["splits"][0]["name"] == "train"
    assert form["splits"][0]["shardLengths"] == ["4", "4", "2"]


def test_the_description_comes_back(tmp_path: Path) -> None:
    """All that the caller said of the data set, unicode included."""
    said: dict[str, Any] = {
        "version": "2.10.3",
        "description": "Ziffern, sagt er: \N{SNOWMAN}",
        "citation": "@misc{x}",
        "license": "CC-BY",
        "metadata": {"nested": [1, {"ä": None}]},
        "supervised_keys": ("image", "label"),
    }
    with DatasetWriter(tmp_path / "data", FEATURES, name="digits", **said):
        pass

    info = DatasetInfo.read(tmp_path / "data")

    assert {key: getattr(info, key) for key in said} == said
    assert (info.name, info.splits) == ("digits", ())
    assert info.features["label"].names == ["zero", "one"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("codec", ["auto", "none", "zstd:1", "brotli:1", "snappy"])
def test_the_same_data_give_the_same_files(tmp_path: Path, rng: np.random.Generator, codec: str) -> None:
    """Byte for byte, so that checksums can be compared; and records are equal under every codec."""
    examples = make_examples(30, rng)
    for name in ("a", "b"):
        with DatasetWriter(tmp_path / name, FEATURES, name="data", codec=codec, shard_records=8) as writer:
            writer.write_all(examples)

    first, second = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("a", "b"))

    assert first == second
    assert equal(read_examples(tmp_path / "a")["train"], examples)


def test_columns_write_what_their_rows_would(tmp_path: Path, rng: np.random.Generator) -> None:
    """Over more rows than are encoded at a time, features nested, with and without a short way."""
    features = FeaturesDict(
        {"x": Tensor(shape=(3,), dtype=np.float32), "y": {"label": ClassLabel(5), "image": Image(shape=(2, 2, 1))}}
    )
    x = rng.random((2500, 3), dtype=np.float32)
    labels = rng.integers(0, 5, 2500)
    images = rng.integers(0, 256, (2500, 2, 2, 1), dtype=np.uint8)
    with DatasetWriter(tmp_path / "rows", features) as writer:
        writer.write_all({"x": x[k], "y": {"label": labels[k], "image": images[k]}} for k in range(2500))
    with DatasetWriter(tmp_path / "columns", features) as writer:
        writer.write_columns({"x": x, "y": {"label": labels, "image": images}})

    assert read_records(tmp_path / "columns") == read_records(tmp_path / "rows")


def test_a_split_of_no_examples_exists(tmp_path: Path) -> None:
    """Whether it was to be filled from examples or columns. It is named in a file of its own, for TFDS cannot open it."""
    with DatasetWriter(tmp_path / "data", {"x": np.int64}) as writer:
        writer.write_all([], split="none")
        writer.write_columns({"x": np.empty(0, np.int64)}, split="no_rows")

    assert read_records(tmp_path / "data") == {"none": [], "no_rows": []}
    assert "splits" not in json.loads((tmp_path / "data" / "dataset_info.json").read_text())
    (tmp_path / "data" / "empty_splits.json").write_text("{}")
    with pytest.raises(DataError, match=r"empty_splits\.json: a list of splits' names expected"):
        DatasetInfo.read(tmp_path / "data")


def test_a_progress_bar_counts_the_examples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only where it is asked for, with the total where there is one."""
    with DatasetWriter(tmp_path / "data", {"x": np.int64}) as writer:
        writer.write_all([{"x": 1}] * 5)
        assert capsys.readouterr().err == ""
        writer.write_all([{"x": 1}] * 5, split="test", progress=True)

    assert "5/5" in capsys.readouterr().err


def test_threads_that_share_a_writer_lose_nothing(tmp_path: Path, no_leaks: None) -> None:
    """Four threads, two splits, shards that fill all the time; each thread's examples keep their order."""
    for attempt in range(5):
        path = tmp_path / str(attempt)
        with DatasetWriter(path, {"x": np.int64}, shard_records=64, codec="none") as writer:

            def fill(part: int, writer: DatasetWriter = writer) -> None:
                for number in range(500):
                    writer.write({"x": part * 1000 + number}, split="train" if part % 2 else "test")
                writer.write_columns({"x": part * 1000 + np.arange(500, 1000)}, split="train" if part % 2 else "test")

            threads = [threading.Thread(target=fill, args=(part,)) for part in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        found = {split: [example["x"] for example in examples] for split, examples in read_examples(path).items()}
        assert sorted(found["train"] + found["test"]) == list(range(4000))
        for part in range(4):
            mine = [x for x in found["train" if part % 2 else "test"] if x // 1000 == part]
            assert mine == sorted(mine)


# -- what is refused --------------------------------------------------------------------------------------------------


def test_an_example_that_does_not_fit_is_named_and_the_writer_goes_on(tmp_path: Path, rng: np.random.Generator) -> None:
    """Nothing of it is written, to no split; the number is the one it would have had."""
    good = make_examples(3, rng)
    bad = {**good[0], "label": 2}
    with DatasetWriter(tmp_path / "data", FEATURES) as writer:
        writer.write(good[0])
        writer.write(good[1])
        with pytest.raises(SchemaError, match=r"^example 2 of split 'train': feature 'label': a label from -1 to 1 .* got 2"):
            writer.write(bad)
        with pytest.raises(SchemaError, match=r"^example 0 of split 'other': "):
            writer.write({**good[0], "extra": 1}, split="other")
        with pytest.raises(SchemaError, match=r"^example 3 of split 'train': "):
            writer.write_all([good[2], bad, good[0]])

    found = read_examples(tmp_path / "data")
    assert list(found) == ["train"]
    assert equal(found["train"], good)


def test_a_row_that_does_not_fit_is_named_and_those_before_it_are_written(tmp_path: Path) -> None:
    """Also far behind the first rows that are encoded together."""
    labels = np.arange(3000) % 10
    labels[2077] = 10
    with DatasetWriter(tmp_path / "data", {"x": ClassLabel(10)}) as writer:
        with pytest.raises(SchemaError, match=r"^row 2077 of 3000: feature 'x': .* got 10"):
            writer.write_columns({"x": labels})
        writer.write({"x": 9})

    assert [example["x"] for example in read_examples(tmp_path / "data")["train"]] == [*labels[:2077], 9]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"x": [1, 2], "n": {"y": [1]}}, r"columns of one length expected, got \{'x': 2, 'n/y': 1\}"),
        ({"x": [1, 2], "n": {"y": 3}}, r"column 'n/y': an array or list, one value a row, expected, got int"),
    ],
)
def test_columns_of_different_lengths_are_refused(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    """Before a row is written."""
    with DatasetWriter(tmp_path / "data", {"x": np.int64, "n": {"y": np.int64}}) as writer:
        with pytest.raises(SchemaError, match=message):
            writer.write_columns(columns)
        assert writer.num_records == {}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"codec": "gzip"}, ValueError, "codec 'gzip' is unknown"),
        ({"name": "a-b"}, ValueError, "name must be"),
        ({"version": "1"}, ValueError, "version must be"),
        ({"shard_bytes": 0}, ValueError, "shard_bytes must be 1 or more"),
        ({"metadata": {"x": {1, 2}}}, TypeError, r"metadata\['x'\]: set is not what JSON holds"),
        ({"features": {"x": ClassLabel(names=["two\nlines"])}}, SchemaError, "does not fit on one line"),
        ({"features": {"a": {"b": np.int64}, "a/b": np.int64}}, SchemaError, "share the stored key 'a/b'"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_made(
    tmp_path: Path, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    """Not at the end, after hours of writing; and no directory is left."""
    with pytest.raises(error, match=message):
        DatasetWriter(tmp_path / "data", **{"features": {"x": np.int64}, **arguments})

    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("split", ["", "a/b", "all", "train[:5]", "-"])
def test_a_split_that_could_not_be_asked_for_is_refused_at_once(tmp_path: Path, split: str) -> None:
    """Not when the data set is opened."""
    with DatasetWriter(tmp_path / "data", {"x": np.int64}) as writer:
        with pytest.raises(ValueError, match="a split is called by letters"):
            writer.write({"x": 1}, split=split)
        writer.write({"x": 1})

    assert list(read_records(tmp_path / "data")) == ["train"]


def test_what_exists_is_never_overwritten(tmp_path: Path) -> None:
    """The old data stay byte for byte; also where there are only shards, without a description."""
    with DatasetWriter(tmp_path / "data", {"x": np.int64}) as writer:
        writer.write({"x": 1})
    (tmp_path / "data" / "dataset_info.json").unlink()
    before = {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir()}

    with pytest.raises(DatasetExistsError, match=r'holds data already, which is never overwritten.*mode="append"'):
        DatasetWriter(tmp_path / "data", {"x": np.int64})

    assert {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir()} == before
    assert os.listdir(tmp_path) == ["data"]


def test_a_name_taken_meanwhile_does_not_cost_the_work(tmp_path: Path) -> None:
    """The finished data set stays under the name in the error."""
    writer = DatasetWriter(tmp_path / "data", {"x": np.int64})
    writer.write({"x": 1})
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "theirs").write_text("x")

    with pytest.raises(DatasetExistsError, match="rename it yourself"):
        writer.close()

    (leftover,) = find_leftovers(tmp_path / "data")
    assert read_examples(Path(leftover.directory)) == {"train": [{"x": 1}]}
    assert os.listdir(tmp_path / "data") == ["theirs"]


# -- how it ends ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", [0, 3, 1000])
def test_an_exception_in_the_block_publishes_nothing(tmp_path: Path, written: int, no_leaks: None) -> None:
    """Whatever was written by then, closed shards among it, is removed."""
    with (
        pytest.raises(KeyboardInterrupt),
        DatasetWriter(tmp_path / "data", {"x": np.int64}, shard_records=200) as writer,
    ):
        writer.write_columns({"x": np.arange(written)})
        raise KeyboardInterrupt

    assert os.listdir(tmp_path) == []


def test_an_exception_while_examples_are_made_publishes_nothing(tmp_path: Path) -> None:
    """Of its own type, from the user's generator."""

    def examples() -> Iterator[dict[str, int]]:
        yield {"x": 1}
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), DatasetWriter(tmp_path / "data", {"x": np.int64}) as writer:
        writer.write_all(examples())

    assert os.listdir(tmp_path) == []


def test_a_closed_writer_says_so(tmp_path: Path) -> None:
    """Closing and aborting again does nothing; writing is an error."""
    writer = DatasetWriter(tmp_path / "data", {"x": np.int64})
    writer.write({"x": 1})
    writer.close()
    writer.close()
    writer.abort()

    with pytest.raises(ValueError, match=r"data', closed, train: 1> takes no more examples"):
        writer.write({"x": 2})
    assert read_examples(tmp_path / "data") == {"train": [{"x": 1}]}


def test_a_forgotten_writer_warns_and_cleans_up(tmp_path: Path) -> None:
    """Nothing appears at the path, and nothing stays beside it."""
    writer = DatasetWriter(tmp_path / "data", {"x": np.int64})
    writer.write({"x": 1})

    with pytest.warns(ResourceWarning, match="dropped without close.*nothing is published"):
        writer.__del__()

    assert os.listdir(tmp_path) == []


def test_a_shard_that_cannot_be_written_ends_the_writer(tmp_path: Path) -> None:
    """With an error that names it; whoever goes on all the same is told again, and nothing is published."""
    writer = DatasetWriter(tmp_path / "data", {"x": np.int64}, shard_records=2, codec="none")
    writer.write_columns({"x": [1, 2]})
    (shard,) = Path(writer._staging.directory).glob("*.partial")
    shard.unlink()

    with pytest.raises(DataError, match=r"train-00000\.partial: the shard could not be written"):
        writer.write({"x": 3})
    for go_on in (partial(writer.write, {"x": 4}), writer.close):
        with pytest.raises(DataError, match="writing failed before, this cannot be finished; start again"):
            go_on()
    writer.abort()

    assert os.listdir(tmp_path) == []


def test_leftovers_of_a_killed_writer_are_named_to_the_next(tmp_path: Path) -> None:
    """A warning says which directories they are and how they go; the rerun succeeds beside them."""
    code = """
import os, sys, numpy
from arrayfeed.datasource.writing import DatasetWriter
writer = DatasetWriter(sys.argv[1], {"x": numpy.int64})
writer.write({"x": 1})
os.kill(os.getpid(), 9)
"""
    killed = subprocess.run([sys.executable, "-c", code, tmp_path / "data"], timeout=60)
    assert killed.returncode == -9
    (leftover,) = find_leftovers(tmp_path / "data")

    with pytest.warns(UserWarning, match=rf"an earlier run was interrupted and left {leftover.directory}"):
        writer = DatasetWriter(tmp_path / "data", {"x": np.int64})
    writer.close()

    assert remove_leftovers(tmp_path / "data") == [leftover.directory]
    assert os.listdir(tmp_path) == ["data"]


def test_a_forked_child_cannot_write_and_harms_nothing(tmp_path: Path) -> None:
    """Its writes would go into the parent's file; its end must not remove the parent's work."""
    code = """
import os, sys, numpy
from arrayfeed.datasource.writing import DatasetWriter
with DatasetWriter(sys.argv[1], {"x": numpy.int64}) as writer:
    writer.write({"x": 1})
    child = os.fork()
    if not child:
        try:
            writer.write({"x": 2})
        except RuntimeError as error:
            assert f"belongs to process {os.getppid()}" in str(error), error
        else:
            os._exit(1)
        writer.abort()
        writer.__del__()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-c", code, tmp_path / "data"], check=True, timeout=60)

    assert read_examples(tmp_path / "data") == {"train": [{"x": 1}]}


def test_a_missing_array_record_is_an_error_that_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is needed first, and nothing is left."""
    monkeypatch.setitem(sys.modules, "array_record.python.array_record_module", None)

    with pytest.raises(ImportError, match=r"writing data sets needs array-record.*pip install array-record"):
        with DatasetWriter(tmp_path / "data", {"x": np.int64}) as writer:
            writer.write({"x": 1})

    assert os.listdir(tmp_path) == []


def test_array_record_is_imported_by_the_first_shard_only() -> None:
    """Whoever only reads does without it, on platforms too that have no wheel of it."""
    code = """
import sys
import arrayfeed.datasource.writing
assert not {name.partition(".")[0] for name in sys.modules} & {"array_record", "zstandard", "tqdm", "cv2", "PIL"}
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# -- what a shard's writer says of it ---------------------------------------------------------------------------------


def test_metadata_of_a_shard_stand_in_the_manifest(tmp_path: Path) -> None:
    """No shard is opened to read them; they hold from where they were said, over as many shards as that takes."""
    with DatasetWriter(tmp_path / "data", {"x": np.int64}, shard_records=2, metadata={"all": 1}) as writer:
        writer.write_columns({"x": range(3)})
        writer.begin_shard({"camera": ["left", {"ä": None}]})
        writer.write_columns({"x": range(3, 6)})
        writer.begin_shard()
        writer.begin_shard()
        writer.write_columns({"x": [6]})
        writer.begin_shard({"of": "nothing"})
        with writer.part(0) as part:
            part.begin_shard(7, split="test")
            part.write({"x": 7}, split="test")
        with pytest.raises(TypeError, match="metadata: set is not what JSON holds"):
            writer.begin_shard({1})
    for path in (tmp_path / "data").glob("*array_record*"):
        path.unlink()

    manifest = Manifest.read(tmp_path / "data" / "arrayfeed.json")

    assert manifest is not None
    said = {name.partition("data-")[2]: entry.metadata for name, entry in manifest.files.items() if "array_record" in name}
    left = {"camera": ["left", {"ä": None}]}
    assert said == {
        **{f"train.array_record-0000{k}-of-00005": each for k, each in enumerate([None, None, left, left, None])},
        "test.array_record-00000-of-00001": 7,
    }
    assert DatasetInfo.read(tmp_path / "data").metadata == {"all": 1}


def test_a_field_can_be_described(tmp_path: Path) -> None:
    """In words and by its range, which features.json keeps where TFDS does."""
    features = {"x": Tensor(shape=(2,), dtype=np.int64, description="two of them", value_range="0 to 9")}
    with DatasetWriter(tmp_path / "data", features) as writer:
        writer.write({"x": [1, 2]})

    found = DatasetInfo.read(tmp_path / "data").features["x"]

    assert (found.description, found.value_range) == ("two of them", "0 to 9")


def test_columns_show_their_progress(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only if asked."""
    with DatasetWriter(tmp_path / "data", {"x": np.int64}) as writer:
        writer.write_columns({"x": range(5)})
        assert capsys.readouterr().err == ""
        writer.write_columns({"x": range(5000)}, progress=True)

    assert "5000/5000" in capsys.readouterr().err


def test_how_many_shards_there_are_does_not_change_what_a_seed_gives(tmp_path: Path) -> None:
    """Few large ones or many small ones: that is for the disk, the shuffle is of all records."""
    orders = set()
    for shards in (1, 7, 100):
        path = tmp_path / str(shards)
        with DatasetWriter(path, {"x": np.int64}, shard_records=-(-700 // shards), codec="none") as writer:
            writer.write_columns({"x": np.arange(700)})
        source = arrayfeed.open(path, split="train")
        assert len(DatasetInfo.read(path).split("train").shard_lengths) == shards
        loader = arrayfeed.DataLoader(source, batch_size=100, shuffle=True, seed=3)
        orders.add(tuple(x for batch in loader for x in batch["x"].tolist()))

    (order,) = orders
    assert sorted(order) == list(range(700)) != list(order)
