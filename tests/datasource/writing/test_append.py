"""More examples for a data set that exists: all of the old and all of the new, or the old as it was."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from array_record.python import array_record_module

import arrayfeed
from arrayfeed.datasource.errors import DataError, DatasetExistsError, DatasetNotFoundError, SchemaError
from arrayfeed.datasource.features import ClassLabel
from arrayfeed.datasource.manifest import MANIFEST_FILE, Manifest
from arrayfeed.datasource.tfds import DatasetInfo
from arrayfeed.datasource.writing import DatasetWriter, find_leftovers, remove_leftovers, replacing, write_dataset
from support.written import read_records

FIXTURES = Path(__file__).parents[2] / "fixtures" / "tfds"
FEATURES: dict[str, Any] = {"x": np.int64, "label": ClassLabel(names=["a", "b"])}


def columns(start: int, stop: int) -> dict[str, Any]:
    return {"x": np.arange(start, stop), "label": np.arange(start, stop) % 2}


def write(path: Path, **options: Any) -> Path:
    with DatasetWriter(path, FEATURES, name="data", shard_records=10, **options) as writer:
        writer.write_columns(columns(0, 25))
        writer.write_columns(columns(100, 105), split="test")
    return path


def append(path: Path, **options: Any) -> DatasetWriter:
    """Append to one split, leave one, and add one."""
    with DatasetWriter(path, mode="append", shard_records=10, **options) as writer:
        writer.write_columns(columns(25, 40))
        writer.write_columns(columns(200, 203), split="extra")
    return writer


def read(path: Path) -> dict[str, list[int]]:
    return {name: [example["x"] for example in source] for name, source in arrayfeed.open(path, check="crc").items()}


WHOLE = {"train": [*range(40)], "test": [*range(100, 105)], "extra": [*range(200, 203)]}
BEFORE = {"train": [*range(25)], "test": [*range(100, 105)]}


def test_what_was_there_comes_first_and_what_was_appended_after_it(tmp_path: Path) -> None:
    """In splits that existed and new ones; every file is as it should be, none is left over, in or beside the directory."""
    path = write(tmp_path / "data", description="Numbers", license="CC0", metadata={"a": 1}, version="2.0.0")

    writer = append(path)

    assert read(path) == WHOLE
    assert DatasetInfo.read(path).split("train").shard_lengths == (10, 10, 5, 10, 5)
    found = arrayfeed.verify(path)
    assert (found.problems, found.warnings, found.root) == ((), (), writer.root)
    assert os.listdir(tmp_path) == ["data"]
    info = DatasetInfo.read(path)
    assert (info.description, info.license, info.metadata, info.version) == ("Numbers", "CC0", {"a": 1}, "2.0.0")
    assert not list(path.glob("*.kept")) + list(path.glob("*plan*"))


def test_old_shards_are_linked_not_copied(tmp_path: Path) -> None:
    """A terabyte is appended to as fast as a megabyte."""
    path = write(tmp_path / "data")
    before = {entry.inode() for entry in os.scandir(path) if ".array_record" in entry.name}

    append(path)

    assert before < {entry.inode() for entry in os.scandir(path) if ".array_record" in entry.name}


def test_an_appended_data_set_can_be_appended_to(tmp_path: Path) -> None:
    """As often as one likes, and by ``write_dataset`` and parts as well."""
    path = write(tmp_path / "data")
    for number in range(3):
        with DatasetWriter(path, FEATURES, mode="append") as writer, writer.part(1) as part:
            part.write_columns(columns(25 + number, 26 + number))
    write_dataset(path, {"train": columns(28, 40), "extra": columns(200, 203)}, mode="append")

    assert read(path) == WHOLE
    assert arrayfeed.verify(path).ok


def test_nothing_appended_changes_nothing(tmp_path: Path) -> None:
    """Not even the root."""
    path = write(tmp_path / "data")
    root = arrayfeed.verify(path).root

    with DatasetWriter(path, mode="append") as writer:
        writer.write_all([])

    assert read(path) == BEFORE
    assert writer.root == root == arrayfeed.verify(path).root


def test_a_split_without_records_can_grow(tmp_path: Path) -> None:
    """Or stay; then it is still there."""
    with DatasetWriter(tmp_path / "data", FEATURES) as writer:
        writer.write_all([])
        writer.write_all([], split="test")
    with DatasetWriter(tmp_path / "data", mode="append") as writer:
        writer.write_columns(columns(0, 3))
    assert read(tmp_path / "data") == {"train": [0, 1, 2], "test": []}
    with DatasetWriter(tmp_path / "data", mode="append") as writer:
        writer.write_columns(columns(3, 4), split="test")

    assert read(tmp_path / "data") == {"train": [0, 1, 2], "test": [3]}
    assert arrayfeed.verify(tmp_path / "data").warnings == ()


def test_an_empty_shard_of_others_goes_once_there_are_records(tmp_path: Path) -> None:
    """As of a directory that states a split of one shard without records."""
    path = write(tmp_path / "data")
    (path / MANIFEST_FILE).unlink()
    form = json.loads((path / "dataset_info.json").read_text())
    form["splits"].append({**form["splits"][1], "name": "extra", "shardLengths": ["0"]})
    (path / "dataset_info.json").write_text(json.dumps(form))
    array_record_module.ArrayRecordWriter(str(path / "data-extra.array_record-00000-of-00001"), "group_size:1").close()
    assert read(path) == {**BEFORE, "extra": []}

    append(path)

    assert read(path) == WHOLE
    assert DatasetInfo.read(path).split("extra").shard_lengths == (3,)
    assert arrayfeed.verify(path).warnings == ()


def test_what_is_said_anew_replaces_what_was_said(tmp_path: Path) -> None:
    """And only that; the name stays, for shards are called by it."""
    path = write(tmp_path / "data", description="Numbers", citation="@a{b}")

    append(path, version="1.1.0", description="More numbers", metadata={"b": 2})

    info = DatasetInfo.read(path)
    assert (info.version, info.description, info.citation, info.metadata) == ("1.1.0", "More numbers", "@a{b}", {"b": 2})
    with pytest.raises(ValueError, match="is called 'data', and cannot be called 'other'"):
        append(path, name="other")


def test_files_of_the_users_own_stay(tmp_path: Path) -> None:
    """Notes, folders and links in the directory; and the directory itself may be a link."""
    path = write(tmp_path / "disk" / "data")
    (path / "notes").mkdir()
    (path / "notes" / "a.txt").write_text("mine")
    (path / "part-of-this.txt").write_text("mine, too")
    (path / "plan.json").write_text("mine as well")
    (path / "shortcut").symlink_to("notes")
    (tmp_path / "link").symlink_to(path)

    append(tmp_path / "link")

    assert (path / "shortcut" / "a.txt").read_text() == "mine"
    assert (path / "part-of-this.txt").read_text() == "mine, too"
    assert (path / "plan.json").read_text() == "mine as well"
    assert (tmp_path / "link").is_symlink()
    assert read(path) == WHOLE


def test_a_data_set_of_others_can_be_appended_to(tmp_path: Path) -> None:
    """One that TFDS prepared, every feature in it: it has a manifest and an index from then on."""
    path = tmp_path / "data"
    shutil.copytree(FIXTURES / "every_feature" / "1.0.0", path)
    (before,) = read_records(path).values()

    with DatasetWriter(path, mode="append") as writer:
        writer.write_all([], split="nothing")
        example = arrayfeed.open(path, split="train", channels="declared")[3]
        for name in ("translation_some", "translation_any"):
            example[name] = {"en": "a", "fr": ["b"]}  # read as two lists, written as a dict
        writer.write(example)

    records = read_records(path)
    assert records["train"][:-1] == before
    assert len(records["train"]) == len(before) + 1
    found = arrayfeed.verify(path)
    assert found.ok
    assert Manifest.read(path / MANIFEST_FILE) is not None


# -- what is refused --------------------------------------------------------------------------------------------------


def test_other_features_are_refused(tmp_path: Path) -> None:
    """Other class names, too; before anything is made."""
    path = write(tmp_path / "data")

    for features in ({"x": np.int64}, {**FEATURES, "label": ClassLabel(names=["b", "a"])}):
        with pytest.raises(SchemaError, match="the data set has other features"):
            DatasetWriter(path, features, mode="append")

    assert os.listdir(tmp_path) == ["data"]
    append(path)


def test_where_nothing_is_nothing_can_be_appended(tmp_path: Path) -> None:
    """A mistyped path must not become a data set of its own."""
    with pytest.raises(DatasetNotFoundError, match="there is no data set to append to"):
        DatasetWriter(tmp_path / "data", mode="append")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DatasetNotFoundError):
        DatasetWriter(tmp_path / "empty", mode="append")
    with pytest.raises(ValueError, match="mode must be"):
        DatasetWriter(tmp_path / "data", FEATURES, mode="w")  # type: ignore[arg-type]

    assert os.listdir(tmp_path) == ["empty"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: (path / "data-train.array_record-00001-of-00003").unlink(), "a file of it cannot be read: No such file"),
        (lambda path: os.truncate(path / "data-train.array_record-00001-of-00003", 7), "it has 7 bytes, its manifest says"),
        (lambda path: (path / MANIFEST_FILE).write_text("{}"), "cannot be understood"),
        (lambda path: (path / "label.labels.txt").write_text("a\nbb\n"), "5 bytes, its manifest says 4"),
    ],
)
def test_what_is_damaged_is_not_appended_to(tmp_path: Path, damage: Any, message: str) -> None:
    """A new manifest would declare the damage to be right."""
    path = write(tmp_path / "data")
    damage(path)

    with pytest.raises(DataError, match=message):
        DatasetWriter(path, mode="append")

    assert os.listdir(tmp_path) == ["data"]


def test_two_cannot_append_at_once(tmp_path: Path) -> None:
    """The second is told at once; what the first wrote would be lost."""
    path = write(tmp_path / "data")
    first = DatasetWriter(path, mode="append")

    with pytest.raises(DataError, match="another writer appends to it"):
        DatasetWriter(path, mode="append")

    first.write_columns(columns(25, 40))
    first.write_columns(columns(200, 203), split="extra")
    first.close()
    assert read(path) == WHOLE
    with pytest.raises(RuntimeError), DatasetWriter(path, mode="append"):
        raise RuntimeError  # the lock goes with the writer
    with DatasetWriter(path, mode="append"):
        pass


def test_a_data_set_that_was_replaced_meanwhile_is_not_replaced_again(tmp_path: Path) -> None:
    """What was appended is kept where the error says."""
    path = write(tmp_path / "data")
    writer = DatasetWriter(path, mode="append", shard_records=10)
    writer.write_columns(columns(25, 40))
    writer.write_columns(columns(200, 203), split="extra")
    shutil.rmtree(path)
    write(path)

    with pytest.raises(DatasetExistsError, match=r"replaced or removed meanwhile.* is in .*incomplete-"):
        writer.close()

    assert read(path) == BEFORE
    (leftover,) = find_leftovers(path)
    assert read(Path(leftover.directory)) == WHOLE


# -- how it ends ------------------------------------------------------------------------------------------------------


def test_until_the_end_the_old_data_set_is_there_and_an_exception_leaves_it(tmp_path: Path) -> None:
    """Byte for byte."""
    path = write(tmp_path / "data")
    before = {entry.name: Path(entry).read_bytes() for entry in os.scandir(path)}

    with pytest.raises(KeyboardInterrupt), DatasetWriter(path, mode="append") as writer:
        writer.write_columns(columns(25, 40))
        assert read(path) == BEFORE
        raise KeyboardInterrupt

    assert {entry.name: Path(entry).read_bytes() for entry in os.scandir(path)} == before
    assert os.listdir(tmp_path) == ["data"]


def test_whoever_has_it_open_reads_on(tmp_path: Path) -> None:
    """Shards that are open, and those that a split's growth gave no new name."""
    path = write(tmp_path / "data")
    before = arrayfeed.open(path)
    train = [example["x"] for example in before["train"]]

    append(path)

    assert [example["x"] for example in before["train"]] == train
    assert [example["x"] for example in before["test"]] == BEFORE["test"]


def test_two_renames_do_where_names_cannot_be_exchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on file systems that cannot."""
    monkeypatch.setattr(replacing, "_exchange", lambda first, second: False)
    path = write(tmp_path / "data")

    append(path)

    assert read(path) == WHOLE
    assert os.listdir(tmp_path) == ["data"]


def test_files_are_copied_where_they_cannot_be_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on file systems without hard links."""

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    path = write(tmp_path / "data")

    append(path)

    assert read(path) == WHOLE
    assert arrayfeed.verify(path).ok


def test_what_went_aside_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between two renames, nobody stands at the name: opening says so, appending goes on from the old content."""
    path = write(tmp_path / "data")
    path.rename(tmp_path / "data.replaced-0123abcd")

    with pytest.raises(arrayfeed.DatasetIncompleteError, match=r"data\.replaced-0123abcd.*rename it back"):
        arrayfeed.open(path)
    assert not find_leftovers(path) and not remove_leftovers(path)
    append(path)

    assert read(path) == WHOLE
    assert os.listdir(tmp_path) == ["data"]


def test_what_was_replaced_is_a_leftover_once_another_has_its_place(tmp_path: Path) -> None:
    """Then it can go."""
    path = write(tmp_path / "data")
    shutil.copytree(path, tmp_path / "data.replaced-0123abcd")

    assert remove_leftovers(path) == [str(tmp_path / "data.replaced-0123abcd")]
    assert os.listdir(tmp_path) == ["data"]
