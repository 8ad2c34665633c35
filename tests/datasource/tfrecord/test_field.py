"""Examples decoded by a specification of fields, against what tf.io.parse_single_example made of the same records."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arrayfeed import DecodeError, Field, SchemaError, TFRecordSource, features
from arrayfeed.datasource.example.wire import serialize_example
from arrayfeed.datasource.tfrecord.field import REQUIRED
from support.equal import difference
from support.neutral import load
from support.tfrecords import FIXTURES, tensorflow, write_tfrecord
from support.wire_writer import fixed32, length_delimited, packed_floats, varint, varint_field

TF = tensorflow()
DTYPES = {"int64": np.int64, "float32": np.float32, "bytes": bytes}


def field_for(spec: dict[str, Any]) -> Field:
    """Return our word for one of TensorFlow's specifications."""
    dtype = DTYPES[spec["dtype"]]
    if spec["kind"] == "FixedLen":
        return Field(dtype, tuple(spec["shape"]), default=REQUIRED if spec["default"] is None else spec["default"])
    return Field(dtype, (None, *(spec["shape"] or ())))


def as_ours(value: Any) -> Any:
    """Return a value of TensorFlow's as we give it: scalars as Python's own."""
    return value.item() if isinstance(value, np.generic) else value


@pytest.mark.parametrize("number", range(len(TF["specs"])), ids=lambda n: "-".join(map(str, TF["specs"][n].values())))
def test_every_specification_gives_what_tensorflow_gives(number: int) -> None:
    """Present, missing, without a kind, empty, too few, too many, of another type: the same value, or an error as well."""
    source = TFRecordSource(FIXTURES / "examples.tfrecord").decode({"a": field_for(TF["specs"][number])})
    good = []
    for index, form in enumerate(TF["parsed"][number]):
        if form == "error":
            with pytest.raises(DecodeError, match="feature 'a': ") as caught:
                source[index]
            assert (caught.value.path, caught.value.record) == (str(FIXTURES / "examples.tfrecord"), index)
        else:
            good.append(index)
            assert not difference(source[index]["a"], as_ours(load(form)))
    for index in good:
        column = np.array([source[index]["a"]], source.features["a"].dtype)
        assert not difference(source.read_batch([index])["a"], column)


def test_the_wire_formats_vector_is_decoded() -> None:
    """Four keys of three kinds; those that are not asked for are left out."""
    records = TFRecordSource(FIXTURES / "examples.tfrecord")
    last = len(records) - 1
    source = records.decode(
        {"image": Field(bytes), "label": Field(np.int64), "neg": Field(np.int64, (None,)), "w": Field(np.float32, (2,))}
    )

    assert records[last].hex() == (
        "0a530a110a05696d61676512080a060a0489504e470a0e0a056c6162656c12051a030a01020a1b0a036e656712141a120a10"
        "ffffffffffffffffff018080808080200a110a0177120c120a0a080000003f000080bf"
    )
    assert not difference(
        source[last],
        {
            "image": b"\x89PNG",
            "label": 2,
            "neg": np.array([-1, 1 << 40]),
            "w": np.array([0.5, -1], np.float32),
        },
    )
    assert not difference(records.decode({"label": Field(np.int64)})[last], {"label": 2})


def entry(key: bytes, feature: bytes, *, turned: bool = False) -> bytes:
    """Return one key of an example and its feature, in either order."""
    parts = [length_delimited(1, key), length_delimited(2, feature)]
    return length_delimited(1, b"".join(parts[::-1] if turned else parts))


def integers(*values: int) -> bytes:
    return length_delimited(3, length_delimited(1, b"".join(map(varint, values))))


USUAL = entry(b"n", integers(7)) + entry(b"w", length_delimited(2, length_delimited(1, packed_floats([0.5, 1.5]))))
WRITTEN = {
    "as usual": USUAL,
    "numbers that are not packed": entry(b"n", length_delimited(3, varint_field(1, 7)))
    + entry(b"w", length_delimited(2, fixed32(1, 0.5) + fixed32(1, 1.5))),
    "in part packed": entry(b"n", integers(7))
    + entry(b"w", length_delimited(2, fixed32(1, 0.5) + length_delimited(1, packed_floats([1.5])))),
    "keys and values in another order": entry(
        b"w", length_delimited(2, length_delimited(1, packed_floats([0.5, 1.5]))), turned=True
    )
    + entry(b"n", integers(7), turned=True),
    "unknown fields": varint_field(9, 1) + entry(b"other", integers(1)) + USUAL + length_delimited(15, b"?"),
    "a key twice": entry(b"n", integers(1, 2, 3)) + entry(b"w", b"") + USUAL,
    "a length that is longer than it must be": length_delimited(1, b"", padding=2) + USUAL,
}


@pytest.mark.parametrize("name", WRITTEN)
def test_every_way_to_write_an_example_is_read(tmp_path: Path, name: str) -> None:
    """Packed or not, in any order, among unknown fields; of a key that is there twice the last counts. In batches, too."""
    fields = {"n": Field(np.int64), "w": Field(np.float32, (2,)), "missing": Field(np.int64, default=-1)}
    records = [length_delimited(1, WRITTEN[name]), length_delimited(1, USUAL)] * 40
    source = TFRecordSource(write_tfrecord(tmp_path / "a", records)).decode(fields)
    example = {"missing": -1, "n": 7, "w": np.array([0.5, 1.5], np.float32)}

    assert not difference(source[[0, 1, 2]], [example] * 3)
    for order in ([0], range(len(source)), range(0, len(source), 2)):
        batch = source.read_batch(order)
        assert batch["n"].tolist() == [7] * len(order) and batch["missing"].tolist() == [-1] * len(order)
        assert batch["w"].tolist() == [[0.5, 1.5]] * len(order)


def test_an_empty_record_has_defaults_only(tmp_path: Path) -> None:
    """No bytes are an example of no features; a feature of no kind is missing, a list of no values is not."""
    records = [b"", length_delimited(1, b""), length_delimited(1, entry(b"n", b""))]
    source = TFRecordSource(write_tfrecord(tmp_path / "a", records))
    decoded = source.decode({"n": Field(np.int64, default=3), "any": Field(bytes, (None,))})
    for example in decoded:
        assert example["n"] == 3 and example["any"].shape == (0,)
    assert decoded.read_batch([2, 0, 1])["n"].tolist() == [3, 3, 3]
    required = source.decode({"n": Field(np.int64)})
    for record in range(3):
        with pytest.raises(
            DecodeError, match=f"record {record}: feature 'n': the record has no value for it, and it has no default"
        ):
            required[record]
    empty = TFRecordSource(write_tfrecord(tmp_path / "b", [length_delimited(1, entry(b"n", integers()))]))
    with pytest.raises(DecodeError, match="one value expected, the record has 0"):
        empty.decode({"n": Field(np.int64, default=3)})[0]


@pytest.fixture
def many(tmp_path: Path, rng: np.random.Generator) -> Path:
    """1,000 records in which every seventh lacks its label and every fifth its weights."""
    records = []
    for number in range(1000):
        values: dict[str, Any] = {"pixels": [rng.bytes(12)], "number": np.array([number])}
        if number % 7:
            values["label"] = np.array([number % 10])
        if number % 5:
            values["weights"] = rng.random((2, 2), np.float32)
        records.append(serialize_example(values))
    return write_tfrecord(tmp_path / "many", records)


FIELDS: dict[str, Any] = {
    "pixels": features.Tensor(shape=(3, 4), dtype=np.uint8, encoding="bytes"),
    "number": Field(np.int32),
    "label": Field(np.int8, default=-1),
    "weights": Field(np.float32, (2, 2), default=0.25),
}


def test_columns_are_the_examples_stacked(many: Path, rng: np.random.Generator) -> None:
    """Defaults included, of the declared dtypes, whatever the batch; beside features of other kinds."""
    source = TFRecordSource(many).decode(FIELDS)
    for size in (1, 3, 64, 1000):
        order = rng.integers(0, 1000, size)
        batch, examples = source.read_batch(order), source[order]
        for name, dtype in (("pixels", np.uint8), ("number", np.int32), ("label", np.int8), ("weights", np.float32)):
            expected = np.array([example[name] for example in examples], dtype)
            assert not difference(batch[name], expected)
        assert batch["number"].tolist() == order.tolist()
        assert batch["label"].tolist() == [i % 10 if i % 7 else -1 for i in order]


def test_a_default_belongs_to_each_example(many: Path) -> None:
    """Changing one changes no other."""
    source = TFRecordSource(many).decode(FIELDS)
    source[0]["weights"][:] = 7

    assert source[5]["weights"].tolist() == [[0.25, 0.25], [0.25, 0.25]]
    assert source[0]["weights"].tolist() == [[0.25, 0.25], [0.25, 0.25]]


def test_an_optional_field_is_none_where_it_is_missing(many: Path) -> None:
    """``default=None`` means just that; a column of it holds objects."""
    source = TFRecordSource(many).decode({"label": Field(np.int64, default=None)})

    assert [source[i]["label"] for i in (0, 1, 7)] == [None, 1, None]
    assert source.read_batch([0, 1])["label"].tolist() == [None, 1]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (Field(np.uint8), np.array([256]), "256"),
        (Field(np.int32), np.array([-(1 << 31) - 1]), "-2147483649"),
        (Field(np.int64), np.array([1.5], np.float32), "a list of int64 expected, the record has 1 values of float"),
        (Field(np.int64), np.array([1, 2]), "one value expected, the record has 2"),
        (Field(np.float32, (2, 3)), np.zeros(5, np.float32), r"shape \(2, 3\) expected, the record has 5 values"),
        (Field(np.float32, (None, 3)), np.zeros(5, np.float32), r"shape \(None, 3\) expected, the record has 5 values"),
        (Field(bytes), None, "the record has no value for it, and it has no default"),
    ],
    ids=str,
)
def test_an_error_names_key_record_and_file_in_one_line(tmp_path: Path, field: Field, value: Any, message: str) -> None:
    """By whatever way the record is read."""
    good = {np.dtype(object): [b"x"]}.get(field.dtype, np.zeros(int(np.prod([s or 1 for s in field.shape])), np.int64))
    good = good.astype(np.float32) if field.dtype == np.float32 else good  # type: ignore[union-attr]
    records = [serialize_example({"key": each, "other": [b"o"]}) for each in (good, good, value)]
    source = TFRecordSource(write_tfrecord(tmp_path / "a.tfrecord", records)).decode({"key": field})

    assert len(source[[0, 1]]) == 2
    for read in (lambda: source[2], lambda: source[[0, 2]], lambda: source.read_batch([0, 1, 2]), lambda: list(source)):
        with pytest.raises(DecodeError, match=f"a.tfrecord, record 2: feature 'key': .*{message}") as caught:
            read()
        assert "\n" not in str(caught.value)
        assert (caught.value.path, caught.value.record) == (str(tmp_path / "a.tfrecord"), 2)


def test_a_record_that_is_no_example_is_an_error_that_names_it(tmp_path: Path) -> None:
    """Garbage, which TensorFlow answers with a UnicodeDecodeError of its own."""
    source = TFRecordSource(write_tfrecord(tmp_path / "a", [b"\xff\xffgarbage"])).decode({"key": Field(bytes, default=b"")})
    with pytest.raises(DecodeError, match=r"a, record 0: this is no tf\.train\.Example"):
        source[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("complex64",), "complex64"),
        ((np.int64, (None, None)), "2 axes of unknown length cannot be told apart"),
        ((np.int64, (-1,)), "no negative lengths"),
        ((np.int64, 3), "a shape is a tuple"),
        (("no such type",), "no such type"),
    ],
    ids=str,
)
def test_an_impossible_field_is_refused(arguments: tuple[Any, ...], message: str) -> None:
    """When it is made, not when it is read."""
    with pytest.raises(SchemaError, match=message):
        Field(*arguments)


@pytest.mark.parametrize(
    ("dtype", "shape", "default"),
    [(np.int8, (), 200), (np.int64, (), 0.5), (np.int64, (2,), [1, 2, 3]), (np.int64, (None,), 5), (bytes, (), 5)],
)
def test_a_default_that_does_not_fit_is_refused(dtype: Any, shape: Any, default: Any) -> None:
    """Of another type, range or shape."""
    with pytest.raises(SchemaError):
        Field(dtype, shape, default=default)


def test_fields_that_differ_make_sources_that_differ(many: Path) -> None:
    """The default is part of what is read; it shows, and it is pickled."""
    records = TFRecordSource(many)
    prints = [records.decode({"label": Field(np.int64, default=default)}).fingerprint for default in (REQUIRED, None, 0, 1)]
    source = records.decode(FIELDS)

    assert len(set(prints)) == 4
    assert "Field(shape=(2, 2), dtype=float32, default=[0.25, 0.25, 0.25, 0.25])" in repr(source.features)
    assert not difference(pickle.loads(pickle.dumps(source))[0], source[0])
    assert Field(np.int64, default=1) == Field(np.int64, default=1) != Field(np.int64, default=2)
