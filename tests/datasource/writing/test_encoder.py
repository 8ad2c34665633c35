"""Records by the short ways against the plain one: ``serialize_example(features.encode_example(example))``."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from arrayfeed.datasource.errors import SchemaError
from arrayfeed.datasource.example.wire import serialize_example
from arrayfeed.datasource.features import ClassLabel, FeaturesDict, Image, Scalar, Tensor, Text
from arrayfeed.datasource.features.features_dict import FeatureLike
from arrayfeed.datasource.writing.columns import take_row
from arrayfeed.datasource.writing.encoder import RecordEncoder
from arrayfeed.datasource.writing.payload import find_short_way

FEATURES: dict[str, FeatureLike] = {
    "label": ClassLabel(300),
    "named": ClassLabel(names=["cat", "dog"]),
    "byte": Scalar(np.uint8),
    "signed": Scalar(np.int32),
    "wide": Scalar(np.int64),
    "unsigned": Scalar(np.uint64),
    "flag": Scalar(np.bool_),
    "half": Scalar(np.float16),
    "maybe": Scalar(np.int64, optional=True),
    "text": Text(),
    "raw": Tensor(shape=(2, 3), dtype=np.int16, encoding="bytes"),
    "floats": Tensor(shape=(3,), dtype=np.float32),
    "doubles": Tensor(shape=(2,), dtype=np.float64, encoding="bytes"),
    "plain": Tensor(shape=(2, 2), dtype=np.uint8),
    "packed": Tensor(shape=(4,), dtype=np.uint8, encoding="zlib"),
    "ragged": Tensor(shape=(None, 2), dtype=np.float32, encoding="bytes"),
    "shaped": Tensor(shape=(None, None), dtype=np.int8, encoding="bytes"),
    "words": Tensor(shape=(2,), dtype=np.str_),
    "empty": Tensor(shape=(0,), dtype=np.float32),
    "hollow": Tensor(shape=(0, 2), dtype=np.uint8, encoding="bytes"),
    # Sorted as paths, "a/b" comes first; sorted as stored keys, "a-b" does.
    "a": {"b": Scalar(np.int64), "c": {"d": Text()}},
    "a-b": Scalar(np.int64),
}


def arrays(dtype: Any, shape: tuple[int, ...]) -> st.SearchStrategy[Any]:
    """Arrays in any memory order and byte order, and the same as lists."""
    native = hnp.arrays(dtype, shape)
    forms = [
        lambda a: a,
        np.asfortranarray,
        lambda a: a.astype(a.dtype.newbyteorder(">")),
        lambda a: np.repeat(a, 2, axis=0)[::2],
        lambda a: a.tolist(),
    ]
    return st.tuples(native, st.sampled_from(forms)).map(lambda pair: pair[1](pair[0]))


def integers(low: int, high: int) -> st.SearchStrategy[Any]:
    """Integers as Python's and as every NumPy type that holds them, with those on the edges of a varint's bytes."""
    edges = [v for k in range(0, 64, 7) for v in ((1 << k) - 1, 1 << k) if low <= v <= high]
    types = [int, np.int64, np.uint64, np.uint8, np.int16]
    values = st.sampled_from(edges) | st.integers(low, high)

    def convert(value: int, kind: type) -> Any:
        fits = kind is int or np.iinfo(kind).min <= value <= np.iinfo(kind).max
        return kind(value) if fits else value

    return st.builds(convert, values, st.sampled_from(types))


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "label": integers(-1, 299) | st.booleans(),
    "named": integers(0, 1) | st.sampled_from(["cat", "dog", b"cat"]),
    "byte": integers(0, 255),
    "signed": integers(-(2**31), 2**31 - 1),
    "wide": integers(-(2**63), 2**63 - 1),
    "unsigned": integers(0, 2**64 - 1),
    "flag": st.booleans() | st.booleans().map(np.bool_),
    "half": st.floats(width=16),
    "maybe": st.none() | integers(0, 200),
    "text": st.text(st.characters(codec="utf-8")) | st.binary() | st.text("ab").map(np.str_),
    "raw": arrays(np.int16, (2, 3)),
    "floats": arrays(np.float32, (3,)),
    "doubles": arrays(np.float64, (2,)),
    "plain": arrays(np.uint8, (2, 2)),
    "packed": arrays(np.uint8, (4,)),
    "ragged": st.integers(0, 3).flatmap(lambda n: hnp.arrays(np.float32, (n, 2))),
    "shaped": hnp.arrays(np.int8, st.tuples(st.integers(0, 3), st.integers(0, 3))),
    "words": st.lists(st.sampled_from(["", "x", "äö", b"\x00"]), min_size=2, max_size=2),
    "empty": st.just(np.empty(0, np.float32)),
    "hollow": st.just(np.empty((0, 2), np.uint8)),
    "a": st.fixed_dictionaries({"b": integers(0, 300), "c": st.fixed_dictionaries({"d": st.text("xy")})}),
    "a-b": integers(0, 300),
}


def plain_record(features: FeaturesDict, example: Mapping[str, Any]) -> bytes:
    return serialize_example(features.encode_example(example))


@given(st.fixed_dictionaries(VALUES))
def test_a_record_has_the_bytes_of_the_plain_way(example: dict[str, Any]) -> None:
    """Whatever types and memory layouts the values come in."""
    features = FeaturesDict(FEATURES)

    assert RecordEncoder(features).encode(example) == plain_record(features, example)


@pytest.mark.parametrize("length", [0, 1, 100, 126, 127, 128, 129, 16_300, 16_384, 70_000])
def test_lengths_around_every_size_of_length_are_right(length: int) -> None:
    """Each of the five nested lengths grows by a byte at its own size."""
    features = FeaturesDict({"x": Text(), "y": Scalar(np.int64)})
    encoder = RecordEncoder(features)

    for size in range(length, length + 60):
        example = {"x": bytes(size), "y": size}
        assert encoder.encode(example) == plain_record(features, example)


def test_images_given_as_files_keep_their_bytes(rng: np.random.Generator) -> None:
    """Thousands of lengths of encoded images go through one encoder."""
    features = FeaturesDict({"image": Image(shape=(None, None, 3))})
    encoder = RecordEncoder(features)
    for side in range(1, 20):
        buffer = io.BytesIO()
        PIL.Image.fromarray(rng.integers(0, 256, (side, side, 3), dtype=np.uint8)).save(buffer, "png")
        example = {"image": buffer.getvalue()}
        assert encoder.encode(example) == plain_record(features, example)


BAD: list[dict[str, Any]] = [
    {"label": 300},
    {"label": -2},
    {"label": 1.5},
    {"label": None},
    {"byte": 256},
    {"byte": np.int64(-1)},
    {"signed": 2**31},
    {"wide": 2**63},
    {"text": 3},
    {"raw": np.zeros((3, 2), np.int16)},
    {"raw": np.zeros((2, 3), np.float32)},
    {"raw": np.full((2, 3), 40_000)},
    {"floats": np.zeros(4, np.float32)},
    {"floats": np.zeros(3, np.complex64)},
    {"extra": 1},
    {"a": {"b": 1}},
    {"a": 5},
]


@pytest.mark.parametrize("change", BAD, ids=str)
def test_what_the_plain_way_refuses_is_refused_in_the_same_words(change: dict[str, Any]) -> None:
    """A short way never lets through, casts or explains anything by itself."""
    features = FeaturesDict(FEATURES)
    example = {**GOOD, **change}

    with pytest.raises(SchemaError) as expected:
        plain_record(features, example)
    with pytest.raises(SchemaError) as found:
        RecordEncoder(features).encode(example)

    assert str(found.value) == str(expected.value)


GOOD: dict[str, Any] = {
    "label": 3,
    "named": "dog",
    "byte": 200,
    "signed": -1,
    "wide": 1 << 40,
    "unsigned": (1 << 64) - 1,
    "flag": True,
    "half": 0.5,
    "text": "ä",
    "raw": np.arange(6, dtype=np.int16).reshape(2, 3),
    "floats": np.arange(3, dtype=np.float32),
    "doubles": np.array([1e300, -0.0]),
    "plain": np.array([[0, 127], [128, 255]], np.uint8),
    "packed": np.zeros(4, np.uint8),
    "ragged": np.ones((2, 2), np.float32),
    "shaped": np.ones((2, 0), np.int8),
    "words": ["x", b"y"],
    "empty": np.empty(0, np.float32),
    "hollow": np.empty((0, 2), np.uint8),
    "a": {"b": 1, "c": {"d": "x"}},
    "a-b": 2,
}


def columns_of(count: int, rng: np.random.Generator) -> dict[str, Any]:
    """Columns for features that all have a short way, as arrays, lists and a nested dict."""
    return {
        "image": rng.integers(0, 256, (count, 4, 3), dtype=np.uint8),
        "label": rng.integers(0, 300, count),
        "weight": rng.random((count, 2), dtype=np.float32),
        "id": [int(value) for value in rng.integers(0, 1 << 62, count)],
        "text": ["x" * int(size) for size in rng.integers(0, 200, count)],
        "n": {"tiny": rng.integers(0, 100, count).astype(np.int8)},
    }


COLUMN_FEATURES: dict[str, FeatureLike] = {
    "image": Tensor(shape=(4, 3), dtype=np.uint8, encoding="bytes"),
    "label": ClassLabel(300),
    "weight": Tensor(shape=(2,), dtype=np.float32),
    "id": Scalar(np.int64),
    "text": Text(),
    "n": {"tiny": Scalar(np.int8)},
}


@pytest.mark.parametrize("count", [0, 1, 2, 300])
def test_columns_give_the_records_of_their_rows(rng: np.random.Generator, count: int) -> None:
    """Byte for byte, in order."""
    features = FeaturesDict(COLUMN_FEATURES)
    columns = columns_of(count, rng)

    records = list(RecordEncoder(features).encode_columns(columns, count))

    assert records == [plain_record(features, take_row(columns, row)) for row in range(count)]


def test_columns_in_any_memory_layout_give_the_same_records(rng: np.random.Generator, tmp_path: Path) -> None:
    """Reversed, strided, Fortran-ordered, big-endian and memory-mapped columns."""
    features = FeaturesDict(COLUMN_FEATURES)
    encoder = RecordEncoder(features)
    columns = columns_of(50, rng)
    expected = list(encoder.encode_columns(columns, 50))
    np.save(tmp_path / "image.npy", columns["image"])

    forms = {
        "image": [
            np.asfortranarray(columns["image"]),
            np.repeat(columns["image"], 2, axis=0)[::2],
            np.load(tmp_path / "image.npy", mmap_mode="r"),
            list(columns["image"]),
        ],
        "weight": [columns["weight"].astype(">f4"), columns["weight"].tolist()],
        "label": [columns["label"].astype(np.uint16), columns["label"].tolist(), columns["label"].astype(">i8")],
    }

    for name, alternatives in forms.items():
        for column in alternatives:
            assert list(encoder.encode_columns({**columns, name: column}, 50)) == expected


def test_columns_that_have_no_short_way_are_encoded_row_by_row(rng: np.random.Generator) -> None:
    """One value or one feature out of the ordinary, and the records are still those of the rows."""
    features = FeaturesDict({**COLUMN_FEATURES, "maybe": Scalar(np.int64, optional=True)})
    columns = columns_of(20, rng)

    for change in (
        {},
        {"maybe": [None if k % 3 else k for k in range(20)]},
        {"label": rng.integers(-1, 2, 20)},
        {"image": columns["image"] // np.uint8(2), "text": [np.str_("x")] * 20},
        {"image": columns["image"].astype(np.int64)},
    ):
        changed = {**columns, **change}
        records = list(RecordEncoder(features).encode_columns(changed, 20))
        assert records == [plain_record(features, take_row(changed, row)) for row in range(20)]


def test_a_bad_row_is_refused_in_its_turn(rng: np.random.Generator) -> None:
    """The records before it come first."""
    features = FeaturesDict(COLUMN_FEATURES)
    columns = columns_of(20, rng)
    columns["label"][13] = 300

    records: list[bytes] = []
    with pytest.raises(SchemaError, match="feature 'label': a label from -1 to 299 expected, got 300"):
        records.extend(RecordEncoder(features).encode_columns(columns, 20))

    assert records == [plain_record(features, take_row(columns, row)) for row in range(13)]


def test_missing_and_unknown_columns_are_named(rng: np.random.Generator) -> None:
    """As a missing and an unknown feature of an example are."""
    encoder = RecordEncoder(FeaturesDict(COLUMN_FEATURES))
    columns = columns_of(5, rng)

    with pytest.raises(SchemaError, match="no feature is called 'extra'"):
        list(encoder.encode_columns({**columns, "extra": [1] * 5}, 5))
    del columns["label"]
    with pytest.raises(SchemaError, match="feature 'label': it is missing"):
        list(encoder.encode_columns(columns, 5))


def test_the_features_that_hold_most_data_have_a_short_way() -> None:
    """Without it all is right, and slow: 9 us instead of 1.5 for a small image and its label."""
    have = {leaf.key for leaf in FeaturesDict(FEATURES).leaves() if find_short_way(leaf) is not None}

    assert have >= {"label", "named", "byte", "wide", "text", "raw", "floats", "doubles", "a/b", "a/c/d"}


def test_a_class_derived_from_a_known_feature_is_asked_itself() -> None:
    """A short way is for the very classes it was made for."""

    class Shifted(ClassLabel):
        def encode(self, value: Any) -> Any:
            return super().encode(value + 1)

    features = FeaturesDict({"x": Shifted(10)})

    assert RecordEncoder(features).encode({"x": 3}) == plain_record(FeaturesDict({"x": ClassLabel(10)}), {"x": 4})
