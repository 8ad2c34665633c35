"""Records to values and back, without protobuf."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrayfeed.datasource.example.wire import WireError, WireValues, parse_example, serialize_example
from arrayfeed.datasource.example.wire_general import parse_general
from support.mutate import mutate
from support.wire_writer import fixed32, group, length_delimited, packed_floats, varint, varint_field

# What TensorFlow's SerializeToString(deterministic=True) gives for EXAMPLE.
EXAMPLE: dict[str, WireValues] = {
    "w": np.array([0.5, -1.0], np.float32),
    "image": [b"\x89PNG"],
    "label": np.array([2]),
    "neg": np.array([-1, 2**40]),
}
GOLDEN = bytes.fromhex(
    "0a530a110a05696d61676512080a060a0489504e470a0e0a056c6162656c12051a030a01020a1b0a036e656712141a120a10ffffffffffffffffff01"
    "8080808080200a110a0177120c120a0a080000003f000080bf"
)


def same(first: Any, second: Any) -> bool:
    """Whether two parsed records are equal, types and every bit of a NaN included."""
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, np.ndarray):
        return isinstance(second, np.ndarray) and first.dtype == second.dtype and first.tobytes() == second.tobytes()
    return type(first) is type(second) and bool(first == second)


def test_bytes_equal_those_of_tensorflow() -> None:
    """Serialisation is TensorFlow's deterministic one, and is read back."""
    assert serialize_example(EXAMPLE) == GOLDEN
    assert same(parse_example(GOLDEN), dict(sorted(EXAMPLE.items())))


def test_a_memoryview_is_read_as_its_bytes() -> None:
    assert same(parse_example(memoryview(b"..." + GOLDEN)[3:]), parse_example(GOLDEN))


def test_no_bytes_are_an_example_without_features() -> None:
    assert parse_example(b"") == {}
    assert parse_example(b"\x0a\x00") == {}
    assert serialize_example({}) == b"\x0a\x00"


INTS = [0, 1, 127, 128, 16383, 16384, 2**31, 2**32 - 1, 2**62, 2**63 - 1, -1, -128, -(2**63)]


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8, 9, 95, 96, 97, 1000])
@pytest.mark.parametrize("largest", [128, 2**14, 2**35, 2**63])
def test_integers_of_any_size_and_number_survive(count: int, largest: int) -> None:
    """Short and long lists take different ways through varint.py; both give every int64 back."""
    rng = random.Random(count)
    lowest = 0 if largest == 128 else -largest
    values = [rng.randrange(lowest, largest) for _ in range(count)]
    record = serialize_example({"k": np.array(values, np.int64)})

    plain = b"".join(varint(value) for value in values)
    assert plain in record
    found = parse_example(record)["k"]
    assert isinstance(found, np.ndarray) and found.dtype == np.int64
    assert found.tolist() == values


def test_the_extremes_of_int64_survive_together() -> None:
    found = parse_example(serialize_example({"k": np.array(INTS * 20)}))["k"]
    assert isinstance(found, np.ndarray)
    assert found.tolist() == INTS * 20


def test_every_bit_of_a_float_survives() -> None:
    """NaNs keep their payload, zeros their sign."""
    values = np.array([0x7FC00001, 0xFFFFFFFF, 0x80000000, 0x00000001, 0x7F800000], np.uint32).view(np.float32)
    assert same(parse_example(serialize_example({"k": values})), {"k": values})


def test_bytes_lists_of_any_number_survive() -> None:
    lists = {"none": [], "empty": [b""], "two": [b"", b"a"], "long": [bytes(300), b"\xff" * 70_000, b"x"]}
    assert parse_example(serialize_example(lists)) == dict(sorted(lists.items()))


def test_keys_are_sorted_by_their_bytes() -> None:
    """As protobuf sorts a map: by UTF-8, which is the order of code points."""
    keys = ["", "a", "a/b", "z", "é", "日本", "\U0001f600", "k" * 200]
    record = serialize_example({key: None for key in reversed(keys)})
    assert list(parse_example(record)) == sorted(keys) == sorted(keys, key=str.encode)


def test_a_feature_without_kind_is_none() -> None:
    assert parse_example(serialize_example({"a": None, "b": [b"x"]})) == {"a": None, "b": [b"x"]}


@pytest.mark.parametrize("values", [["text"], np.zeros(2), np.zeros(2, np.int32), [b"x", 1]])
def test_a_value_of_another_type_is_refused_by_key(values: Any) -> None:
    with pytest.raises(TypeError, match="key 'k'"):
        serialize_example({"k": values})


# -- every way to write the same ------------------------------------------------------------------------------------

# Fields that no version of the messages has.
UNKNOWN = [b"", varint_field(9, 300), length_delimited(15, b"?"), group(7, varint_field(1, 5) + group(8, b""))]
UNKNOWN += [fixed32(12, 1.0), varint(20 << 3 | 1) + bytes(8), varint_field((1 << 29) - 1, 0)]


def write_list(kind: int, items: list[Any], rng: random.Random) -> bytes:
    """Return the fields of one list, packed or not, among unknown ones."""
    fields = []
    while items:
        count = rng.randrange(1, 4)
        some, items = items[:count], items[count:]
        if kind == 1:
            fields += [length_delimited(1, item, padding=rng.randrange(3)) for item in some]
        elif rng.random() < 0.5:
            padding = rng.randrange(3) if all(0 <= item < 2**40 for item in some) else 0
            content = packed_floats(some) if kind == 2 else b"".join(varint(item, padding=padding) for item in some)
            fields.append(length_delimited(1, content))
        else:
            fields += [fixed32(1, item) if kind == 2 else varint_field(1, item) for item in some]
        fields.append(rng.choice(UNKNOWN))
    return b"".join(fields)


def write_feature(values: WireValues, rng: random.Random) -> bytes:
    """Return a Feature: its list in one piece or two, perhaps after one of another kind, which it replaces."""
    if values is None:
        return rng.choice(UNKNOWN)
    kind = 1 if isinstance(values, list) else 2 if values.dtype == np.float32 else 3
    items = values if isinstance(values, list) else values.tolist()
    cut = rng.randrange(len(items) + 1)
    pieces = [items[:cut], items[cut:]] if rng.random() < 0.5 else [items]
    replaced = length_delimited(1, length_delimited(1, b"gone")) if kind == 3 and rng.random() < 0.3 else b""
    return replaced + b"".join(
        length_delimited(kind, write_list(kind, list(piece), rng)) + rng.choice(UNKNOWN) for piece in pieces
    )


def write_example(features: dict[str, WireValues], rng: random.Random) -> bytes:
    """Return an Example in which everything that may vary does."""
    entries = []
    for key, values in features.items():
        value = length_delimited(2, write_feature(values, rng), padding=rng.randrange(2))
        fields = [length_delimited(1, key.encode()), value, rng.choice(UNKNOWN)]
        rng.shuffle(fields)
        if rng.random() < 0.2:
            entries.append(length_delimited(1, length_delimited(1, key.encode()) + length_delimited(2, b"")))
        entries.append(length_delimited(1, b"".join(fields)) + rng.choice(UNKNOWN))
    cut = rng.randrange(len(entries) + 1)
    return rng.choice(UNKNOWN) + b"".join(length_delimited(1, b"".join(part)) for part in (entries[:cut], entries[cut:]))


values = st.one_of(
    st.none(),
    st.lists(st.binary(max_size=20), max_size=5),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=8).map(lambda items: np.array(items, np.int64)),
    st.lists(st.floats(width=32, allow_nan=False), max_size=8).map(lambda items: np.array(items, np.float32)),
)


@given(features=st.dictionaries(st.text(max_size=5), values, max_size=5), seed=st.integers(0, 2**32))
def test_whatever_a_conforming_writer_produces_is_read(features: dict[str, WireValues], seed: int) -> None:
    """Any order, packed or not, unknown fields and groups, repeated keys, messages in pieces, wasteful varints."""
    record = write_example(features, random.Random(seed))

    assert same(parse_example(record), features)


@given(features=st.dictionaries(st.text(max_size=5), values, max_size=5))
def test_what_is_written_is_read_the_short_way_and_the_complete_one(features: dict[str, WireValues]) -> None:
    """The parser for the usual layout and the complete parser agree."""
    record = serialize_example(features)

    assert same(parse_example(record), features)
    assert same(parse_general(record), features)


def test_unknown_fields_inside_an_entry_do_not_hide_it() -> None:
    """protobuf's upb drops such an entry; C++, Java and this parser drop only the field."""
    entry = (
        length_delimited(1, b"k") + varint_field(5, 1) + length_delimited(2, length_delimited(3, length_delimited(1, b"\x07")))
    )
    found = parse_example(length_delimited(1, length_delimited(1, entry)))
    assert same(found, {"k": np.array([7])})


# -- what is no example ---------------------------------------------------------------------------------------------


def _feature(content: bytes, key: bytes = b"k") -> bytes:
    return length_delimited(1, length_delimited(1, length_delimited(1, key) + length_delimited(2, content)))


@pytest.mark.parametrize(
    ("record", "offset", "message"),
    [
        (b"\x0a", 1, "ends inside a varint"),
        (b"\x0a\x05\x0a", 0, "ends 4 bytes after the message that holds it"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 0, "ends 18446744073709551615 bytes after"),
        (b"\x0a" + b"\x80" * 10 + b"\x00", 1, "more than 10 bytes"),
        (b"\x00\x00", 0, "field number 0"),
        (b"\x0e", 0, "wire type 6"),
        (b"\x0f", 0, "wire type 7"),
        (b"\x0c", 0, "wire type 4"),
        (b"\x0b", 1, "group 1 does not end"),
        (b"\x0b\x14", 1, "wire type 4"),
        (b"\x0b" * 101, 100, "deeper than 100"),
        (b"\x09\x00", 0, "ends 7 bytes after"),
        (_feature(b"", key=b"a\xff"), 7, "not UTF-8"),
        (_feature(length_delimited(2, length_delimited(1, b"abc"))), 13, "no multiple of 4"),
        (_feature(length_delimited(3, length_delimited(1, b"\x80"))), 13, "varint"),
        (_feature(length_delimited(3, length_delimited(1, b"\x80" * 10 + b"\x01"))), 13, "varint"),
        (_feature(length_delimited(3, length_delimited(1, b"\x80" * 200))), 18, "varint"),
        (_feature(length_delimited(3, length_delimited(1, bytes(200) + b"\x80" * 10 + b"\x01"))), 18, "varint"),
        (b"GIF89a", 0, "varint|wire type"),
    ],
)
def test_what_is_no_example_says_where_that_shows(record: bytes, offset: int, message: str) -> None:
    with pytest.raises(WireError, match=message) as caught:
        parse_example(record)
    assert caught.value.offset == offset
    assert f"byte {offset} of the record" in str(caught.value)


def test_a_wire_error_survives_pickling() -> None:
    import pickle

    error = pickle.loads(pickle.dumps(WireError("what", 7)))
    assert (error.message, error.offset, str(error)) == ("what", 7, str(WireError("what", 7)))


FUZZED = [
    GOLDEN,
    serialize_example({"a": [b"x", b"", bytes(100)], "b": np.arange(-150, 150), "c": None, "": np.zeros(0, np.float32)}),
    serialize_example({"long": [bytes(300)], "e": np.array([1, -5]), "f": np.arange(50, dtype=np.float32), "d": []}),
]


@pytest.mark.parametrize("seed", range(10))
def test_damaged_records_are_read_or_refused(seed: int) -> None:
    """Of thousands, each gives a value or a WireError whose offset lies in the record, by both parsers alike."""
    rng = random.Random(seed)
    outcomes = {"read": 0, "refused": 0}
    for _ in range(2_000):
        record = mutate(rng.choice(FUZZED), rng)
        try:
            found = parse_example(record)
        except WireError as error:
            assert 0 <= error.offset <= len(record)
            with pytest.raises(WireError):
                parse_general(record)
            outcomes["refused"] += 1
        else:
            assert same(found, parse_general(record))
            outcomes["read"] += 1
    assert min(outcomes.values()) > 100
