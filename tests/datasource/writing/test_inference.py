"""Features told from the first example: nothing is lost, and the others are held to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import arrayfeed
from arrayfeed.datasource.errors import SchemaError
from arrayfeed.datasource.features import FeaturesDict, Sequence, Tensor, Text
from arrayfeed.datasource.writing import DatasetWriter, infer_features, write_dataset
from support.written import read_examples

NUMBERS = [np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
NUMBERS += [np.float16, np.float32, np.float64, np.complex64, np.complex128, ml_dtypes.bfloat16]


def raw(shape: tuple[int, ...], dtype: Any) -> Tensor:
    return Tensor(shape=shape, dtype=dtype, encoding="bytes")


@pytest.mark.parametrize(
    ("value", "feature"),
    [
        ("ä", Text()),
        (b"\xff", Text()),
        (np.str_("a"), Text()),
        (True, Tensor(shape=(), dtype=np.bool_)),
        (3, Tensor(shape=(), dtype=np.int64)),
        (np.uint16(3), Tensor(shape=(), dtype=np.uint16)),
        (np.float32(3), Tensor(shape=(), dtype=np.float32)),
        (0.1, raw((), np.float64)),
        (np.float64(0.1), raw((), np.float64)),
        (1j, raw((), np.complex128)),
        (np.zeros((2, 3), np.uint8), raw((2, 3), np.uint8)),
        (np.zeros((0, 3), ">f4"), raw((0, 3), np.float32)),
        (np.zeros((), np.int32), Tensor(shape=(), dtype=np.int32)),
        (np.array(["a", "b"]), Tensor(shape=(2,), dtype=np.str_)),
        (np.array(["a", b"b"], object), Tensor(shape=(2,), dtype=np.str_)),
        ([1, 2], Sequence(Tensor(shape=(), dtype=np.int64))),
        (("a",), Sequence(Text())),
        ([[1], [2, 3]], Sequence(Sequence(Tensor(shape=(), dtype=np.int64)))),
        ({"a": 1, "b": {"c": "d"}}, FeaturesDict({"a": np.int64, "b": {"c": Text()}})),
    ],
)
def test_a_value_tells_its_feature(value: Any, feature: Any) -> None:
    """Each kind of value; what is stored under it comes back."""
    found = infer_features({"x": value})

    assert found == FeaturesDict({"x": feature})
    found.encode_example({"x": value})


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3)])
def test_numbers_of_every_dtype_come_back_to_the_bit(tmp_path: Path, dtype: Any, shape: tuple[int, ...]) -> None:
    """Arrays and scalars; what a record's own lists would round is stored as raw bytes."""
    value = (np.ones(shape) / 3).astype(dtype)
    with pytest.warns(UserWarning, match="told from the first example"), DatasetWriter(tmp_path / "data") as writer:
        writer.write({"x": value})

    (example,) = read_examples(tmp_path / "data")["train"]
    assert np.asarray(example["x"], dtype).tobytes() == value.tobytes()
    assert np.shape(example["x"]) == shape
    if shape:
        assert example["x"].dtype == value.dtype


@pytest.mark.parametrize(
    ("example", "message"),
    [
        ({"x": None}, "feature 'x': NoneType does not tell what to store; give features"),
        ({"n": {"x": []}}, "feature 'n/x': an empty list does not tell"),
        ({"x": [1, "a"]}, "feature 'x': a list of different things"),
        ({"x": np.array([object()])}, "feature 'x': objects that are no strings"),
        ({"x": np.array(["2001-01-01"], "M8[D]")}, r"feature 'x': dtype datetime64\[D\] cannot be stored"),
        ([1], "a dict of values expected, to tell the features from, got list"),
    ],
)
def test_what_tells_too_little_is_refused_and_the_writer_goes_on(tmp_path: Path, example: Any, message: str) -> None:
    """With the feature's name; the next example tells."""
    with pytest.warns(UserWarning, match="told from the first example"), DatasetWriter(tmp_path / "data") as writer:
        with pytest.raises(SchemaError, match=message):
            writer.write(example)
        with pytest.raises(ValueError, match="there was none yet"):
            _ = writer.features
        writer.write({"x": 1})
        assert writer.features == FeaturesDict({"x": np.int64})

    assert read_examples(tmp_path / "data") == {"train": [{"x": 1}]}


def test_the_first_example_is_shown_and_then_fixes_the_others(tmp_path: Path) -> None:
    """Another shape, another type, one more or one less are refused, each as by features that were given."""
    first = {"image": np.zeros((2, 2), np.uint8), "label": 3}
    with DatasetWriter(tmp_path / "data") as writer:
        with pytest.warns(UserWarning, match=r"(?s)data: no features were given.*'label': int64"):
            writer.write(first)
        for other in ({**first, "image": np.zeros((2, 3), np.uint8)}, {**first, "label": "a"}, {**first, "x": 1}, {"label": 3}):
            with pytest.raises(SchemaError, match="example 1 of split 'train'"):
                writer.write(other)
        writer.write_columns({"image": np.zeros((5, 2, 2), np.uint8), "label": range(5)})

    assert len(read_examples(tmp_path / "data")["train"]) == 6


def test_columns_tell_by_their_first_row(tmp_path: Path) -> None:
    """In a writer, and in ``write_dataset``, whose sources may be columns, sequences or functions."""
    columns: dict[str, Any] = {"x": np.zeros((5, 2), np.uint8), "y": [1, 2, 3, 4, 5]}
    expected = FeaturesDict({"x": raw((2,), np.uint8), "y": np.int64})
    with pytest.warns(UserWarning), DatasetWriter(tmp_path / "data") as writer:
        writer.write_columns(columns)
        assert writer.features == expected
    rows = [{"x": columns["x"][k], "y": k} for k in range(5)]
    for number, source in enumerate([columns, rows, lambda shard, shards: rows]):
        path = tmp_path / str(number)
        with pytest.warns(UserWarning, match="told from the first example"):
            write_dataset(path, {"none": [], "train": source}, num_shards={"train": 1}, num_workers=0)  # type: ignore[dict-item]
        assert arrayfeed.open(path, split="train").features == expected


def test_nothing_tells_nothing(tmp_path: Path) -> None:
    """A data set of unknown features cannot be; nothing is left of the attempt."""
    with pytest.raises(ValueError, match="there was none yet"), DatasetWriter(tmp_path / "data") as writer:
        writer.write_all([])
        with pytest.raises(ValueError, match="there was none yet"):
            writer.part(0)
    with pytest.raises(ValueError, match="features must be given where there is no example"):
        write_dataset(tmp_path / "data", {"train": []})
    with pytest.raises(ValueError, match="to resume, features must be given"):
        DatasetWriter(tmp_path / "data", resume=True)

    assert list(tmp_path.iterdir()) == []
