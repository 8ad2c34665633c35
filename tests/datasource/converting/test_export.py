"""Data sets go back to TFRecord files and folders, and come home the same."""

from __future__ import annotations

import csv
import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

import arrayfeed
from arrayfeed import DatasetWriter, features
from arrayfeed.datasource.converting import (
    convert_arrays,
    convert_images,
    convert_tfds,
    convert_tfrecord,
    export_folder,
    export_tfrecord,
)
from arrayfeed.datasource.errors import CorruptShardError, DatasetExistsError, DatasetNotFoundError, SchemaError
from arrayfeed.datasource.example.wire import parse_example
from arrayfeed.datasource.features.features_dict import FeatureLike
from arrayfeed.datasource.tfds import DatasetInfo
from support.digits import write_digits
from support.shards import write_shard
from support.tfrecords import FIXTURES, write_tfrecord
from support.written import read_examples, read_records

SHAPES = FIXTURES / "shapes" / "1.0.0"


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_digits(tmp_path_factory.mktemp("export") / "digits")


def damage(path: Path, split: str, record: int) -> Path:
    """Flip a bit of one record, and return its shard."""
    records = read_records(path)[split]
    for shard in sorted(path.glob(f"*-{split}.array_record*")):
        data = bytearray(shard.read_bytes())
        at = data.find(records[record])
        if at >= 0:
            data[at + len(records[record]) // 2] ^= 1
            shard.write_bytes(data)
            return shard
    raise AssertionError("the record is nowhere, or compressed")


# -- TFRecord ---------------------------------------------------------------------------------------------------------


def test_tfrecord_files_of_tfds_come_home_byte_for_byte(tmp_path: Path) -> None:
    """TFRecord by TFDS to ArrayRecord and back: the very same files, and the same description."""
    convert_tfds(SHAPES, tmp_path / "shapes")

    found = export_tfrecord(tmp_path / "shapes", tmp_path / "back")

    names = {path.name for path in SHAPES.glob("*.tfrecord-*")}
    assert names == {path.name for path in (tmp_path / "back").glob("*.tfrecord-*")}
    for name in names:
        assert (tmp_path / "back" / name).read_bytes() == (SHAPES / name).read_bytes()
    assert DatasetInfo.read(tmp_path / "back") == DatasetInfo.read(SHAPES)
    assert (found.num_records, found.skipped, found.root) == ({"train": 20, "test": 5}, (), "")


@pytest.mark.parametrize("compression", ["gzip", "zlib"])
def test_compressed_files_are_the_same_from_every_run(tmp_path: Path, digits: Path, compression: Any) -> None:
    """Without name and time in them; as many as asked for; they can be converted back."""
    export_tfrecord(digits, tmp_path / "a", compression=compression, num_shards=2, num_workers=0)
    export_tfrecord(digits, tmp_path / "b", compression=compression, num_shards=2, num_workers=2)

    suffix = {"gzip": "gz", "zlib": "zlib"}[compression]
    names = [f"digits-{split}.tfrecord-0000{k}-of-00002.{suffix}" for split in ("test", "train") for k in (0, 1)]
    for directory in (tmp_path / "a", tmp_path / "b"):
        assert sorted(path.name for path in directory.iterdir()) == names
    expand = gzip.decompress if compression == "gzip" else zlib.decompress
    expected = read_records(digits)
    for name in names:
        data = (tmp_path / "a" / name).read_bytes()
        assert data == (tmp_path / "b" / name).read_bytes()
        records = expected["train" if "train" in name else "test"]
        half = len(records) // 2
        plain = write_tfrecord(tmp_path / "x", records[:half] if "00000-of" in name else records[half:])
        assert expand(data) == plain.read_bytes()
    convert_tfrecord(
        {split: tmp_path / "a" / f"digits-{split}*" for split in ("train", "test")},
        tmp_path / "home",
        features=DatasetInfo.read(digits).features,
    )
    assert read_records(tmp_path / "home") == expected


def test_bare_files_become_bare_files(tmp_path: Path, rng: np.random.Generator) -> None:
    """One each."""
    records = [rng.bytes(int(size)) for size in rng.integers(0, 500, 60)]
    write_shard(tmp_path / "a-1", records[:20], codec="zstd", group_size=3)
    write_shard(tmp_path / "a-2", records[20:])

    export_tfrecord(tmp_path / "a-*", tmp_path / "out")

    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "out-train.tfrecord-00000-of-00002",
        "out-train.tfrecord-00001-of-00002",
    ]
    assert list(arrayfeed.TFRecordSource(tmp_path / "out" / "out-train.tfrecord@2")) == records


def test_a_damaged_record_is_named_or_left_out(tmp_path: Path) -> None:
    """And the description counts what is there."""
    source = write_digits(tmp_path / "digits")
    expected = read_records(source)
    shard = damage(source, "test", 5)

    with pytest.raises(CorruptShardError, match=rf"{shard.name}, record 5"):
        export_tfrecord(source, tmp_path / "out")
    found = export_tfrecord(source, tmp_path / "out", on_error="skip")

    assert [(each.path, each.record) for each in found.skipped] == [(str(shard), 5)]
    assert (tmp_path / "out.skipped.json").exists()
    convert_tfds(tmp_path / "out", tmp_path / "home")
    del expected["test"][5]
    assert read_records(tmp_path / "home") == expected
    with pytest.raises(DatasetExistsError):
        export_tfrecord(source, tmp_path / "out")


# -- folders ----------------------------------------------------------------------------------------------------------


def test_pictures_go_to_folders_by_class_and_come_home(tmp_path: Path, digits: Path) -> None:
    """File for file as they are stored; the same from any number of processes."""
    export_folder(digits, tmp_path / "a", num_workers=0)
    export_folder(digits, tmp_path / "b", num_shards=5, num_workers=2)

    trees = [
        {path.relative_to(root): path.read_bytes() for path in root.rglob("*.*")} for root in (tmp_path / "a", tmp_path / "b")
    ]
    assert trees[0] == trees[1]
    for split, records in read_records(digits).items():
        wires: list[Any] = [parse_example(record) for record in records]
        for index, wire in enumerate(wires):
            assert trees[0][Path(split, str(wire["label"][0]), f"{index:08d}.png")] == wire["image"][0]
    assert len(trees[0]) == 1797 + 2
    convert_images(tmp_path / "a", tmp_path / "home", features=DatasetInfo.read(digits).features)
    for split, examples in read_examples(tmp_path / "home").items():
        before = sorted((example["label"], example["image"].tobytes()) for example in read_examples(digits)[split])
        assert sorted((example["label"], example["image"].tobytes()) for example in examples) == before


def test_the_table_has_what_else_there_is(tmp_path: Path) -> None:
    """Numbers exactly, texts with commas and quotes; without classes it is what convert_images needs."""
    pixels = load_digits().images[:5].astype(np.uint8)[..., None]
    schema: dict[str, FeatureLike] = {
        "picture": features.Image(shape=(8, 8, 1)),
        "note": features.Text(),
        "count": np.int64,
        "exact": features.Tensor(shape=(), dtype=np.float64, encoding="bytes"),
        "box": features.BBoxFeature(),
    }
    with DatasetWriter(tmp_path / "data", schema) as writer:
        for n in range(5):
            box = features.BBox(0.0, 0.0, 1.0, 1.0)
            note = f'a, "b"\n{n}'
            writer.write({"picture": pixels[n], "note": note, "count": 10**15 + n, "exact": n / 3, "box": box})

    export_folder(tmp_path / "data", tmp_path / "out")

    with open(tmp_path / "out" / "train.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["file", "count", "exact", "note"],
        *([f"train/0000000{n}.png", str(10**15 + n), repr(n / 3), f'a, "b"\n{n}'] for n in range(5)),
    ]
    convert_images(tmp_path / "out", tmp_path / "home", table=tmp_path / "out" / "train.csv")
    for n, example in enumerate(read_examples(tmp_path / "home")["train"]):
        assert (example["count"], example["exact"].item(), example["note"].decode()) == (10**15 + n, n / 3, f'a, "b"\n{n}')
        np.testing.assert_array_equal(example["image"], pixels[n])


def test_arrays_go_to_npz_files_and_come_home(tmp_path: Path, rng: np.random.Generator) -> None:
    """Every dtype and text; a file for each shard; the same bytes from every run."""
    arrays: dict[str, Any] = {
        "x": rng.normal(size=(700, 3, 2)),
        "half": rng.normal(size=(700, 1)).astype(np.float16),
        "label": rng.integers(0, 10, 700),
        "flag": rng.integers(0, 2, 700).astype(bool),
        "text": np.array([f"ä{n}" * (n % 4) for n in range(700)]),
        "deep": {"words": np.array([[f"w{n}", "x"] for n in range(700)])},
    }
    convert_arrays(arrays, tmp_path / "data", num_shards=3)

    export_folder(tmp_path / "data", tmp_path / "a", num_workers=0)
    export_folder(tmp_path / "data", tmp_path / "b", num_workers=2)

    names = [f"train-0000{k}-of-00003.npz" for k in range(3)]
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == names
    found = [dict(np.load(tmp_path / "a" / name)) for name in names]
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    joined = {key: np.concatenate([each[key] for each in found]) for key in found[0]}
    assert set(joined) == {"x", "half", "label", "flag", "text", "deep/words"}
    for key in ("x", "half", "label", "flag"):
        np.testing.assert_array_equal(joined[key], arrays[key])
        assert joined[key].dtype == arrays[key].dtype
    assert [text.decode() for text in joined["text"].tolist()] == arrays["text"].tolist()
    assert joined["deep/words"][699].tolist() == [b"w699", b"x"]


def test_what_a_form_cannot_hold_is_refused(tmp_path: Path, digits: Path) -> None:
    """Shapes that differ, no or several pictures, classes that are no names of folders, bare files."""
    varying: dict[str, FeatureLike] = {"x": features.Tensor(shape=(None,), dtype=np.int32), "y": np.int32}
    with DatasetWriter(tmp_path / "data", varying) as writer:
        writer.write_all({"x": np.arange(n % 3, dtype=np.int32), "y": n} for n in range(9))
    with pytest.raises(SchemaError, match=r"feature 'x': its shape differs between records.*features="):
        export_folder(tmp_path / "data", tmp_path / "out", resume=False)
    export_folder(tmp_path / "data", tmp_path / "y", features=["y"])
    assert np.load(tmp_path / "y" / "train-00000-of-00001.npz")["y"].tolist() == list(range(9))
    with pytest.raises(SchemaError, match=r"one image feature expected, there are \[\]"):
        export_folder(tmp_path / "data", tmp_path / "out", form="images")
    with pytest.raises(ValueError, match="no feature is called 'z'"):
        export_folder(tmp_path / "data", tmp_path / "out", features=["z"])
    with pytest.raises(DatasetNotFoundError, match="bare files"):
        export_folder(digits / "digits-test.array_record-00000-of-00001", tmp_path / "out")
    schema: dict[str, FeatureLike] = {
        "image": features.Image(shape=(1, 1, 1)),
        "label": features.ClassLabel(names=["a", "../../b"]),
    }
    with DatasetWriter(tmp_path / "evil", schema) as writer:
        writer.write({"image": np.zeros((1, 1, 1), np.uint8), "label": 1})
    with pytest.raises(SchemaError, match="cannot be the name of a folder"):
        export_folder(tmp_path / "evil", tmp_path / "out", resume=False)
    assert not (tmp_path / "out").exists()
