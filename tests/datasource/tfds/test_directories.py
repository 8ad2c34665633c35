"""Directories that TFDS prepared, opened as a user opens them: other names, formats and spellings, and what is missing."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import arrayfeed
from arrayfeed import DatasetNotFoundError
from arrayfeed.datasource.columns import StructureError, stack
from arrayfeed.datasource.errors import DecodeError
from arrayfeed.datasource.features import SkipDecoding
from support.equal import difference
from support.neutral import load

FIXTURES = Path(__file__).parents[2] / "fixtures" / "tfds"
EVERY = FIXTURES / "every_feature" / "1.0.0"
UNREADABLE = FIXTURES / "unreadable" / "1.0.0"
NUMBERS = FIXTURES / "numbers" / "small" / "1.2.0"


def expected() -> list[Any]:
    """Return the examples that ``tfds.data_source`` read."""
    return [load(form) for form in json.loads((EVERY / "expected.json").read_text())["examples"]]


def edit(directory: Path, name: str, **changes: Any) -> None:
    path = directory / name
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    """A copy of a data set of two splits of two shards each."""
    return Path(shutil.copytree(NUMBERS, tmp_path / "1.2.0"))


@pytest.mark.parametrize("io", ["mmap", "pread"])
def test_open_gives_what_tfds_reads(io: Any) -> None:
    """Of 156 features every value, type and key, in all examples; one by one and many at once."""
    source = arrayfeed.open(EVERY, split="train", io=io)

    assert not difference([source[k] for k in range(len(source))], expected())
    assert not difference(source[[1, 0, 1]], [expected()[k] for k in (1, 0, 1)])


def test_every_feature_alone_is_that_of_the_whole() -> None:
    """``features=`` decodes one of 156; as columns it is the stacked values, or says why it makes none."""
    wanted = expected()
    names = sorted(wanted[0])
    columns = 0
    for name in names:
        source = arrayfeed.open(EVERY, split="train", features={name})
        assert not difference(list(source), [{name: each[name]} for each in wanted]), name
        try:
            batch = source.read_batch([0, 0])
        except (StructureError, DecodeError, ValueError):
            continue  # of images of other shapes than declared, and ragged values: test_real_tfds.py
        assert list(batch) == [name]
        columns += 1
    assert columns > 140


def test_what_tfds_cannot_read_opens() -> None:
    """The shapes that its data source nests wrongly or refuses; their values are compared in test_real_tfds.py."""
    source = arrayfeed.open(UNREADABLE, split="train")

    assert len(source) == 3 and {*source[0]} == {*source.features}
    assert [image.shape[-1] for row in source[0]["nested_images"] for image in row] == [3] * sum(
        map(len, source[0]["nested_images"])
    )


def test_stored_bytes_are_given_inside_sequences_too() -> None:
    """``SkipDecoding`` where TFDS raises an AttributeError: each image of a sequence as the file that it is."""
    skip: Any = {"sequence_images": SkipDecoding(), "image_rgb": SkipDecoding()}
    names = {"sequence_images", "image_rgb"}
    skipped = arrayfeed.open(EVERY, split="train", features=names, decoders=skip)
    plain = arrayfeed.open(EVERY, split="train", features=names)
    for stored, decoded in zip(skipped, plain, strict=True):
        assert len(stored["sequence_images"]) == len(decoded["sequence_images"])
        assert all(type(file) is bytes for file in [stored["image_rgb"], *stored["sequence_images"]])


def test_shards_are_found_by_their_template(numbers: Path) -> None:
    """Whatever it is made of: folders too."""
    before = [example for split in ("train", "test") for example in arrayfeed.open(numbers, split=split)]
    info = json.loads((numbers / "dataset_info.json").read_text())
    for split, template in (
        ("train", "{SPLIT}/{DATASET}@{NUM_SHARDS}.{FILEFORMAT}.{SHARD_INDEX}"),
        ("test", "t-{SHARD_X_OF_Y}"),
    ):
        (form,) = [form for form in info["splits"] if form["name"] == split]
        form["filepathTemplate"] = template
        (numbers / split).mkdir()
        for number in range(2):
            name = template.replace("{SPLIT}", split).replace("{DATASET}", "numbers").replace("{FILEFORMAT}", "array_record")
            name = name.replace("{NUM_SHARDS}", "00002").replace("{SHARD_INDEX}", f"{number:05}")
            name = name.replace("{SHARD_X_OF_Y}", f"{number:05}-of-00002")
            os.rename(numbers / f"numbers-{split}.array_record-{number:05}-of-00002", numbers / name)
    (numbers / "dataset_info.json").write_text(json.dumps(info))

    assert not difference([example for split in ("train", "test") for example in arrayfeed.open(numbers, split=split)], before)


@pytest.mark.parametrize(
    "changes",
    [
        {"fileFormat": "tfrecord", "alternativeFileFormats": ["array_record"]},
        {"fileFormat": "ARRAY_RECORD"},
        {"fileFormat": None, "file_format": "array_record", "alternative_file_formats": ["riegeli", "parquet"]},
    ],
    ids=str,
)
def test_the_array_record_of_several_formats_is_read(numbers: Path, changes: dict[str, Any]) -> None:
    """Whether it is the first or an alternative."""
    before = list(arrayfeed.open(numbers, split="train"))
    edit(numbers, "dataset_info.json", **changes)

    assert not difference(list(arrayfeed.open(numbers, split="train")), before)


def test_a_directory_of_other_formats_says_what_to_do(numbers: Path) -> None:
    """Of an absent format too, which is TFRecord."""
    for form in ("tfrecord", None, "parquet"):
        edit(numbers, "dataset_info.json", fileFormat=form)
        with pytest.raises(DatasetNotFoundError, match=f"its shards are in {form or 'tfrecord'} format.*tfds convert_format"):
            arrayfeed.open(numbers, split="train")


def test_missing_label_files_leave_numbers(tmp_path: Path) -> None:
    """As ``tfds convert_format`` leaves them behind: the examples are the same, classes are called "0", "1" ..."""
    bare = Path(shutil.copytree(EVERY, tmp_path / "bare", ignore=shutil.ignore_patterns("*.labels.txt")))
    names = {"label", "sequence_label", "labeled_image"}
    source, whole = (arrayfeed.open(path, split="train", features=names) for path in (bare, EVERY))
    label: Any = source.features["label"]

    assert not difference(list(source), list(whole))
    assert (label.num_classes, label.names, label.str2int("2")) == (3, ["0", "1", "2"], 2)


def test_newer_versions_and_patterns_of_them_are_found_by_name() -> None:
    """1.10.0 is newer than 1.2.0; the directory itself is opened as it is."""
    for name, version in (("numbers/small", "1.10.0"), ("numbers/small:1.2.*", "1.2.0"), ("Numbers/small:*.*.*", "1.10.0")):
        source = arrayfeed.open(FIXTURES, name=name, split="train")
        assert source.records.files == arrayfeed.open(FIXTURES / "numbers" / "small" / version, split="train").records.files


def test_splits_may_be_shared_out_and_put_together(numbers: Path) -> None:
    """``even_splits`` and ``ReadInstruction`` are in the package's face, as in TFDS's."""
    whole = list(arrayfeed.open(numbers, split="train"))
    parts = [arrayfeed.open(numbers, split=part) for part in arrayfeed.even_splits("train", 3)]
    joined = arrayfeed.ReadInstruction("train", to=50, unit="%") + "train[50%:]"

    assert not difference([example for part in parts for example in part], whole)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert not difference(list(arrayfeed.open(numbers, split=joined)), whole)
    assert "train[:50%]+train[50%:]" in repr(arrayfeed.open(numbers, split=joined))
    assert [split.name for split in arrayfeed.DatasetInfo.read(numbers).splits] == ["train", "test"]


def test_columns_of_a_real_directory_are_the_examples_stacked(numbers: Path) -> None:
    """Over both shards, by every split string."""
    for split in ("train", "train[1:]+test", "all", "test[-1shard]", "train[50%:]", "train[:0]"):
        source = arrayfeed.open(numbers, split=split)
        order = [*range(len(source))][::-1]
        if order:
            batch, wanted = source.read_batch(order), stack(source[order])
            assert all((batch[name] == wanted[name]).all() for name in wanted)
        else:
            assert list(source) == []
