"""Columns equal the examples decoded one by one: for any features, any way of writing them, any mixture in a batch."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  # makes bfloat16 known
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import arrayfeed
from arrayfeed.datasource.arrayrecord.located import LocatedByPlaces
from arrayfeed.datasource.arrayrecord.places import Places
from arrayfeed.datasource.errors import DecodeError
from arrayfeed.datasource.example.layout import Layout
from arrayfeed.datasource.example.plan import DecodePlan
from arrayfeed.datasource.example.wire import parse_example, serialize_example
from arrayfeed.datasource.features import ClassLabel, FeaturesDict, Image, Scalar, Tensor, Text
from arrayfeed.datasource.memory import Extents
from arrayfeed.datasource.writing.encoder import RecordEncoder
from support.equal import difference
from support.wire_writer import fixed32, length_delimited, varint, varint_field

FIXTURES = Path(__file__).parents[2] / "fixtures" / "tfds"
NUMBERS = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()


# -- decoding, and its oracle -----------------------------------------------------------------------------------------


def decode(plan: DecodePlan, records: Sequence[bytes], indices: Sequence[int], bounds: Sequence[int]) -> list[Any]:
    """Return the batches that ``plan`` makes of some of ``records``, the indices being their names."""
    numbers = np.array(indices, np.int64)
    chosen = Extents.joined([records[index] for index in indices])
    batches = plan.decode_columns(chosen, numbers, bounds, lambda row: ("shard", int(numbers[row])))
    decode_again(plan, records, numbers, bounds, batches)
    return batches


def decode_again(plan: DecodePlan, records: Sequence[bytes], indices: Any, bounds: Sequence[int], batches: list[Any]) -> None:
    """Decode the batches by the records' addresses too, where the plan can, and compare."""
    held = Extents.joined(records)
    places = Places(len(records))
    places.note(np.arange(len(records)), held.offsets + held.base, held.sizes)
    where = LocatedByPlaces(places, held)
    first = plan.decode_known(where, indices, bounds)
    assert first is None or difference(first, batches) == ""
    plan.note_known(where, indices)
    again = plan.decode_known(where, indices, bounds)
    assert again is None or difference(again, batches) == ""


def decode_plainly(
    features: FeaturesDict, records: Sequence[bytes], indices: Sequence[int], bounds: Sequence[int]
) -> list[Any]:
    """Return the same batches, each record parsed by itself, each value put into a column of the declared dtype."""
    batches = []
    for start, stop in pairwise(bounds):
        examples = [features.decode_example(parse_example(records[index])) for index in indices[start:stop]]
        batches.append(stack(features, examples))
    return batches


def stack(feature: Any, values: list[Any]) -> Any:
    if isinstance(feature, FeaturesDict):
        return {name: stack(feature[name], [value[name] for value in values]) for name in sorted(feature)}
    if feature.dtype == object or feature.optional:
        column = np.empty(len(values), object)
        for row, value in enumerate(values):
            column[row] = value
        return column
    column = np.empty((len(values), *feature.shape), feature.dtype)
    for row, value in enumerate(values):
        column[row] = value
    return column


# -- features and examples to decode ----------------------------------------------------------------------------------


def arrays(dtype: str, shape: tuple[int, ...]) -> st.SearchStrategy[Any]:
    kind = np.dtype(dtype)
    if kind.kind != "f":
        return hnp.arrays(kind, shape)
    # What float32 holds; float64 values are stored as such.
    return hnp.arrays(kind, shape, elements=st.floats(width=16 if dtype == "float16" else 32))


@st.composite
def leaf(draw: st.DrawFn) -> tuple[Any, st.SearchStrategy[Any]]:
    kind = draw(
        st.sampled_from(["tensor", "tensor", "bytes", "large", "scalar", "scalar", "label", "text", "image", "optional"])
    )
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    dtype = draw(st.sampled_from(NUMBERS))
    if kind == "tensor":
        return Tensor(shape=shape, dtype=dtype), arrays(dtype, shape)
    if kind == "bytes":
        if draw(st.booleans()):
            values = arrays("uint8", shape).map(lambda array: array.astype("bfloat16"))
            return Tensor(shape=shape, dtype="bfloat16", encoding="bytes"), values
        return Tensor(shape=shape, dtype=dtype, encoding="bytes"), arrays(dtype, shape)
    if kind == "large":
        feature = Tensor(shape=(11, 31), dtype=dtype, encoding=draw(st.sampled_from(["bytes", "none"])))
        return feature, st.integers(0, 99).map(lambda seed: np.random.default_rng(seed).integers(0, 2, (11, 31)).astype(dtype))
    if kind == "scalar":
        return Scalar(dtype), arrays(dtype, ()).map(lambda array: array[()])
    if kind == "label":
        return ClassLabel(num_classes=70_000), st.sampled_from([-1, 0, 1, 127, 128, 300, 16_384, 69_999])
    if kind == "text":
        return Text(), st.text(max_size=5)
    if kind == "image":
        return Image(shape=(2, 3, 1)), hnp.arrays(np.uint8, (2, 3, 1))
    return Scalar(np.int64, optional=True), st.one_of(st.none(), st.integers(-5, 300))


@st.composite
def datasets(draw: st.DrawFn, *, examples: int = 12) -> tuple[FeaturesDict, list[dict[str, Any]]]:
    """Draw features of one to four leaves, some of them nested, and examples of them."""
    features: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for number in range(draw(st.integers(1, 4))):
        name = draw(st.sampled_from("abcdefgh")) + str(number)
        feature, strategy = draw(leaf())
        if draw(st.integers(0, 3)) == 0:
            features[name], values[name] = (
                {"in": feature, "too": Scalar(np.int16)},
                {"in": strategy, "too": st.integers(0, 300)},
            )
        else:
            features[name], values[name] = feature, strategy
    example = st.fixed_dictionaries(
        {name: st.fixed_dictionaries(value) if isinstance(value, dict) else value for name, value in values.items()}
    )
    return FeaturesDict(features), draw(st.lists(example, min_size=1, max_size=examples))


# -- other ways to write the same record ------------------------------------------------------------------------------


def rewrite(record: bytes, randomness: random.Random) -> bytes:
    """Return the same example as another conforming writer may have written it."""
    entries = []
    for key, values in parse_example(record).items():
        if values is None:
            feature = b""
        elif isinstance(values, list):
            feature = length_delimited(1, b"".join(length_delimited(1, value) for value in values))
        elif values.dtype == np.float32:
            parts = b"".join(fixed32(1, value) for value in values.tolist())
            if np.isnan(values).any() or randomness.random() < 0.3:  # struct keeps no NaN's payload
                parts = length_delimited(1, values.tobytes())
            feature = length_delimited(2, parts)
        else:
            padding = randomness.choice([0, 0, 1])
            padding = 0 if (values < 0).any() else padding
            numbers = [varint(value, padding=padding) for value in values.tolist()]
            cut = randomness.randint(0, len(numbers))
            parts = length_delimited(1, b"".join(numbers[:cut])) + b"".join(b"\x08" + number for number in numbers[cut:])
            feature = length_delimited(3, parts)
        name, value = length_delimited(1, key.encode()), length_delimited(2, feature, padding=randomness.choice([0, 0, 2]))
        pieces = [name, value]
        if randomness.random() < 0.2:
            pieces.reverse()
        if randomness.random() < 0.2:
            pieces.append(varint_field(9, 5))
        if randomness.random() < 0.2:
            # The same key before, with another value: the last one counts.
            other = length_delimited(2, length_delimited(3, length_delimited(1, b"\x07")))
            entries.append(length_delimited(1, name + other) + length_delimited(1, b"".join(pieces)))
            continue
        entries.append(length_delimited(1, b"".join(pieces)))
    if randomness.random() < 0.3:
        entries.append(length_delimited(1, length_delimited(1, b"unknown") + length_delimited(2, b"")))
    randomness.shuffle(entries)
    return length_delimited(1, b"".join(entries))


# -- the promise ------------------------------------------------------------------------------------------------------


@given(dataset=datasets(), seed=st.integers(0, 2**32), odd=st.sampled_from([0.0, 0.0, 0.2, 1.0]))
def test_columns_are_the_examples_decoded_one_by_one(
    dataset: tuple[FeaturesDict, list[dict[str, Any]]], seed: int, odd: float
) -> None:
    """Any features, any values, records as we write them and as others may; batches cut anywhere, records twice in a batch.

    The first reads learn the layouts, later ones remember them: both are the same, bit by bit, and so is a single example.
    """
    features, examples = dataset
    randomness = random.Random(seed)
    encoder = RecordEncoder(features)
    records = [encoder.encode(example) for example in examples for _ in range(randomness.choice([1, 1, 8]))]
    records = [rewrite(record, randomness) if randomness.random() < odd else record for record in records]
    plan = DecodePlan(features, len(records))
    for _ in range(3):
        indices = randomness.choices(range(len(records)), k=randomness.randint(0, 30))
        inner = sorted(randomness.choices(range(len(indices) + 1), k=randomness.randint(0, 3)))
        bounds = [0, *inner, len(indices)]
        found = decode(plan, records, indices, bounds)
        assert difference(found, decode_plainly(features, records, indices, bounds)) == ""
        if indices:
            example = features.decode_example(parse_example(records[indices[0]]))
            assert difference(plan.single.decode(records[indices[0]]), example) == ""


@given(dataset=datasets(examples=4), seed=st.integers(0, 2**32))
def test_damaged_records_are_read_as_the_parser_reads_them_or_refused(
    dataset: tuple[FeaturesDict, list[dict[str, Any]]], seed: int
) -> None:
    """Bits turned, bytes cut and added, in a third of a batch: columns are right, or one of the bad records is named."""
    features, examples = dataset
    randomness = random.Random(seed)
    encoder = RecordEncoder(features)
    records = [encoder.encode(example) for example in examples for _ in range(6)]
    plan = DecodePlan(features, len(records))
    decode(plan, records, range(len(records)), [0, len(records)])  # learns the layouts of whole records
    for place in range(0, len(records), 3):
        changed = bytearray(records[place])
        kind = randomness.randrange(4)
        if kind == 0:
            del changed[randomness.randrange(len(changed)) :]
        elif kind == 1:
            changed.insert(randomness.randrange(len(changed)), randomness.randrange(256))
        else:
            changed[randomness.randrange(len(changed))] ^= 1 << randomness.randrange(8)
        records[place] = bytes(changed)
    bad = {}
    for number, record in enumerate(records):
        try:
            features.decode_example(parse_example(record))
        except ValueError as error:
            bad[number] = error
    for fresh in (DecodePlan(features, len(records)),):
        for _ in range(2):
            try:
                found = decode(fresh, records, range(len(records)), [0, len(records)])
            except DecodeError as error:
                assert error.record in bad
                assert error.path == "shard"
            else:
                assert not bad
                assert difference(found, decode_plainly(features, records, range(len(records)), [0, len(records)])) == ""


@pytest.mark.soak
@settings(max_examples=3000)
@given(dataset=datasets(examples=30), seed=st.integers(0, 2**32))
def test_columns_are_the_examples_decoded_one_by_one_at_length(
    dataset: tuple[FeaturesDict, list[dict[str, Any]]], seed: int
) -> None:
    """The same, for longer."""
    test_columns_are_the_examples_decoded_one_by_one.hypothesis.inner_test(dataset, seed, 0.2)  # type: ignore[attr-defined]


# -- layouts ----------------------------------------------------------------------------------------------------------

MNIST = FeaturesDict({"image": Tensor(shape=(28, 28), dtype=np.uint8, encoding="bytes"), "label": ClassLabel(100_000)})


def write_mnist(labels: Sequence[int]) -> list[bytes]:
    images = np.random.default_rng(0).integers(0, 256, (len(labels), 28, 28), dtype=np.uint8)
    return [
        serialize_example({"image": [image.tobytes()], "label": np.array([label])})
        for image, label in zip(images, labels, strict=True)
    ]


def count_parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets an item for every record that is parsed rather than cut."""
    parsed: list[int] = []

    def watched(record: bytes) -> Any:
        parsed.append(len(record))
        return parse_example(record)

    monkeypatch.setattr("arrayfeed.datasource.example.single.parse_example", watched)
    return parsed


def test_labels_of_any_varint_length_mix_in_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """One, two, three and ten bytes, in any order: four layouts, learnt once; after that no record is parsed."""
    labels = [0, 127, 128, 16_383, 16_384, 99_999, -1] * 20
    random.Random(0).shuffle(labels)
    records = write_mnist(labels)
    plan = DecodePlan(MNIST, len(records))
    parsed = count_parsed(monkeypatch)
    for start in (0, 3):
        found = decode(plan, records, range(start, 140), range(0, 141 - start, 20 if start == 0 else 137))
        assert np.concatenate([batch["label"] for batch in found]).tolist() == labels[start:]

    assert parsed == []
    assert difference(found, decode_plainly(MNIST, records, range(3, 140), [0, 137])) == ""


def test_a_record_is_compared_with_layouts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a record looks like is remembered: its second epoch is a look into an array."""
    records = write_mnist([1, 200] * 50)
    plan = DecodePlan(MNIST, len(records))
    decode(plan, records, range(100), [0, 100])
    monkeypatch.delattr(Layout, "matches")

    (batch,) = decode(plan, records, range(99, -1, -1), [0, 100])
    assert batch["label"].tolist() == [200, 1] * 50


def test_a_batch_of_a_few_records_is_parsed_until_its_layout_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing a layout costs as much as parsing a few; what a larger batch has learnt serves small ones too."""
    records = write_mnist(range(100))
    plan = DecodePlan(MNIST, len(records))
    parsed = count_parsed(monkeypatch)
    decode(plan, records, range(4), [0, 4])
    assert len(parsed) == 4
    decode(plan, records, range(10, 60), [0, 50])
    decode(plan, records, range(60, 62), [0, 2])

    assert len(parsed) == 4


def test_layouts_past_their_number_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that are hardly alike cost no memory for layouts, and come out right."""
    features = FeaturesDict({"x": Tensor(shape=(9,), dtype=np.int64)})
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2**63 - 1, (600, 9)) >> rng.integers(0, 63, (600, 9))
    records = [serialize_example({"x": row}) for row in rows for _ in range(5)]
    plan = DecodePlan(features, len(records))
    for _ in range(2):
        (batch,) = decode(plan, records, range(3000), [0, 3000])
        assert (batch["x"] == rows.repeat(5, axis=0)).all()

    assert len(plan._layouts) == 64


def test_large_arrays_are_gathered_batch_by_batch() -> None:
    """Of several layouts in a run, too, and each into memory of its own."""
    labels = list(range(100, 160))
    records = write_mnist(labels)
    plan = DecodePlan(MNIST, len(records))
    found = decode(plan, records, range(60), range(0, 61, 10))

    assert difference(found, decode_plainly(MNIST, records, range(60), range(0, 61, 10))) == ""
    roots = {id(batch["image"].base if batch["image"].base is not None else batch["image"]) for batch in found}
    assert len(roots) == 6


def test_records_of_another_size_under_the_same_features_are_refused() -> None:
    """A pixel too few or too many in every record: no layout takes it for an image."""
    for size in (783, 785):
        records = [serialize_example({"image": [bytes(size)], "label": np.array([1])})] * 20
        with pytest.raises(DecodeError, match=r"feature 'image': shape \(28, 28\) expected, the record has") as caught:
            decode(DecodePlan(MNIST, 20), records, range(20), [0, 20])
        assert (caught.value.path, caught.value.record) == ("shard", 0)


def test_threads_may_share_a_plan_that_is_still_learning() -> None:
    """All of them read all records in an order of their own, from the first moment on."""
    labels = [int(label) for label in np.random.default_rng(1).choice([1, 200, 20_000, 99_999, -1], 400)]
    records = write_mnist(labels)
    for _ in range(5):
        plan = DecodePlan(MNIST, len(records))
        wrong: list[str] = []
        start = threading.Barrier(6)

        def read(seed: int, plan: DecodePlan = plan, wrong: list[str] = wrong, start: Any = start) -> None:
            order = np.random.default_rng(seed).permutation(400)
            start.wait()
            for first in range(0, 400, 40):
                (batch,) = decode(plan, records, order[first : first + 40].tolist(), [0, 40])
                if batch["label"].tolist() != [labels[index] for index in order[first : first + 40]]:
                    wrong.append(f"{seed} {first}")

        threads = [threading.Thread(target=read, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []


# -- errors -----------------------------------------------------------------------------------------------------------

SMALL = FeaturesDict(
    {"flag": Scalar(np.bool_), "byte": Scalar(np.uint8), "bits": Tensor(shape=(4,), dtype=np.bool_, encoding="bytes")}
)
GOOD: dict[str, Any] = {"flag": np.array([1]), "byte": np.array([7]), "bits": [b"\0\1\1\0"]}
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "a missing key": ({"flag": np.array([1]), "byte": np.array([7])}, "feature 'bits': the record has no value for it"),
    "another kind": (GOOD | {"byte": [b"7"]}, "feature 'byte': a list of int64 expected, the record has 1 values of bytes"),
    "two values": (GOOD | {"byte": np.array([7, 8])}, "feature 'byte': one value expected, the record has 2"),
    "no value": (GOOD | {"byte": np.empty(0, np.int64)}, "feature 'byte'"),
    "out of range": (GOOD | {"byte": np.array([256])}, "feature 'byte': 256 is no uint8"),
    "negative": (GOOD | {"byte": np.array([-1])}, "feature 'byte': -1 is no uint8"),
    "a number that is no bool": (GOOD | {"flag": np.array([2])}, "feature 'flag': 2 is no bool"),
    "a byte that is no bool": (GOOD | {"bits": [b"\0\1\2\0"]}, "feature 'bits': a byte that is neither 0 nor 1"),
    "bytes too few": (GOOD | {"bits": [b"\0"]}, r"feature 'bits': shape \(4,\) expected, the record has 1"),
    "two byte strings": (GOOD | {"bits": [b"\0\1\1\0"] * 2}, "feature 'bits': one bytes value expected, the record has 2"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("count", [1, 20])
def test_the_bad_record_of_a_batch_is_named(name: str, count: int) -> None:
    """Feature, file and record, the same in a batch as alone; the good ones beside it can still be read."""
    values, message = BAD[name]
    bad = serialize_example(values)
    records = [serialize_example(GOOD)] * 30 + [bad] * count
    plan = DecodePlan(SMALL, len(records))
    with pytest.raises(DecodeError, match=message) as alone:
        plan.single.decode(bad)
    for _ in range(2):
        with pytest.raises(DecodeError, match=message) as caught:
            decode(plan, records, range(len(records)), [0, 10, len(records)])
        assert caught.value.message == alone.value.message
        assert (caught.value.path, caught.value.record) == ("shard", 30)

    assert decode(plan, records, range(30), [0, 30])[0]["byte"].tolist() == [7] * 30


def test_what_is_no_example_is_named() -> None:
    """The parser's own reason is in the message."""
    records = [serialize_example(GOOD), b"\xff" * 9]
    with pytest.raises(DecodeError, match=r"no tf\.train\.Example") as caught:
        decode(DecodePlan(SMALL, 2), records, [0, 1], [0, 2])

    assert caught.value.record == 1


# -- written by TFDS --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["numbers/small/1.2.0", "numbers/small/1.10.0", "every_feature/1.0.0"])
def test_records_that_tensorflow_wrote_come_as_columns(name: str) -> None:
    """Each of them, several times in a batch. Two of every feature hold ragged arrays in one example, and make no column."""
    ragged = {"sequence_bytes", "sequence_zlib"}
    features = [feature for feature in arrayfeed.open(FIXTURES / name, split="train").features if feature not in ragged]
    for source in arrayfeed.open(FIXTURES / name, features=features, channels="declared").values():
        for index in range(len(source)):
            batch = source.read_batch([index] * 7)
            for column, value in zip(flatten(batch), flatten(source[index]), strict=True):
                assert len(column) == 7
                assert all(difference(row, in_column(value, column)) == "" for row in column)


def test_images_of_another_shape_than_promised_name_a_record() -> None:
    """TFDS gives an image the channels that its file has. A column has those of its feature, or says which record has not."""
    source = arrayfeed.open(FIXTURES / "every_feature/1.0.0", split="train")
    with pytest.raises(DecodeError, match=r"shape \(None, None, 3\) expected, the records have \(10, 13, 4\)") as caught:
        source.read_batch([1, 1])

    assert (caught.value.path, caught.value.record) == source.records.locate(1)


def test_layouts_serve_records_that_tensorflow_wrote() -> None:
    """They are written as usual."""
    for source in arrayfeed.open(FIXTURES / "numbers/small/1.2.0").values():
        assert all(Layout.of(record) is not None for record in source.records)


def in_column(value: Any, column: Any) -> Any:
    """Return a value as a row of a column has it: an array where that has the dimensions; an empty list has none itself."""
    if column.dtype != object:
        return np.asarray(value, column.dtype).reshape(column.shape[1:])[()]
    if column.ndim == 1:
        return value
    row = np.empty(column.shape[1:], object)
    row[...] = value
    return row


def flatten(value: Any) -> list[Any]:
    """Return what the nested dicts of an example, or of its columns, hold."""
    return [leaf for part in value.values() for leaf in flatten(part)] if isinstance(value, dict) else [value]
