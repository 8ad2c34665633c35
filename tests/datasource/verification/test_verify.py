"""verify: whatever is wrong with a data set is found, and named by shard and record."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from array_record.python.array_record_module import ArrayRecordWriter

import arrayfeed
from arrayfeed import verify
from arrayfeed.datasource.arrayrecord.record_index import RecordIndex
from arrayfeed.datasource.errors import DatasetNotFoundError
from arrayfeed.datasource.features import ClassLabel, Image, Tensor
from arrayfeed.datasource.manifest import MANIFEST_FILE, FileEntry, Manifest, describe_file, write_manifest
from arrayfeed.datasource.verification import Verification

FIRST, SECOND, THIRD = (f"data-train.array_record-0000{k}-of-00003" for k in range(3))
TEST = "data-test.array_record-00000-of-00001"
INDEX = "data-train.record_index"


@pytest.fixture(scope="module", params=["none", "zstd"])
def pristine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of 250 and 10 examples, in three shards and one."""
    path = tmp_path_factory.mktemp("pristine") / "data"
    rng = np.random.default_rng(5)
    features = {
        "x": Tensor(shape=(20,), dtype=np.float32, encoding="bytes"),
        "image": Image(shape=(3, 3, 1)),
        "label": ClassLabel(names=["a", "b", "c"]),
    }
    with arrayfeed.DatasetWriter(path, features, codec=request.param, shard_records=100, metadata={"a": 1}) as writer:
        for split, count in (("train", 250), ("test", 10)):
            writer.write_columns(
                {
                    "x": rng.random((count, 20), np.float32),
                    "image": rng.integers(0, 256, (count, 3, 3, 1), np.uint8),
                    "label": rng.integers(0, 3, count),
                },
                split=split,
            )
    return path


@pytest.fixture
def dataset(pristine: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    shutil.copytree(pristine, tmp_path / "data")
    return tmp_path / "data"


def told(found: Verification) -> list[tuple[str, int | None, str]]:
    return [(problem.file, problem.record, problem.message) for problem in found.problems]


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def place_of(dataset: Path, shard: str, record: int) -> int:
    """Return a byte in the middle of a record."""
    indexed = RecordIndex(str(dataset / INDEX)).lookup(shard)
    assert indexed is not None
    # Behind the chunk's header; the shards of this data set are of one block of 64 KiB, whose header has 24 bytes.
    return int(indexed.index.starts[record]) + 24 + 60


def pin(dataset: Path, name: str) -> None:
    """Make the manifest agree with what a file is now, as somebody would who changes data on purpose."""
    manifest = Manifest.read(dataset / MANIFEST_FILE)
    assert manifest is not None
    entry = describe_file(dataset / name, manifest.files[name].records)
    Manifest({**manifest.files, name: entry}).write(dataset / MANIFEST_FILE)


# -- nothing is wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_workers", [None, 2])
def test_a_whole_data_set_is_in_order(pristine: Path, num_workers: int | None, no_leaks: None) -> None:
    """Nothing to tell, the root is the manifest's, and the numbers are those of the files."""
    manifest = Manifest.read(pristine / MANIFEST_FILE)
    assert manifest is not None

    found = verify(pristine, num_workers=num_workers, root=manifest.root.upper(), overlap=True)

    assert found == Verification(
        str(pristine), manifest.root, (), (), (), 8, 260, sum((pristine / name).stat().st_size for name in manifest.files)
    )
    assert found.ok
    assert verify(pristine, quick=True, root=manifest.root) == found


@pytest.mark.parametrize("name", ["every_feature/1.0.0", "numbers/small/1.2.0"])
def test_a_data_set_that_tfds_prepared_is_in_order(name: str) -> None:
    """Without a manifest, which is told; every feature's records are decoded."""
    found = verify(Path(__file__).parents[2] / "fixtures" / "tfds" / name)

    assert not found.problems
    assert found.warnings[0].message.startswith("there is no arrayfeed.json")
    assert found.num_records > 0
    assert re.fullmatch("[0-9a-f]{64}", found.root)


def test_what_is_no_data_set_is_an_error(tmp_path: Path) -> None:
    """There is nothing to be verified."""
    with pytest.raises(DatasetNotFoundError):
        verify(tmp_path)
    with pytest.raises(DatasetNotFoundError):
        verify(tmp_path / "nothing", quick=True)


def test_arguments_that_make_no_sense_are_refused(pristine: Path) -> None:
    """Before anything is read."""
    with pytest.raises(ValueError, match="root must be 64 hexadecimal digits, got 'abc'"):
        verify(pristine, root="abc")
    with pytest.raises(ValueError, match="overlaps are found by reading all records"):
        verify(pristine, quick=True, overlap=True)


def test_the_bar_counts_bytes(pristine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """To the end, and only if asked."""
    verify(pristine)
    assert capsys.readouterr().err == ""

    verify(pristine, progress=True)

    assert "verify: 100%" in capsys.readouterr().err


# -- tampering --------------------------------------------------------------------------------------------------------


def test_a_flipped_byte_of_a_record_is_told_by_shard_and_record(dataset: Path) -> None:
    """The file's hash tells that, the record's checksum which."""
    flip(dataset / SECOND, place_of(dataset, SECOND, 17))

    found = told(verify(dataset))

    assert [(file, record) for file, record, _ in found] == [(SECOND, None), (SECOND, 17)]
    assert found[0][2].startswith("its SHA-256 is ")
    assert "damaged" in found[1][2] or "CRC32C" in found[1][2]


def test_a_flipped_byte_is_told_by_record_without_a_manifest_too(dataset: Path) -> None:
    """By the record index, and where there is none, by the hashes of ArrayRecord's own chunks."""
    (dataset / MANIFEST_FILE).unlink()
    flip(dataset / SECOND, place_of(dataset, SECOND, 17))
    assert [problem[:2] for problem in told(verify(dataset))] == [(SECOND, 17)]

    (dataset / INDEX).unlink()
    assert [problem[:2] for problem in told(verify(dataset))] == [(SECOND, 17)]


def test_records_damaged_before_they_were_hashed_are_told(dataset: Path) -> None:
    """A file that is what the manifest says, but whose records are not what was given to the writer."""
    flip(dataset / SECOND, place_of(dataset, SECOND, 17))
    pin(dataset, SECOND)

    found = told(verify(dataset))

    assert [problem[:2] for problem in found] == [(SECOND, 17)]


def append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def make_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize(
    ("tamper", "message"),
    [
        (append, r"it has 131073 bytes, 131072 were written: something was added"),
        (cut, r"it has 131071 bytes, 131072 were written: it was cut short"),
        (empty, r"it has 0 bytes, 131072 were written: it was cut short"),
        (Path.unlink, "it is missing"),
        (make_directory, r"Is a directory|it has \d+ bytes"),
    ],
)
def test_a_file_of_another_size_is_told(dataset: Path, quick: bool, tamper: Callable[[Path], Any], message: str) -> None:
    """Or one that is no file any more; without reading any, too."""
    tamper(dataset / SECOND)

    found = told(verify(dataset, quick=quick))

    assert {file for file, _, _ in found} == {SECOND}
    assert re.search(message, found[0][2])


def test_exchanged_shards_are_told_for_what_they_are(dataset: Path) -> None:
    """Each is whole, but in the place of the other."""
    (dataset / FIRST).rename(dataset / "aside")
    (dataset / SECOND).rename(dataset / FIRST)
    (dataset / "aside").rename(dataset / SECOND)

    found = told(verify(dataset))

    assert (FIRST, None, f"this is what was written as {SECOND}: files were exchanged") in found
    assert (SECOND, None, f"this is what was written as {FIRST}: files were exchanged") in found


@pytest.mark.parametrize("name", ["dataset_info.json", "features.json", "metadata.json", "label.labels.txt"])
def test_a_changed_description_is_told(dataset: Path, name: str) -> None:
    """As much as a shard: it says what the bytes mean."""
    path = dataset / name
    path.write_text(path.read_text().replace("1", "1 ").replace("a", "a "))

    assert name in {file for file, _, _ in told(verify(dataset))}


@pytest.mark.parametrize("name", ["dataset_info.json", "features.json"])
@pytest.mark.parametrize("text", [None, "", "{", "[]", "{}"])
def test_a_description_that_cannot_be_read_does_not_hide_the_rest(dataset: Path, name: str, text: str | None) -> None:
    """What the manifest lists is compared all the same."""
    if text is None:
        (dataset / name).unlink()
    else:
        (dataset / name).write_text(text)
    append(dataset / SECOND)

    found = verify(dataset)

    assert {name, SECOND} <= {file for file, _, _ in told(found)}


def test_an_edited_manifest_is_told(dataset: Path) -> None:
    """Its root is not that of its files any more; the rest is checked by other means."""
    path = dataset / MANIFEST_FILE
    path.write_text(path.read_text().replace("131072", "131073"))

    for quick in (False, True):
        ((file, _, message),) = told(verify(dataset, quick=quick))
        assert (file, message[:27]) == (MANIFEST_FILE, "it was edited or damaged: i")


def test_a_data_set_changed_with_its_manifest_is_told_by_the_expected_root(dataset: Path) -> None:
    """And only by that: whoever changes everything consistently is found out by what was noted elsewhere."""
    root = verify(dataset).root
    shutil.copy(dataset / TEST, dataset / "aside")
    (dataset / MANIFEST_FILE).unlink()
    info = json.loads((dataset / "dataset_info.json").read_text())
    info["description"] = "another"
    (dataset / "dataset_info.json").write_text(json.dumps(info))
    (dataset / "aside").unlink()
    write_manifest(dataset)
    assert verify(dataset).ok

    for quick in (False, True):
        ((file, _, message),) = told(verify(dataset, root=root, quick=quick))
        assert file == ""
        assert message.startswith("the root is ")
        assert f"{root} was expected" in message


def test_files_that_only_one_of_manifest_and_description_knows_are_told(dataset: Path) -> None:
    """A shard left out of the manifest; a file in it that the data set has no use for."""
    manifest = Manifest.read(dataset / MANIFEST_FILE)
    assert manifest is not None
    files = {**manifest.files, "gone": FileEntry(3, "0" * 64)}
    del files[TEST]
    Manifest(files).write(dataset / MANIFEST_FILE)

    assert told(verify(dataset)) == [
        (TEST, None, "it belongs to the data set, but is not in its manifest"),
        ("gone", None, "it is missing"),
    ]


def test_a_wrong_count_of_records_is_told(dataset: Path) -> None:
    """In the description, against the shard and the manifest."""
    path = dataset / "dataset_info.json"
    path.write_text(path.read_text().replace('"50"', '"51"'))
    pin(dataset, "dataset_info.json")

    assert told(verify(dataset)) == [
        (THIRD, None, "the description says 51 records, the manifest 50"),
        (THIRD, None, "it holds 50 records, the data set's description says 51"),
    ]


@pytest.mark.parametrize("place", [0, 20, 200, 5000, -1])
def test_a_damaged_record_index_is_told(dataset: Path, place: int) -> None:
    """Wherever; the records are then checked by their chunks' hashes."""
    flip(dataset / INDEX, place)

    assert {file for file, _, _ in told(verify(dataset))} == {INDEX}


def test_an_index_of_other_shards_is_told(dataset: Path, pristine: Path) -> None:
    """Also one that is cut short."""
    shutil.copy(pristine / "data-test.record_index", dataset / INDEX)
    found = told(verify(dataset))
    assert [file for file, _, _ in found] == [INDEX] * 3
    assert f"{FIRST} is not in this record index" in found[0][2]

    (dataset / INDEX).write_bytes((pristine / INDEX).read_bytes()[:100])
    assert {file for file, _, _ in told(verify(dataset))} == {INDEX}


def test_records_that_do_not_decode_are_told_and_the_many_counted(tmp_path: Path) -> None:
    """Whole, but not what the features promise: which, why, and no more than a hundred of them one by one."""
    with arrayfeed.DatasetWriter(tmp_path / "data", {"label": ClassLabel(10)}, shard_records=200) as writer:
        writer.write_columns({"label": [3] * 200})
    shard = tmp_path / "data" / "data-train.array_record-00000-of-00001"
    good = arrayfeed.open(tmp_path / "data", split="train", raw=True)[0]
    writer = ArrayRecordWriter(str(shard), "group_size:1,uncompressed")
    for number in range(200):
        writer.write(good if number < 30 else b"no example")
    writer.close()
    (tmp_path / "data" / "data-train.record_index").unlink()
    (tmp_path / "data" / MANIFEST_FILE).unlink()

    found = told(verify(tmp_path / "data"))

    assert [record for _, record, _ in found] == [*range(30, 130), None]
    assert found[0][2].startswith("this is no tf.train.Example")
    assert found[-1][2] == "70 more of its 200 records are damaged"


def test_any_flipped_byte_of_any_file_is_found(dataset: Path, pristine: Path, rng: np.random.Generator) -> None:
    """Padding and headers too, that no reader looks at. Padding of a record index is no part of the data set."""
    for path in sorted(set(pristine.iterdir()) - set(pristine.glob("*.record_index"))):
        size = path.stat().st_size
        for place in {0, size - 1, *rng.integers(0, size, 3).tolist()}:
            flip(dataset / path.name, place)

            found = verify(dataset)

            # A character of the manifest that is no digit of anything may change without changing what it says.
            assert not found.ok or (path.name == MANIFEST_FILE and found.root == verify(pristine).root), (path, place)
            shutil.copy(path, dataset / path.name)


# -- what is odd ------------------------------------------------------------------------------------------------------


def test_foreign_files_and_leftovers_are_warned_of(dataset: Path) -> None:
    """They do no harm, and are no problem."""
    (dataset / "notes.txt").write_text("mine")
    (dataset / ".hidden").mkdir()
    leftover = Path(f"{dataset}.incomplete-0123abcd")
    leftover.mkdir()

    found = verify(dataset)

    assert found.ok
    assert [str(warning) for warning in found.warnings] == [
        ".hidden: it does not belong to the data set",
        "notes.txt: it does not belong to the data set",
        f"{leftover} was left by an interrupted writer, remove_leftovers() deletes it",
    ]


def test_a_missing_record_index_is_no_problem(dataset: Path) -> None:
    """It can be made again, and is no part of the data."""
    root = verify(dataset).root
    (dataset / INDEX).unlink()

    assert verify(dataset, root=root).ok


# -- overlap ----------------------------------------------------------------------------------------------------------


def test_records_in_two_splits_are_told_pair_by_pair(tmp_path: Path) -> None:
    """How many of the first split stand in the second, and which; repeats within a split are no overlap."""
    with arrayfeed.DatasetWriter(tmp_path / "data", {"x": np.int64}, shard_records=7) as writer:
        writer.write_columns({"x": [*range(30), 3]}, split="train")
        writer.write_columns({"x": [100, 25, 3, 3]}, split="val")
        writer.write_columns({"x": np.arange(200, 205)}, split="test")
        writer.write_columns({"x": np.arange(0, 30)}, split="copy")

    found = verify(tmp_path / "data", overlap=True)

    overlaps = {(each.first, each.second): (each.count, each.indices) for each in found.overlaps}
    assert overlaps == {
        ("train", "val"): (3, ((3, 2), (25, 1), (30, 2))),
        ("train", "copy"): (31, tuple((k, k) for k in range(10))),
        ("val", "copy"): (3, ((1, 25), (2, 3), (3, 3))),
    }
    assert not found.ok
    assert not found.problems
    assert str(found.overlaps[0]).startswith("3 records of split 'train' stand in split 'val', too: train[3] = val[2], ")
    assert verify(tmp_path / "data").ok


def test_a_split_that_cannot_be_read_is_left_out_of_the_comparison(dataset: Path) -> None:
    """Which is told."""
    (dataset / SECOND).unlink()

    found = verify(dataset, overlap=True)

    assert "split 'train' was not compared with the others, because it cannot be read" in {w.message for w in found.warnings}


def test_the_outcome_is_what_json_holds(dataset: Path) -> None:
    """For programs."""
    os.truncate(dataset / SECOND, 100)

    form = json.loads(json.dumps(verify(dataset).to_json()))

    assert form["ok"] is False
    assert form["problems"][0]["file"] == SECOND
