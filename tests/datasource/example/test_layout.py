"""A layout is never a guess: records that match it hold the fields it says, whatever else is done to them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrayfeed.datasource.example.layout import Layout
from arrayfeed.datasource.example.wire import WireError, WireValues, parse_example, serialize_example
from arrayfeed.datasource.memory import Extents
from support.wire_writer import fixed32, length_delimited, packed_floats, varint, varint_field

INTS = st.one_of(st.integers(0, 300), st.integers(-(2**63), 2**63 - 1))
LISTS = st.one_of(
    st.binary(max_size=40).map(lambda value: [value]),
    st.lists(INTS, min_size=1, max_size=6).map(lambda values: np.array(values, np.int64)),
    st.lists(st.floats(width=32), min_size=1, max_size=6).map(lambda values: np.array(values, np.float32)),
)
EXAMPLES = st.dictionaries(st.text(max_size=5), LISTS, min_size=1, max_size=4)


def field(layout: Layout, key: str, record: bytes) -> Any:
    """Return what a layout cuts out of one record, in the parser's terms."""
    found = layout.field(key, Extents.joined([record]))
    assert found.shape[0] == 1
    return [found.tobytes()] if found.dtype == np.uint8 else found[0]


def agrees(layout: Layout, record: bytes) -> bool:
    """Whether the parser reads in ``record`` just what the layout cuts out of it."""
    try:
        parsed = parse_example(record)
    except WireError:
        return False
    found = {key: field(layout, key, record) for key in layout.fields}
    return parsed.keys() == found.keys() and all(same(parsed[key], found[key]) for key in found)


def same(one: WireValues, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and one.dtype == other.dtype and one.tobytes() == other.tobytes()
    return bool(one == other)


def matches(layout: Layout, records: list[bytes]) -> list[bool]:
    return [bool(fits) for fits in layout.matches(Extents.joined(records))]


@given(EXAMPLES)
def test_a_layout_matches_the_record_it_was_learnt_from(example: dict[str, WireValues]) -> None:
    """And cuts every field out of it as the parser reads it."""
    record = serialize_example(example)
    layout = Layout.of(record)

    assert layout is not None
    assert layout.size == len(record)
    assert matches(layout, [record]) == [True]
    assert agrees(layout, record)


@given(example=EXAMPLES, seed=st.integers(0, 2**32))
def test_a_record_that_matches_is_what_the_layout_says(example: dict[str, WireValues], seed: int) -> None:
    """Every bit of the record is turned by turns, and many of them at once: what still matches reads as the parser reads it."""
    record = serialize_example(example)
    layout = Layout.of(record)
    assert layout is not None
    randomness = random.Random(seed)
    damaged = []
    for _ in range(60):
        changed = bytearray(record)
        for _ in range(randomness.choice([1, 1, 1, 2, 5])):
            changed[randomness.randrange(len(record))] ^= 1 << randomness.randrange(8)
        damaged.append(bytes(changed))
    for bad, fits in zip(damaged, matches(layout, damaged), strict=True):
        assert not fits or agrees(layout, bad)


@pytest.mark.parametrize("bit", range(8))
def test_no_bit_of_structure_may_differ_and_every_bit_of_payload_may(bit: int) -> None:
    """Bit by bit over a record of all kinds. Of a varint's byte the lower seven are payload, the highest is structure."""
    example: dict[str, WireValues] = {"b": [b"payload"], "f": np.array([0.5, 2.0], np.float32), "i": np.array([300, 5, -1])}
    record = serialize_example(example)
    layout = Layout.of(record)
    assert layout is not None
    payload = {place for kind in "bf" for place in span(layout, kind)}
    if bit < 7:
        # The tenth byte of -1 has one bit of value; other bits there would not fit 64.
        payload |= set(span(layout, "i")[:-1])
    turned = [bytes([*record[:place], record[place] ^ 1 << bit, *record[place + 1 :]]) for place in range(len(record))]

    assert matches(layout, turned) == [place in payload for place in range(len(record))]


def span(layout: Layout, key: str) -> range:
    found = layout.fields[key]
    return range(found.start, found.start + found.nbytes)


def entry(key: bytes, feature: bytes) -> bytes:
    return length_delimited(1, length_delimited(1, key) + length_delimited(2, feature))


def ints(*values: int, padding: int = 0) -> bytes:
    return length_delimited(3, length_delimited(1, b"".join(varint(value, padding=padding) for value in values)))


USUAL = entry(b"a", ints(5))
ODD: dict[str, bytes] = {
    "nothing": b"",
    "unpacked integers": length_delimited(1, entry(b"a", length_delimited(3, varint_field(1, 5)))),
    "unpacked floats": length_delimited(1, entry(b"a", length_delimited(2, fixed32(1, 0.5)))),
    "half packed": length_delimited(1, entry(b"a", length_delimited(3, length_delimited(1, b"\5") + varint_field(1, 6)))),
    "packed twice": length_delimited(
        1, entry(b"a", length_delimited(3, length_delimited(1, b"\5") + length_delimited(1, b"\6")))
    ),
    "two byte strings": length_delimited(
        1, entry(b"a", length_delimited(1, length_delimited(1, b"x") + length_delimited(1, b"y")))
    ),
    "no byte string": length_delimited(1, entry(b"a", length_delimited(1, b""))),
    "a key twice": length_delimited(1, USUAL + entry(b"a", ints(6))),
    "value before key": length_delimited(1, length_delimited(1, length_delimited(2, ints(5)) + length_delimited(1, b"a"))),
    "no key": length_delimited(1, length_delimited(1, length_delimited(2, ints(5)))),
    "no value": length_delimited(1, length_delimited(1, length_delimited(1, b"a"))),
    "a feature of no kind": length_delimited(1, USUAL + entry(b"b", b"")),
    "a list of an unknown kind": length_delimited(1, entry(b"a", length_delimited(4, b"abc") + ints(5))),
    "a list of unknown kind alone": length_delimited(1, entry(b"a", length_delimited(9, b"\x0a\x01\x05"))),
    "two lists": length_delimited(1, entry(b"a", ints(5) + ints(6))),
    "an unknown field behind": length_delimited(1, USUAL) + varint_field(7, 3),
    "an unknown field before": varint_field(7, 3) + length_delimited(1, USUAL),
    "an unknown field among the entries": length_delimited(1, USUAL + varint_field(7, 3)),
    "features twice": length_delimited(1, USUAL) + length_delimited(1, entry(b"b", ints(6))),
    "a key that is no text": length_delimited(1, entry(b"\xff\xfe", ints(5))),
    "floats of 6 bytes": length_delimited(1, entry(b"a", length_delimited(2, length_delimited(1, b"123456")))),
    "an unfinished varint": length_delimited(1, entry(b"a", length_delimited(3, length_delimited(1, b"\x05\x80")))),
    "a varint of 11 bytes": length_delimited(1, entry(b"a", length_delimited(3, length_delimited(1, b"\x80" * 10 + b"\1")))),
    "a varint past 64 bits": length_delimited(1, entry(b"a", length_delimited(3, length_delimited(1, b"\xff" * 9 + b"\3")))),
    "cut short": length_delimited(1, USUAL)[:-1],
    "a byte too many": length_delimited(1, USUAL) + b"\0",
    "no example": b"\xff" * 20,
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_not_written_as_usual_has_no_layout(name: str) -> None:
    """The parser is asked about it, which reads some of these and refuses others."""
    assert Layout.of(ODD[name]) is None


@pytest.mark.parametrize(
    "record",
    [
        length_delimited(1, entry(b"a", ints(5, 300, padding=2))),
        length_delimited(1, entry(b"a", ints(-5)), padding=3),
        length_delimited(1, entry(b"", length_delimited(2, length_delimited(1, packed_floats([0.5]))))),
    ],
    ids=["padded values", "padded lengths", "empty key"],
)
def test_unusual_forms_of_the_usual_fields_are_layouts_too(record: bytes) -> None:
    """Varints longer than they need be, an empty key."""
    layout = Layout.of(record)

    assert layout is not None
    assert agrees(layout, record)


@given(st.binary(max_size=60))
def test_any_bytes_have_a_layout_that_agrees_with_the_parser_or_none(data: bytes) -> None:
    """Never an error, and never a layout for what the parser refuses."""
    layout = Layout.of(data)

    assert layout is None or agrees(layout, data)


def test_many_records_are_cut_at_once_from_wherever_they_lie() -> None:
    """Scattered in a buffer among other bytes; varints of 1 to 10 bytes; the result is an array of its own."""
    values = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, (50, 3)) >> np.array([0, 7, 0])
    values[:, 1] = np.abs(values[:, 1]) % 128
    values[:, 0] = np.abs(values[:, 0]) % 2**14 | 2**13
    values[:, 2] = -np.abs(values[:, 2])
    records = [serialize_example({"i": row, "x": [bytes([number]) * 9]}) for number, row in enumerate(values)]
    buffer = np.frombuffer(b"...".join(records) + b"...", np.uint8)
    starts = np.arange(50) * (len(records[0]) + 3)
    scattered = Extents.within(buffer, starts, np.full(50, len(records[0])))
    layout = Layout.of(records[0])
    assert layout is not None

    found = layout.field("i", scattered)
    assert found.dtype == np.int64
    assert (found == values).all()
    assert (layout.field("x", scattered) == np.arange(50)[:, None]).all()
    assert layout.matches(scattered).all()
    found[:] = 0
    assert (layout.field("i", scattered) == values).all()


@given(example=EXAMPLES, seed=st.integers(0, 2**32))
def test_a_layout_is_common_to_records_that_differ_in_values_only(example: dict[str, WireValues], seed: int) -> None:
    """A mask of bits leaves the layout as it is just where turning any one of them does."""
    record = serialize_example(example)
    layout = Layout.of(record)
    assert layout is not None
    free = [turn(record, bit) for bit in range(8 * len(record))]
    is_free = np.array(matches(layout, free))
    rng = np.random.default_rng(seed)
    for share in (0.0, 0.02, 0.5, 1.0):
        bits = is_free & (rng.random(is_free.size) < share)
        assert layout.is_common(np.packbits(bits, bitorder="little"))
        for bit in rng.permutation(np.flatnonzero(~is_free))[:5].tolist():
            assert not layout.is_common(np.packbits(bits | (np.arange(bits.size) == bit), bitorder="little"))


def turn(record: bytes, bit: int) -> bytes:
    changed = bytearray(record)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)
