"""Folders of pictures become data sets, file for file."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow
from sklearn.datasets import load_digits, load_sample_images

import arrayfeed
from arrayfeed import features
from arrayfeed.datasource.converting import convert_images
from arrayfeed.datasource.errors import DataError, DecodeError, SchemaError, ShardNotFoundError
from arrayfeed.datasource.example.wire import parse_example
from arrayfeed.datasource.tfds import DatasetInfo
from support.written import read_examples, read_records


def encode(pixels: np.ndarray[Any, Any], kind: str) -> bytes:
    file = io.BytesIO()
    Pillow.fromarray(pixels).save(file, kind)
    return file.getvalue()


def photographs() -> dict[str, bytes]:
    """Return parts of scikit-learn's photographs as files of several formats."""
    found = {}
    for name, pixels in zip(("temple", "flower"), load_sample_images().images, strict=True):
        for number, (kind, ending) in enumerate((("png", "png"), ("jpeg", "jpg"), ("jpeg", "JPEG"), ("webp", "webp"))):
            found[f"{name}/{number}.{ending}"] = encode(pixels[: 40 + number, 100:150], kind)
    return found


def write_files(directory: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(data)
    return directory


def stored_images(path: Path) -> dict[str, dict[str, bytes]]:
    """Return the stored bytes by split and file name."""
    found: dict[str, dict[str, bytes]] = {}
    for split, records in read_records(path).items():
        wires: list[Any] = [parse_example(record) for record in records]
        found[split] = {wire["filename"][0].decode(): wire["image"][0] for wire in wires}
    return found


def test_folders_are_classes_and_files_are_stored_as_they_are(tmp_path: Path) -> None:
    """PNG, JPEG and others, of any size, in natural order; hidden files and other endings are passed over."""
    files = photographs() | {f"temple/deep/{n}.png": encode(np.full((3, n, 3), n, np.uint8), "png") for n in (9, 10)}
    write_files(tmp_path / "in", files | {"temple/.x.png": b"", "temple/README": b"", ".git/x.png": b""})

    convert_images(tmp_path / "in", tmp_path / "data", num_shards=3)

    found = stored_images(tmp_path / "data")["train"]
    assert found == files
    order = [name for name in found if name.startswith("temple/d")]
    assert order == ["temple/deep/9.png", "temple/deep/10.png"]
    info = DatasetInfo.read(tmp_path / "data")
    assert info.features["label"] == features.ClassLabel(names=["flower", "temple"])
    assert info.features["image"].shape == (None, None, 3)
    examples = read_examples(tmp_path / "data")["train"]
    assert all(example["label"] == (not example["filename"].startswith(b"flower")) for example in examples)


def test_folders_of_folders_are_splits_with_one_set_of_classes(tmp_path: Path) -> None:
    """Digits: gray, so of one channel; a class that one split lacks has its number in the other."""
    digits = load_digits()
    files = {}
    for number in range(60):
        pixels = np.rint(digits.images[number] * 15).astype(np.uint8)
        files[f"{'train' if number < 50 else 'test'}/{digits.target[number]}/{number}.png"] = encode(pixels, "png")
    write_files(tmp_path / "in", files)

    convert_images(tmp_path / "in", tmp_path / "data")

    opened = arrayfeed.open(tmp_path / "data")
    assert {name: len(source) for name, source in opened.items()} == {"test": 10, "train": 50}
    assert opened["train"].features["image"].shape == (None, None, 1)
    for source in opened.values():
        for example in source:
            number = int(example["filename"].split(b"/")[-1].split(b".")[0])
            assert example["label"] == digits.target[number]
            np.testing.assert_array_equal(example["image"][..., 0], np.rint(digits.images[number] * 15))


def test_a_flat_folder_with_a_table(tmp_path: Path) -> None:
    """A feature a column, exact numbers, classes of texts, splits; as the table has them in order."""
    files = {f"{n}.png": encode(np.full((2, 2, 3), n, np.uint8), "png") for n in range(6)}
    write_files(tmp_path / "in", files)
    kinds, homes = ("cat", "dog"), ("val-1", *["train"] * 5)
    rows = "\n".join(f'{n}.png,{kinds[n % 2]},{n * 1000},{n / 10},"a ""b"", {n}",{homes[n]}' for n in range(5, -1, -1))
    (tmp_path / "in" / "list.csv").write_text(f"picture,label,count,score,note,split\n{rows}\n")

    convert_images(tmp_path / "in", tmp_path / "data")

    info = DatasetInfo.read(tmp_path / "data")
    assert info.features["label"] == features.ClassLabel(names=["cat", "dog"])
    assert sorted(info.features) == ["count", "filename", "image", "label", "note", "score"]
    found = read_examples(tmp_path / "data")
    assert [[int(example["filename"][:1]) for example in found[split]] for split in ("train", "val-1")] == [
        [5, 4, 3, 2, 1],
        [0],
    ]
    for example in found["train"]:
        n = int(example["filename"][:1])
        assert (example["label"], example["count"], float(example["score"])) == (n % 2, n * 1000, n / 10)
        assert example["note"].decode() == f'a "b", {n}'
        assert (example["image"] == n).all()


def test_features_choose_and_fix_what_is_kept(tmp_path: Path) -> None:
    """A fixed shape is checked; classes may be named in another order, or left out."""
    write_files(tmp_path / "in", {f"{c}/1.png": encode(np.zeros((4, 5), np.uint8), "png") for c in "ab"})
    schema = {"image": features.Image(shape=(4, 5, 1)), "label": features.ClassLabel(names=["b", "a"])}

    convert_images(tmp_path / "in", tmp_path / "data", features=schema)
    assert [example["label"] for example in read_examples(tmp_path / "data")["train"]] == [1, 0]

    with pytest.raises(SchemaError, match=r"in/a/1\.png: feature 'image': .*expected, got one of 4 x 5 pixels"):
        convert_images(tmp_path / "in", tmp_path / "x", features={"image": features.Image(shape=(5, 5, 1))})


@pytest.mark.parametrize("damage", ["cut png", "cut jpeg", "no image", "empty"])
def test_a_bad_file_is_named_or_skipped(tmp_path: Path, damage: str) -> None:
    """Cut short, or no image at all; the others are kept."""
    files = photographs()
    bad = {
        "cut png": files["temple/0.png"][:-30],
        "cut jpeg": files["temple/1.jpg"][:-30],
        "no image": b"<html>",
        "empty": b"",
    }[damage]
    write_files(tmp_path / "in", files | {"flower/bad.png": bad})

    with pytest.raises(DecodeError, match=r"in/flower/bad\.png: (it is no image, or was cut short|the picture was cut short)"):
        convert_images(tmp_path / "in", tmp_path / "data", resume=False)
    found = convert_images(tmp_path / "in", tmp_path / "data", on_error="skip")

    assert [each.path for each in found.skipped] == [str(tmp_path / "in" / "flower" / "bad.png")]
    assert stored_images(tmp_path / "data")["train"] == files


def test_what_is_no_folder_of_pictures_is_refused(tmp_path: Path) -> None:
    """With what is missing."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(ShardNotFoundError, match="there is no picture in it"):
        convert_images(tmp_path / "empty", tmp_path / "data")
    with pytest.raises(ShardNotFoundError, match="no such directory"):
        convert_images(tmp_path / "nowhere", tmp_path / "data")
    table = tmp_path / "empty" / "t.csv"
    for text, error, message in (
        ("file,label\na.png,1\nb.png,2\n", ShardNotFoundError, "2 of the 2 files that it names are missing: a.png, b.png"),
        ("file,label\na.png\n", DataError, "line 2 has 1 columns, the header 2"),
        ("a,b\n1,2\n", DataError, "no column holds the names of picture files"),
        ("a,a\n1.png,2\n", DataError, "column names, all different"),
        ("", DataError, "column names, all different"),
    ):
        table.write_text(text)
        with pytest.raises(error, match=message):
            convert_images(tmp_path / "empty", tmp_path / "data")
    assert not (tmp_path / "data").exists()
