"""Parquet files, Hugging Face's data sets and Sedpack's become data sets."""

from __future__ import annotations

import datetime
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow
from sklearn.datasets import load_digits

import arrayfeed
from arrayfeed.datasource.converting import convert_huggingface, convert_parquet, convert_sedpack
from arrayfeed.datasource.errors import CorruptShardError, DatasetNotFoundError, SchemaError, ShardNotFoundError
from arrayfeed.datasource.example.wire import parse_example
from arrayfeed.datasource.features import ClassLabel, FeaturesDict, Image, Scalar, Sequence, Tensor, Text
from arrayfeed.datasource.tfds import DatasetInfo
from support.written import read_examples, read_records

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

NOON = datetime.datetime(2020, 1, 2, 12, 0, 0, 5)


def encode(pixels: np.ndarray[Any, Any]) -> bytes:
    file = io.BytesIO()
    Pillow.fromarray(pixels).save(file, "png")
    return file.getvalue()


def make_table(start: int, stop: int) -> Any:
    """Return a table with columns of most of Arrow's types."""
    numbers = range(start, stop)
    return pa.table(
        {
            **{name: pa.array([n % 100 for n in numbers], name) for name in ("int8", "uint8", "int32", "uint64")},
            "float16": pa.array(np.array([n % 100 for n in numbers], np.float16)),
            "float32": pa.array([n / 3 for n in numbers], pa.float32()),
            "float64": pa.array([n / 3 for n in numbers], pa.float64()),
            "bool": pa.array([n % 2 == 0 for n in numbers]),
            "text": pa.array([f"ä{n}" for n in numbers]),
            "binary": pa.array([bytes([255, n % 256]) for n in numbers], pa.large_binary()),
            "category": pa.array([f"c{n % 3}" for n in numbers]).dictionary_encode(),
            "time": pa.array([NOON] * len(numbers), pa.timestamp("us")),
            "date": pa.array([NOON.date()] * len(numbers), pa.date32()),
            "list": pa.array([[1.5 * n] * (n % 4) for n in numbers], pa.list_(pa.float64())),
            "fixed": pa.array([[n, -n] for n in numbers], pa.list_(pa.int16(), 2)),
            "words": pa.array([["a", "b"][: n % 3] for n in numbers], pa.list_(pa.string())),
            "struct": pa.array([{"x": n, "deep": {"y": f"{n}"}} for n in numbers]),
            "nested": pa.array([[[n], []] for n in numbers], pa.list_(pa.list_(pa.int64()))),
            "gaps": pa.array([None if n % 5 == 0 else n for n in numbers], pa.int64()),
        }
    )


def assert_rows(examples: list[dict[str, Any]], numbers: range) -> None:
    assert len(examples) == len(numbers)
    for example, n in zip(examples, numbers, strict=True):
        for name in ("int8", "uint8", "int32", "uint64", "float16"):
            assert example[name] == n % 100
        assert example["float32"] == np.float32(n / 3)
        assert example["float64"].item() == n / 3
        assert (example["bool"], example["text"].decode(), example["binary"]) == (n % 2 == 0, f"ä{n}", bytes([255, n % 256]))
        assert example["category"] == b"c%d" % (n % 3)
        assert example["time"] == (NOON - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
        assert example["date"] == (NOON.date() - datetime.date(1970, 1, 1)).days
        assert example["list"].dtype == np.float64 and example["list"].tolist() == [1.5 * n] * (n % 4)
        assert example["fixed"].dtype == np.int16 and example["fixed"].tolist() == [n, -n]
        assert example["words"].tolist() == [b"a", b"b"][: n % 3]
        assert example["struct"] == {"x": n, "deep": {"y": str(n).encode()}}
        assert [np.asarray(each).tolist() for each in example["nested"]] == [[n], []]
        assert example["gaps"] == (None if n % 5 == 0 else n)


def test_parquet_columns_of_every_type_come_back(tmp_path: Path) -> None:
    """From several files and row groups, cut elsewhere than these; missing values are None; numbers keep their type."""
    pq.write_table(make_table(0, 70), tmp_path / "a-2.parquet", row_group_size=32)
    pq.write_table(make_table(70, 100), tmp_path / "a-10.parquet", row_group_size=7)

    found = convert_parquet(tmp_path / "a-*.parquet", tmp_path / "data", num_shards=3)

    assert found.num_records == {"train": 100}
    assert_rows(read_examples(tmp_path / "data")["train"], range(100))
    stored = DatasetInfo.read(tmp_path / "data").features
    assert stored["float64"] == Tensor(shape=(), dtype=np.float64, encoding="bytes")
    assert stored["int8"] == Scalar(np.int8)
    assert stored["nested"] == Sequence(Tensor(shape=(None,), dtype=np.int64, encoding="bytes"))


def test_what_hugging_face_says_in_its_parquet_files_is_understood(tmp_path: Path) -> None:
    """Names of classes, and pictures, which stay as they are; without that package."""
    digits = load_digits()
    files = [encode(digits.images[n].astype(np.uint8) * 15) for n in range(30)]
    names = [f"digit {k}" for k in range(10)]
    said = {"image": {"_type": "Image"}, "label": {"names": names, "_type": "ClassLabel"}}
    table = pa.table(
        {
            "image": pa.array([{"bytes": data, "path": None} for data in files]),
            "label": pa.array(digits.target[:30].astype(np.int64)),
        }
    ).replace_schema_metadata({"huggingface": json.dumps({"info": {"features": said}})})
    pq.write_table(table, tmp_path / "a.parquet")

    convert_parquet(tmp_path / "a.parquet", tmp_path / "data")

    source = arrayfeed.open(tmp_path / "data", split="train")
    assert source.features["label"] == ClassLabel(names=names)
    np.testing.assert_array_equal([example["label"] for example in source], digits.target[:30])
    stored: list[Any] = [parse_example(record)["image"] for record in read_records(tmp_path / "data")["train"]]
    assert stored == [[data] for data in files]


def test_parquet_rows_that_do_not_fit_and_damaged_files_are_named(tmp_path: Path) -> None:
    """By file and row; the good rows of a file are kept."""
    pq.write_table(pa.table({"label": [0, 1, 9, 2], "text": ["a"] * 4}), tmp_path / "a.parquet")
    features = {"label": ClassLabel(3)}
    with pytest.raises(SchemaError, match=r"a\.parquet, record 2: feature 'label': .*got 9"):
        convert_parquet(tmp_path / "a.parquet", tmp_path / "data", features=features, resume=False)
    found = convert_parquet(tmp_path / "a.parquet", tmp_path / "data", features=features, on_error="skip")
    assert [each.record for each in found.skipped] == [2]
    assert read_examples(tmp_path / "data")["train"] == [{"label": 0}, {"label": 1}, {"label": 2}]

    data = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(data[:-20])
    with pytest.raises(CorruptShardError, match=r"cut\.parquet: no whole Parquet file"):
        convert_parquet(tmp_path / "cut.parquet", tmp_path / "x")
    with pytest.raises(ShardNotFoundError):
        convert_parquet(tmp_path / "none.parquet", tmp_path / "x")
    pq.write_table(pa.table({"label": ["a"], "text": ["a"]}), tmp_path / "other.parquet")
    with pytest.raises(SchemaError, match=r"column .label. is .* in the files before"):
        convert_parquet([tmp_path / "a.parquet", tmp_path / "other.parquet"], tmp_path / "x")
    pq.write_table(pa.table({"d": pa.array([1], pa.decimal128(9, 2))}), tmp_path / "decimal.parquet")
    with pytest.raises(SchemaError, match=r"column 'd': values of Arrow's type decimal128\(9, 2\) cannot be stored"):
        convert_parquet(tmp_path / "decimal.parquet", tmp_path / "x")


def test_a_hugging_face_data_set_comes_over_with_its_features(tmp_path: Path) -> None:
    """Splits, class names, pictures byte for byte, arrays, lists, texts, times; after select and shuffle; from disk as well."""
    datasets = pytest.importorskip("datasets")
    digits = load_digits()
    files = [encode(digits.images[n].astype(np.uint8) * 15) for n in range(40)]
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=[f"digit {k}" for k in range(10)]),
            "pixels": datasets.Array2D((8, 8), "float32"),
            "numbers": datasets.List(datasets.Value("int32")),
            "pair": datasets.List(datasets.Value("float64"), length=2),
            "text": datasets.Value("string"),
            "deep": {"x": datasets.Value("uint8")},
            "gaps": datasets.Value("string"),
        }
    )
    rows = {
        "image": [{"bytes": data, "path": None} for data in files],
        "label": digits.target[:40].tolist(),
        "pixels": [digits.images[n].astype(np.float32) for n in range(40)],
        "numbers": [list(range(n % 4)) for n in range(40)],
        "pair": [[n, n / 3] for n in range(40)],
        "text": [f"N {n}" for n in range(40)],
        "deep": [{"x": n} for n in range(40)],
        "gaps": [None if n % 3 else "x" for n in range(40)],
    }
    whole = datasets.Dataset.from_dict(rows, features=features)
    order = np.random.default_rng(0).permutation(40).tolist()
    both = datasets.DatasetDict({"train": whole.select(order[:30]), "test": whole.select(order[30:])})
    both.save_to_disk(str(tmp_path / "saved"))

    convert_huggingface(both, tmp_path / "a", name="a", num_shards=2, description="Digits")
    convert_huggingface(tmp_path / "saved", tmp_path / "b", name="a", num_shards=2, description="Digits", num_workers=2)

    assert read_records(tmp_path / "a") == read_records(tmp_path / "b")
    info = DatasetInfo.read(tmp_path / "a")
    assert info.features["label"] == ClassLabel(names=[f"digit {k}" for k in range(10)])
    assert info.features["image"] == Image()
    assert info.features["pixels"] == Tensor(shape=(8, 8), dtype=np.float32, encoding="bytes")
    examples = read_examples(tmp_path / "a")
    records = read_records(tmp_path / "a")
    for split, numbers in (("train", order[:30]), ("test", order[30:])):
        for example, record, n in zip(examples[split], records[split], numbers, strict=True):
            assert parse_example(record)["image"] == [files[n]]
            assert (example["label"], example["text"].decode()) == (digits.target[n], f"N {n}")
            np.testing.assert_array_equal(example["pixels"], digits.images[n])
            assert (example["numbers"].tolist(), example["pair"].tolist()) == (list(range(n % 4)), [n, n / 3])
            assert (example["deep"], example["gaps"]) == ({"x": n}, None if n % 3 else b"x")


def test_what_is_no_hugging_face_data_set_is_refused(tmp_path: Path) -> None:
    """With what to do about those that stream."""
    datasets = pytest.importorskip("datasets")
    with pytest.raises(DatasetNotFoundError):
        convert_huggingface(tmp_path, tmp_path / "data")
    stream = datasets.Dataset.from_dict({"x": [1]}).to_iterable_dataset()
    with pytest.raises(TypeError, match=r"what is streamed, DatasetWriter.write_all\(\) writes"):
        convert_huggingface(stream, tmp_path / "data")


ATTRIBUTES = (("image", "uint8", (8, 8)), ("label", "int64", ()), ("half", "float16", (3,)), ("double", "float64", ()))


def write_sedpack(path: Path, kind: str, compression: str) -> Path:
    """Write digits with Sedpack, as its tutorial does."""
    io = pytest.importorskip("sedpack.io")
    metadata_of = pytest.importorskip("sedpack.io.metadata")
    described = [metadata_of.Attribute(name=name, dtype=dtype, shape=shape) for name, dtype, shape in ATTRIBUTES]
    described.append(metadata_of.Attribute(name="text", dtype="str", shape=(), custom_metadata={"language": "en"}))
    described.append(metadata_of.Attribute(name="data", dtype="bytes", shape=()))
    metadata = io.Metadata(description="Digits", dataset_license="CC0", custom_metadata={"made": ["by", 1]})
    structure = io.DatasetStructure(
        saved_data_description=described, compression=compression, examples_per_shard=16, shard_file_type=kind
    )
    dataset = io.Dataset.create(path=path, metadata=metadata, dataset_structure=structure)
    digits = load_digits()
    with dataset.filler() as filler:
        for n in range(70):
            values = {
                "image": digits.images[n].astype(np.uint8),
                "label": np.int64(digits.target[n]),
                "half": np.full(3, n / 4, np.float16),
                "double": np.float64(n / 3),
                "text": f"ä {n}",
                "data": bytes([n] * (n % 5 + 1)),  # of no bytes, Sedpack's flatbuffers make one
            }
            filler.write_example(values=values, split="train" if n < 50 else "test")
    return path


@pytest.mark.parametrize(("kind", "compression"), [("fb", "LZ4"), ("npz", "ZIP")])
def test_a_sedpack_data_set_comes_over_whole(tmp_path: Path, kind: str, compression: str) -> None:
    """Attributes exactly, splits, and what is said of it; a damaged shard, which Sedpack reads without a word, is named."""
    path = write_sedpack(tmp_path / "sedpack", kind, compression)
    digits = load_digits()

    found = convert_sedpack(path, tmp_path / "data")

    assert found.num_records == {"train": 50, "test": 20}
    info = DatasetInfo.read(tmp_path / "data")
    assert (info.description, info.license, info.version) == ("Digits", "CC0", "1.0.0")
    assert info.metadata == {"made": ["by", 1], "attributes": {"text": {"language": "en"}}}
    assert info.features["half"] == Tensor(shape=(3,), dtype=np.float16, encoding="bytes")
    assert isinstance(info.features["text"], Text) and isinstance(info.features, FeaturesDict)
    examples = [example for split in ("train", "test") for example in read_examples(tmp_path / "data")[split]]
    for n, example in enumerate(examples):
        np.testing.assert_array_equal(example["image"], digits.images[n])
        assert (example["label"], example["double"], example["half"].tolist()) == (digits.target[n], n / 3, [n / 4] * 3)
        assert (example["text"].decode(), example["data"]) == (f"ä {n}", bytes([n] * (n % 5 + 1)))

    shard = sorted(each for each in (path / "train").rglob("*") if each.is_file() and each.suffix != ".json")[0]
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    with pytest.raises(CorruptShardError, match=r"its SHA-256 is .*, the data set states"):
        convert_sedpack(path, tmp_path / "other", resume=False)
    kept = convert_sedpack(path, tmp_path / "other", on_error="skip")
    assert {each.path for each in kept.skipped} == {str(shard)}
    assert kept.num_records["train"] in (34, 48)


def test_what_is_no_sedpack_data_set_is_refused(tmp_path: Path) -> None:
    """Naming the directory."""
    pytest.importorskip("sedpack")
    with pytest.raises(DatasetNotFoundError, match="no Sedpack data set"):
        convert_sedpack(tmp_path, tmp_path / "data")
