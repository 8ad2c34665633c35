"""WebDataset tars become data sets, sample for sample."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow
from sklearn.datasets import load_sample_images

from arrayfeed.datasource.converting import convert_webdataset
from arrayfeed.datasource.errors import CorruptShardError, DecodeError, SchemaError, ShardNotFoundError
from arrayfeed.datasource.example.wire import parse_example
from arrayfeed.datasource.features import FeaturesDict, Image, Scalar, Tensor, Text
from arrayfeed.datasource.tfds import DatasetInfo
from support.written import read_examples, read_records


def picture(number: int) -> bytes:
    file = io.BytesIO()
    pixels = load_sample_images().images[number % 2][:: 20 + number, ::40]
    Pillow.fromarray(pixels).save(file, "png" if number % 3 else "jpeg")
    return file.getvalue()


def array(value: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, value)
    return file.getvalue()


def samples(start: int, stop: int) -> list[tuple[str, bytes]]:
    """Return the members of a tar: per sample a picture, a class, JSON, an array, now and then a text and a mask."""
    members = []
    for number in range(start, stop):
        key = f"set.a/{number:04d}"
        members += [(f"{key}.jpg", picture(number)), (f"{key}.cls", b"%d" % (number % 5))]
        members.append((f"{key}.meta.json", json.dumps({"n": number}).encode()))
        members.append((f"{key}.npy", array(np.full((2, number % 3), number, np.float64))))
        if number % 4 == 0:
            members += [(f"{key}.TXT", f"Ä {number}".encode()), (f"{key}.bin", bytes([255, number]))]
    return members


def write_tar(path: Path, members: Iterable[tuple[str, bytes]], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def assert_samples(examples: list[dict[str, Any]], numbers: Iterable[int]) -> None:
    for example, number in zip(examples, numbers, strict=True):
        assert example["__key__"].decode() == f"set.a/{number:04d}"
        assert (example["cls"], json.loads(example["meta.json"])) == (number % 5, {"n": number})
        np.testing.assert_array_equal(example["npy"], np.full((2, number % 3), number, np.float64))
        assert example["txt"] == (f"Ä {number}".encode() if number % 4 == 0 else None)
        assert example["bin"] == (bytes([255, number]) if number % 4 == 0 else None)


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_samples_become_examples_with_their_endings_as_features(tmp_path: Path, mode: str) -> None:
    """Pictures byte for byte, numbers, texts, arrays and bytes; in the files' natural order; compressed or not."""
    for number in range(3):
        write_tar(tmp_path / f"train-{number}.tar", samples(4 * number, 4 * number + 4), mode)

    found = convert_webdataset({"train": tmp_path / "train-*.tar", "test": tmp_path / "train-0.tar"}, tmp_path / "data")

    assert found.num_records == {"train": 12, "test": 4}
    examples = read_examples(tmp_path / "data")
    assert_samples(examples["train"], range(12))
    assert_samples(examples["test"], range(4))
    stored: list[Any] = [parse_example(record)["jpg"] for record in read_records(tmp_path / "data")["train"]]
    assert stored == [[picture(number)] for number in range(12)]
    assert DatasetInfo.read(tmp_path / "data").features == FeaturesDict(
        {
            "__key__": Text(optional=True),
            "jpg": Image(shape=(None, None, 3)),
            "cls": Scalar(np.int64),
            "meta.json": Text(optional=True),
            "npy": Tensor(shape=(2, None), dtype=np.float64, encoding="bytes"),
            "txt": Text(optional=True),
            "bin": Tensor(shape=(), dtype=np.bytes_, optional=True),
        }
    )


def test_directories_links_and_hidden_files_are_passed_over(tmp_path: Path) -> None:
    """And keys end at the first dot of the name, not of the folder."""
    path = write_tar(tmp_path / "a.tar", [("./.hidden", b""), ("noending", b""), ("d.d/x.cls", b"1"), ("d.d/y.cls", b"2")])
    with tarfile.open(path, "a") as tar:
        folder = tarfile.TarInfo("folder.d")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        link = tarfile.TarInfo("z.cls")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)

    convert_webdataset(path, tmp_path / "data")

    assert read_examples(tmp_path / "data")["train"] == [{"__key__": b"d.d/x", "cls": 1}, {"__key__": b"d.d/y", "cls": 2}]


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (("set.a/0002.jpg", b"<html>"), "its .jpg file: it is no image"),
        (("set.a/0002.cls", b"cat"), "its .cls file: invalid literal for int"),
        (("set.a/0002.meta.json", b"\xff"), "its .meta.json file: 'utf-8' codec can't decode"),
        (("set.a/0002.npy", b"\x93NUMPY"), "its .npy file: "),
        (("set.a/0002.npy", array(np.array([{}], object))), "its .npy file: "),
    ],
)
def test_a_bad_file_of_a_sample_is_named_or_the_sample_skipped(tmp_path: Path, member: tuple[str, bytes], message: str) -> None:
    """Tar, number, key and ending."""
    members = [member if name == member[0] else (name, data) for name, data in samples(0, 5)]
    path = write_tar(tmp_path / "a.tar", members)

    with pytest.raises(DecodeError) as caught:
        convert_webdataset(path, tmp_path / "data", resume=False)
    assert str(caught.value).startswith(f"{path}, record 2: sample 'set.a/0002': {message}")
    found = convert_webdataset(path, tmp_path / "data", on_error="skip")

    assert [(each.path, each.record) for each in found.skipped] == [(str(path), 2)]
    assert_samples(read_examples(tmp_path / "data")["train"], [0, 1, 3, 4])


def test_two_files_of_one_ending_and_missing_pictures_are_errors(tmp_path: Path) -> None:
    """What overwrites what is nowhere said."""
    path = write_tar(tmp_path / "a.tar", [("1.cls", b"1"), ("1.cls", b"2"), ("2.cls", b"1")])
    with pytest.raises(DecodeError, match=r"record 0: sample '1': sample '1' has two files that end with \.cls"):
        convert_webdataset(path, tmp_path / "data", resume=False)
    path = write_tar(tmp_path / "b.tar", [("1.png", picture(1)), ("1.cls", b"1"), ("2.cls", b"1")])
    with pytest.raises(SchemaError, match=r"b\.tar, record 1: feature 'png': it is missing"):
        convert_webdataset(path, tmp_path / "data", resume=False)
    path = write_tar(tmp_path / "c.tar", [("1.npy", array(np.zeros(2))), ("2.npy", array(np.zeros(2, "i4")))])
    with pytest.raises(SchemaError, match=r"some \.npy files hold <f8 with 1 axes, others <i4"):
        convert_webdataset(path, tmp_path / "data", resume=False)


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_a_tar_cut_anywhere_is_an_error_and_never_a_silent_loss(tmp_path: Path, mode: str) -> None:
    """Where tarfile itself ends without a word: in a header, and between members, too."""
    data = write_tar(tmp_path / "whole.tar", samples(0, 3), mode).read_bytes()
    end = len(data) if mode != "w" else data.rindex(b"\0\0", 0, len(data.rstrip(b"\0")) + 512)
    path = tmp_path / "cut.tar"
    for cut in sorted({512, 700, 1024, 1025, 1536, 2048, end // 2, end // 2 // 512 * 512, end - 600}):
        if not 0 < cut < end - 512:
            continue
        path.write_bytes(data[:cut])
        with pytest.raises(CorruptShardError, match=r"cut\.tar.*no whole tar"):
            convert_webdataset(path, tmp_path / "data", resume=False)
        found = convert_webdataset(path, tmp_path / str(cut), on_error="skip")
        assert len(found.skipped) == 1
        assert found.num_records["train"] < 3


def test_what_is_no_tar_is_refused(tmp_path: Path) -> None:
    """And what is not there."""
    (tmp_path / "x.tar").write_bytes(b"x" * 5000)
    with pytest.raises(CorruptShardError, match=r"x\.tar.*no whole tar"):
        convert_webdataset(tmp_path / "x.tar", tmp_path / "data")
    with pytest.raises(ShardNotFoundError):
        convert_webdataset(tmp_path / "y.tar", tmp_path / "data")
    assert not (tmp_path / "data").exists()
