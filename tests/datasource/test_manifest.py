"""The manifest: what it says of the files, its root, and what is refused."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import arrayfeed
from arrayfeed.datasource.errors import DataError, DatasetExistsError, DatasetNotFoundError, ShardNotFoundError
from arrayfeed.datasource.features import ClassLabel
from arrayfeed.datasource.manifest import MANIFEST_FILE, FileEntry, Manifest, write_manifest

HASH = "0" * 64


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """A data set of two splits, three shards, class names and a licence."""
    path = tmp_path / "data"
    with arrayfeed.DatasetWriter(
        path, {"x": ClassLabel(names="abc")}, shard_records=2, license="CC0", metadata={"ä": 1}
    ) as writer:
        writer.write_columns({"x": [0, 1, 2]}, split="train")
        writer.write_columns({"x": [0]}, split="test")
    return path


def test_every_file_is_listed_with_its_size_and_hash(dataset: Path) -> None:
    """All that was written, but for the manifest itself and the record indexes; shards with their records."""
    manifest = Manifest.read(dataset / MANIFEST_FILE)
    assert manifest is not None

    listed = {path.name for path in dataset.iterdir()} - {MANIFEST_FILE, "data-train.record_index", "data-test.record_index"}
    assert manifest.files.keys() == listed
    for name, entry in manifest.files.items():
        content = (dataset / name).read_bytes()
        assert (entry.bytes, entry.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    assert {name[-14:]: entry.records for name, entry in manifest.files.items() if entry.records is not None} == {
        "00000-of-00001": 1,
        "00000-of-00002": 2,
        "00001-of-00002": 1,
    }


def test_the_root_is_the_hash_of_the_files_entry_in_canonical_form(dataset: Path) -> None:
    """As the module describes it, so that anybody can compute it."""
    form = json.loads((dataset / MANIFEST_FILE).read_text())
    text = json.dumps(form["files"], sort_keys=True, separators=(",", ":"))

    assert form["root"] == hashlib.sha256(text.encode("ascii")).hexdigest()


def test_the_same_data_have_the_same_root_wherever_they_are(dataset: Path, tmp_path: Path) -> None:
    """Written again, copied, and described anew from the files alone."""
    root = json.loads((dataset / MANIFEST_FILE).read_text())["root"]
    shutil.copytree(dataset, tmp_path / "copy")
    (tmp_path / "copy" / MANIFEST_FILE).unlink()
    (tmp_path / "copy" / "data-train.record_index").unlink()
    (tmp_path / "copy" / "notes.txt").write_text("no part of it")

    assert write_manifest(tmp_path / "copy") == root
    assert (tmp_path / "copy" / MANIFEST_FILE).read_bytes() == (dataset / MANIFEST_FILE).read_bytes()


def test_a_manifest_is_not_written_over_another_nor_for_what_is_incomplete(dataset: Path, tmp_path: Path) -> None:
    """It would declare damage to be right."""
    with pytest.raises(DatasetExistsError, match="verify the data set against it"):
        write_manifest(dataset)
    (dataset / MANIFEST_FILE).unlink()
    (dataset / "data-train.array_record-00001-of-00002").unlink()
    with pytest.raises(ShardNotFoundError, match=r"train\.array_record-00001-of-00002: this shard is missing"):
        write_manifest(dataset)
    with pytest.raises(DatasetNotFoundError):
        write_manifest(tmp_path / "nothing")
    assert not (dataset / MANIFEST_FILE).exists()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(st.dictionaries(st.text(min_size=1), st.tuples(st.integers(0), st.none() | st.integers(0), json_values)))
def test_a_manifest_comes_back_equal(tmp_path_factory: pytest.TempPathFactory, files: dict[str, tuple[int, Any, Any]]) -> None:
    """Any names that a file below the directory can have, any sizes, any metadata."""
    path = tmp_path_factory.getbasetemp() / MANIFEST_FILE
    entries = {
        name: FileEntry(size, HASH, records, metadata)
        for name, (size, records, metadata) in files.items()
        if not name.startswith("/") and ".." not in name.split("/") and name.strip("./") and "\0" not in name
    }
    Manifest(entries).write(path)

    found = Manifest.read(path)

    assert found == Manifest(entries)


def test_no_file_is_no_manifest(tmp_path: Path) -> None:
    """Which is no error: others write none."""
    assert Manifest.read(tmp_path / MANIFEST_FILE) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda form: form.update(root="1" * 64), "it was edited or damaged: it states the root '1111"),
        (lambda form: form.pop("root"), "it was edited or damaged: it states the root 'None'"),
        (lambda form: form["files"]["LICENSE"].update(bytes=5), "it was edited or damaged"),
        (lambda form: form["files"].pop("LICENSE"), "it was edited or damaged"),
        (lambda form: form.update(arrayfeed=2), "no manifest of version 1"),
        (lambda form: form.update(files=[]), "no manifest of version 1"),
        (lambda form: form["files"].update({"../x": form["files"]["LICENSE"]}), r"'\.\./x' is no name of a file"),
        (lambda form: form["files"].update({"/etc/x": form["files"]["LICENSE"]}), "'/etc/x' is no name of a file"),
        (lambda form: form["files"].update({"a\0b": form["files"]["LICENSE"]}), "is no name of a file"),
        (lambda form: form["files"]["LICENSE"].update(bytes=-1), "no description of a file"),
        (lambda form: form["files"]["LICENSE"].update(bytes=True), "no description of a file"),
        (lambda form: form["files"]["LICENSE"].update(records="1"), "no description of a file"),
        (lambda form: form["files"]["LICENSE"].update(other=1), "no description of a file"),
        (lambda form: form["files"].update(LICENSE=None), "no description of a file"),
    ],
)
def test_a_manifest_that_was_changed_is_refused(dataset: Path, change: Any, message: str) -> None:
    """Each field by turns; the message names the file."""
    path = dataset / MANIFEST_FILE
    form = json.loads(path.read_text())
    change(form)
    path.write_text(json.dumps(form))

    with pytest.raises(DataError, match=message) as refusal:
        Manifest.read(path)
    assert refusal.value.path == str(path)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, "\N{SNOWMAN}", '{"arrayfeed": 1, "files": {"a": 1}}'])
def test_what_is_no_manifest_is_refused(tmp_path: Path, text: str) -> None:
    """Whatever it is instead."""
    (tmp_path / MANIFEST_FILE).write_text(text)

    with pytest.raises(DataError, match="cannot be understood"):
        Manifest.read(tmp_path / MANIFEST_FILE)


def test_random_bytes_are_refused(tmp_path: Path, rng: np.random.Generator) -> None:
    """Also what is no text."""
    (tmp_path / MANIFEST_FILE).write_bytes(rng.bytes(1000))

    with pytest.raises(DataError, match="cannot be understood"):
        Manifest.read(tmp_path / MANIFEST_FILE)
