"""Arrays in memory and in files become data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

import arrayfeed
from arrayfeed.datasource.converting import convert_arrays
from arrayfeed.datasource.errors import CorruptShardError, DataError, SchemaError, ShardNotFoundError
from arrayfeed.datasource.features import ClassLabel, Image
from arrayfeed.datasource.tfds import DatasetInfo
from support.written import read_examples

DTYPES = ["?", "u1", "i1", "<u2", ">i2", "<i4", ">u4", "<i8", "<u8", "<f2", "<f4", ">f4", "<f8", ">f8", "<c8", "<c16"]


def make_arrays(rng: np.random.Generator) -> dict[str, np.ndarray[Any, Any]]:
    """Return arrays of all dtypes and of 0 to 3 axes, whose values use all bits."""
    found: dict[str, np.ndarray[Any, Any]] = {}
    for dtype in map(np.dtype, DTYPES):
        for shape in ((), (3,), (2, 0), (2, 3, 1)):
            data = rng.bytes(40 * int(np.prod(shape)) * dtype.itemsize)
            array = np.frombuffer(data, dtype).reshape(40, *shape)
            if dtype.kind == "b":
                array = rng.integers(0, 2, (40, *shape)).astype(bool)
            if dtype.kind in "fc":
                array = rng.normal(size=(40, *shape)).astype(dtype)
            found[f"{dtype.str}{shape}"] = array
    found["text"] = np.array([f"ä{k}" * (k % 3 + 1) for k in range(40)])
    found["bytes"] = np.array([b"a%d" % k for k in range(40)])
    found["words"] = np.array([[f"w{k}", "x"] for k in range(40)])
    return found


def save(kind: str, path: Path, arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
    if kind == "memory":
        return arrays
    if kind == "files":
        for number, array in enumerate(arrays.values()):
            np.save(path / f"{number}.npy", array)
        return {name: path / f"{number}.npy" for number, name in enumerate(arrays)}
    save_all: Any = np.savez_compressed if kind == "compressed" else np.savez
    save_all(path / "all.npz", **{name.replace(">", "gt"): array for name, array in arrays.items()})
    return path / "all.npz"


@pytest.mark.parametrize("kind", ["memory", "files", "stored", "compressed"])
def test_every_bit_of_every_dtype_comes_back(tmp_path: Path, rng: np.random.Generator, kind: str) -> None:
    """Of scalars, arrays of any shape and text, big-endian, 0-d and empty ones; the dtype, too, in native order."""
    arrays = make_arrays(rng)
    convert_arrays(save(kind, tmp_path, arrays), tmp_path / "data")

    examples = read_examples(tmp_path / "data")["train"]
    features = DatasetInfo.read(tmp_path / "data").features
    assert len(examples) == 40
    for name, array in arrays.items():
        key = name.replace(">", "gt") if kind in ("stored", "compressed") else name
        found = [example[key] for example in examples]
        if array.dtype.kind in "US":
            expected = [np.array(row, object).tolist() for row in array]
            decoded = [np.asarray(row).tolist() for row in found]
            as_bytes = [[x.encode() if isinstance(x, str) else x for x in np.atleast_1d(row).tolist()] for row in expected]
            assert [np.atleast_1d(np.asarray(row, object)).tolist() for row in decoded] == as_bytes
        else:
            assert features[key].dtype == array.dtype.newbyteorder("=")
            np.testing.assert_array_equal(np.array(found, array.dtype.newbyteorder("=")), array)


def test_digits_become_pictures_and_classes(tmp_path: Path) -> None:
    """With features, arrays are encoded as these say; shards of equal length, splits by name."""
    digits = load_digits()
    pixels = np.rint(digits.images * (255 / 16)).astype(np.uint8)[..., None]
    np.savez(tmp_path / "train.npz", image=pixels[:1500], label=digits.target[:1500])
    np.savez_compressed(tmp_path / "test.npz", image=pixels[1500:], label=digits.target[1500:])

    found = convert_arrays(
        {"train": tmp_path / "train.npz", "test": tmp_path / "test.npz"},
        tmp_path / "digits",
        features={"image": Image(shape=(8, 8, 1)), "label": ClassLabel(10)},
        supervised_keys=("image", "label"),
        description="Digits",
        shard_records=1000,
    )

    assert found.num_records == {"train": 1500, "test": 297}
    opened = arrayfeed.open(tmp_path / "digits", split="train+test").read_batch(range(1797))
    np.testing.assert_array_equal(opened["image"], pixels)
    np.testing.assert_array_equal(opened["label"], digits.target)
    info = DatasetInfo.read(tmp_path / "digits")
    assert (info.supervised_keys, info.description) == (("image", "label"), "Digits")


def test_nested_arrays_a_directory_and_one_file_are_called_by_their_names(tmp_path: Path) -> None:
    """As the examples are to be."""
    np.save(tmp_path / "a.npy", np.arange(6).reshape(3, 2))
    np.save(tmp_path / "b.npy", np.arange(3.0))

    convert_arrays(tmp_path, tmp_path / "out" / "directory")
    convert_arrays(tmp_path / "b.npy", tmp_path / "out" / "file", split="test")
    convert_arrays({"deep": {"a": tmp_path / "a.npy"}, "b": [1, 2, 3]}, tmp_path / "out" / "nested", num_shards=3)

    assert [example["b"].item() for example in read_examples(tmp_path / "out" / "directory")["train"]] == [0, 1, 2]
    assert [list(example) for example in read_examples(tmp_path / "out" / "file")["test"]] == [["b"]] * 3
    nested = read_examples(tmp_path / "out" / "nested")["train"]
    assert [(example["b"], example["deep"]["a"].tolist()) for example in nested] == [(1, [0, 1]), (2, [2, 3]), (3, [4, 5])]


def test_what_does_not_fit_is_named_or_skipped(tmp_path: Path) -> None:
    """File and row."""
    np.savez(tmp_path / "x.npz", label=np.array([0, 1, 7, 2]))
    features = {"label": ClassLabel(3)}

    with pytest.raises(SchemaError, match=r"x\.npz, record 2: feature 'label': .*got 7"):
        convert_arrays(tmp_path / "x.npz", tmp_path / "data", features=features)
    found = convert_arrays(tmp_path / "x.npz", tmp_path / "data", features=features, on_error="skip")

    assert [example["label"] for example in read_examples(tmp_path / "data")["train"]] == [0, 1, 2]
    assert [(each.path, each.record) for each in found.skipped] == [(str(tmp_path / "x.npz"), 2)]


def test_damaged_files_and_bad_arguments_are_refused(tmp_path: Path) -> None:
    """Cut files, objects, columns of unequal length, what has no rows."""
    np.savez_compressed(tmp_path / "x.npz", a=np.arange(100_000))
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    data = (tmp_path / "x.npz").read_bytes()
    middle = bytearray(data)
    middle[len(data) // 2] ^= 255
    (tmp_path / "damaged.npz").write_bytes(middle)
    (tmp_path / "cut.npz").write_bytes(data[:-200])
    np.savez_compressed(tmp_path / "unequal.npz", a=[1], b=[1, 2])
    for source, error, message in (
        ("damaged.npz", CorruptShardError, r"damaged\.npz:a\.npy: no whole"),
        ("cut.npz", CorruptShardError, "cut.npz: no whole .npz file"),
        ("objects.npy", DataError, "Python objects"),
        ("none.npy", ShardNotFoundError, "no such file"),
        ("unequal.npz", ValueError, "differ in length"),
    ):
        with pytest.raises(error, match=message):
            convert_arrays(tmp_path / source, tmp_path / "out" / source, resume=False)
    with pytest.raises(ValueError, match="differ in length"):
        convert_arrays({"a": [1, 2], "b": [1]}, tmp_path / "out" / "a")
    with pytest.raises(ValueError, match="differ in name, dtype or shape"):
        convert_arrays({"train": {"a": [1]}, "test": {"b": [1]}}, tmp_path / "out" / "a")
    with pytest.raises(SchemaError, match="array 't': dtype datetime64"):
        convert_arrays({"t": np.array(["2020-01-01"], "M8[D]")}, tmp_path / "out" / "a")
    found = convert_arrays(tmp_path / "damaged.npz", tmp_path / "kept", on_error="skip")
    assert found.num_records == {"train": 0}
    assert [each.path for each in found.skipped] == [f"{tmp_path / 'damaged.npz'}:a.npy"]
