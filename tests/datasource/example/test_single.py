"""Single records: decoded by templates just as the parser and the features decode them, or refused just as they refuse."""

from __future__ import annotations

import gc
import json
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import ml_dtypes  # noqa: F401  # makes bfloat16 known
import numpy as np
import pytest
from array_record.python.array_record_module import ArrayRecordReader

import arrayfeed
from arrayfeed.datasource.errors import DecodeError
from arrayfeed.datasource.example.entries import Entry, Heads, Kind, without_length
from arrayfeed.datasource.example.single import SingleDecoder, parse_record
from arrayfeed.datasource.example.wire import serialize_example
from arrayfeed.datasource.features import (
    BBoxFeature,
    ClassLabel,
    Dataset,
    Feature,
    FeaturesDict,
    Image,
    NestedExamples,
    Scalar,
    Sequence,
    Tensor,
    Text,
    with_decoders,
    with_options,
)
from arrayfeed.datasource.varint import decode_varint, encode_varint
from arrayfeed.datasource.writing import DatasetWriter
from arrayfeed.datasource.writing.encoder import RecordEncoder
from support.equal import difference
from support.mutate import mutate
from support.wire_writer import length_delimited, packed_floats, varint, varint_field

FIXTURES = Path(__file__).parents[2] / "fixtures" / "tfds"
INTEGERS = "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()


# -- the oracle -------------------------------------------------------------------------------------------------------


def outcome(decode: Callable[[bytes], Any], record: bytes) -> Any:
    """Return the example, or the error, as something that ``difference`` compares."""
    try:
        example = decode(record)
        return {"example": looked_at(example)}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def looked_at(value: Any) -> Any:
    """Return ``value`` with what is decoded on demand decoded."""
    if isinstance(value, dict):
        return {name: looked_at(item) for name, item in value.items()}
    if isinstance(value, (list, NestedExamples)):
        return [type(value).__name__, *map(looked_at, value)]
    return value


def plainly(features: FeaturesDict) -> Callable[[bytes], Any]:
    return lambda record: features.decode_example(parse_record(record))


def assert_same(decoder: SingleDecoder, features: FeaturesDict, record: bytes) -> bool:
    """Compare, and return whether the record was decoded rather than refused."""
    expected = outcome(plainly(features), record)
    assert difference(outcome(decoder.decode, record), expected) == "", record.hex()
    assert difference(outcome(lambda _: decoder.decode(memoryview(record)), record), expected) == "", record.hex()
    return "example" in expected


def by_template(decoder: SingleDecoder, record: bytes) -> bool:
    return any(template.decode(record) is not None for template in decoder.templates)


# -- records ----------------------------------------------------------------------------------------------------------

FEATURES = FeaturesDict(
    {
        **{dtype: Scalar(dtype) for dtype in [*INTEGERS, "bool", "float16", "float32", "float64"]},
        "bbox": BBoxFeature(),
        "bfloat": Tensor(shape=(2,), dtype="bfloat16", encoding="bytes"),
        "flags": Tensor(shape=(3,), dtype=np.bool_, encoding="bytes"),
        "image": Image(shape=(None, None, 3)),
        "ints": Tensor(shape=(2, None), dtype=np.int32),
        "label": ClassLabel(300),
        "matrix": Tensor(shape=(2, 3), dtype=np.float32),
        "maybe": Scalar(np.int64, optional=True),
        "nested": {"deep": {"wide": Tensor(shape=(2,), dtype=np.float64)}, "empty": {}, "text": Text()},
        "objects": Sequence({"box": BBoxFeature(), "name": Text(), "label": ClassLabel(300)}),
        "ragged": Sequence(Sequence(np.int64)),
        "raw": Tensor(shape=(4, 2), dtype=np.uint16, encoding="bytes"),
        "shaped": Tensor(shape=(None, None), dtype=np.float32, encoding="bytes"),
        "small": Sequence(np.uint8),
        "steps": Dataset({"action": np.int32, "text": Text()}),
        "three": Sequence(np.float32, length=3),
        "tokens": Sequence(np.int64),
        "words": Tensor(shape=(None,), dtype=np.str_),
        "zipped": Tensor(shape=(3,), dtype=np.float64, encoding="zlib"),
    }
)


def draw_example(rng: random.Random) -> dict[str, Any]:
    """Return an example of ``FEATURES``, numbers of all lengths among it."""
    numbers = np.random.default_rng(rng.randrange(1 << 32))

    def integer(dtype: str) -> int:
        low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        return rng.choice([low, high, rng.randint(low, high), rng.randrange(128), rng.randrange(128), min(high, 300)])

    count = rng.randrange(4)
    corners = np.sort(numbers.random((5, 2, 2), dtype=np.float32), axis=1).reshape(5, 4)
    return {
        **{dtype: integer(dtype) for dtype in INTEGERS},
        "bool": rng.random() < 0.5,
        "float16": np.float16(rng.choice([0.0, -0.0, 1.5, np.inf, np.nan, rng.random()])),
        "float32": np.float32(rng.choice([-0.0, np.inf, np.nan, rng.random()])),
        "float64": rng.random(),
        "bbox": corners[4],
        "bfloat": np.array([1.5, rng.random()], "bfloat16"),
        "flags": numbers.random(3) < 0.5,
        "image": numbers.integers(0, 256, (rng.randrange(1, 4), 3, 3), dtype=np.uint8),
        "ints": numbers.integers(-9, 300, (2, count)).astype(np.int32),
        "label": rng.randrange(-1, 300),
        "matrix": numbers.random((2, 3), dtype=np.float32),
        "maybe": rng.choice([None, 3, -3]),
        "nested": {"deep": {"wide": numbers.random(2)}, "empty": {}, "text": rng.choice(["", "a text", "ü" * 100])},
        "objects": {
            "box": list(corners[:count]),
            "name": ["x" * rng.randrange(3) for _ in range(count)],
            "label": [rng.randrange(300) for _ in range(count)],
        },
        "ragged": [list(range(100, 100 + rng.randrange(60))) for _ in range(count)],
        "raw": numbers.integers(0, 1 << 16, (4, 2)).astype(np.uint16),
        "shaped": numbers.random((count, 2), dtype=np.float32),
        "small": numbers.integers(0, 256, count).tolist(),
        "steps": [{"action": -step, "text": "s" * step} for step in range(count)],
        "three": numbers.random(3, dtype=np.float32),
        "tokens": numbers.integers(0, 100_000, rng.randrange(40)).tolist(),
        "words": ["w"] * count,
        "zipped": numbers.random(3),
    }


def shuffled(record: bytes, rng: random.Random) -> bytes:
    """Return the same record with its keys in another order, as another process may write them."""
    wire = list(parse_record(record).items())
    rng.shuffle(wire)
    entries = (serialize_example({key: values}) for key, values in wire)
    return length_delimited(
        1, b"".join(entry[2:] if entry[1] < 128 else entry[2 + (entry[2] > 127) + 1 :] for entry in entries)
    )


def damaged(record: bytes, rng: random.Random) -> bytes:
    """Return a record whose lists are not what they were, or whose bytes are not."""
    if rng.random() < 0.6:
        return mutate(record, rng)
    wire = dict(parse_record(record))
    key = rng.choice(list(wire))
    values = wire[key]
    match rng.randrange(5):
        case 0:
            del wire[key]
        case 1:
            wire[key] = rng.choice(list(wire.values()))
        case 2 if isinstance(values, list):
            wire[key] = rng.choice([[], [b""], [*values, b"x"], [mutate(value, rng) for value in values]])
        case 3 if isinstance(values, np.ndarray):
            wire[key] = rng.choice([values[:-1], np.concatenate([values, values]), values[:0]])
        case _:
            wire[key] = np.array([rng.choice([-1, 2, 128, 256, 1 << 20, -(1 << 63), (1 << 63) - 1])])
    return serialize_example(wire)


def learnt(features: FeaturesDict, records: list[bytes]) -> SingleDecoder:
    """Return a decoder that has seen good records."""
    decoder = SingleDecoder(features)
    for _ in range(3):
        for record in records:
            assert assert_same(decoder, features, record)
    return decoder


# -- the promise ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_examples_are_those_of_the_parser(seed: int) -> None:
    """Of every kind of feature, all of them or some, from records written in two orders; nearly all by templates."""
    rng = random.Random(seed)
    encoder = RecordEncoder(FEATURES)
    records = [encoder.encode(draw_example(rng)) for _ in range(60)]
    order = rng.randrange(1 << 32)
    records += [shuffled(record, random.Random(order)) for record in records]
    for features in (FEATURES, FEATURES.select(rng.sample(sorted(FEATURES), 5))):
        decoder = learnt(features, records)
        assert np.mean([by_template(decoder, record) for record in records]) > 0.9


@pytest.mark.parametrize("name", ["every_feature", "unreadable"])
def test_records_that_tfds_wrote_are_decoded_by_templates(name: str) -> None:
    """Every feature that TFDS has, ten at a time and all at once."""
    directory = FIXTURES / name / "1.0.0"
    features = Feature.from_json(json.loads((directory / "features.json").read_text()))
    assert isinstance(features, FeaturesDict)
    (path,) = directory.glob("*.array_record-*")
    records = list(ArrayRecordReader(str(path)).read_all())
    names = sorted(features)
    for each in (features, *(features.select(names[start : start + 10]) for start in range(0, len(names), 10))):
        decoder = SingleDecoder(each)
        for record in records * 10:
            assert assert_same(decoder, each, record)
        assert all(by_template(decoder, record) for record in records)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_records_are_decoded_or_refused_as_the_parser_does(seed: int, capfd: pytest.CaptureFixture[str]) -> None:
    """Of thousands: the same value or the same error, whether the decoder has learnt from good records or from bad ones."""
    rng = random.Random(seed)
    features = [FEATURES, FEATURES.select(rng.sample(sorted(FEATURES), 2)), FEATURES.select(rng.sample(sorted(FEATURES), 6))]
    encoder = RecordEncoder(FEATURES)
    records = [encoder.encode(draw_example(rng)) for _ in range(20)]
    decoders = [learnt(each, records) for each in features]
    decoders.append(SingleDecoder(FEATURES))
    outcomes = {True: 0, False: 0}
    for _ in range(350):
        bad = damaged(rng.choice(records), rng)
        for decoder, each in zip(decoders, [*features, FEATURES], strict=True):
            outcomes[assert_same(decoder, each, bad)] += 1
    assert min(outcomes.values()) > 100
    capfd.readouterr()  # what libpng and others print about damaged images


@pytest.mark.parametrize("seed", range(4))
def test_small_records_with_every_bit_turned_are_decoded_or_refused_as_the_parser_does(seed: int) -> None:
    """Records of one and of two varying entries: every byte of them is set to each of 20 values."""
    rng = random.Random(seed)
    for features in (
        FeaturesDict({"image": Text(), "label": ClassLabel(10)}),
        FeaturesDict({"a": Sequence(np.int64), "b": Sequence(Text()), "f": Scalar(np.float16), "z": Scalar(np.bool_)}),
        FeaturesDict({"only": Tensor(shape=(2,), dtype=np.float32)}),
    ):
        examples = [
            {
                "image": "i" * rng.choice([0, 3, 126, 130]),
                "label": rng.randrange(10),
                "a": [rng.randrange(1 << 20)] * rng.randrange(3),
                "b": ["b"] * rng.randrange(3),
                "f": np.float16(1.5),
                "z": True,
                "only": np.array([1, 2], np.float32),
            }
            for _ in range(20)
        ]
        encoder = RecordEncoder(features)
        records = [encoder.encode({name: example[name] for name in features}) for example in examples]
        decoder = learnt(features, records)
        assert all(by_template(decoder, record) for record in records)
        record = records[-1]
        for at in range(len(record)):
            for byte in (0, 1, 2, 10, 18, 26, 127, 128, 129, 255, *rng.sample(range(256), 10)):
                assert_same(decoder, features, record[:at] + bytes([byte]) + record[at + 1 :])
        for at in range(len(record)):
            assert_same(decoder, features, record[:at])
            assert_same(decoder, features, record + record[:at])


# -- details ----------------------------------------------------------------------------------------------------------


def entry(key: bytes, kind: int, content: bytes) -> bytes:
    return length_delimited(1, length_delimited(1, key) + length_delimited(2, length_delimited(kind, content)))


@pytest.mark.parametrize("dtype", [*INTEGERS, "bool", "float16", "float32", "float64", "str"])
def test_scalars_of_every_dtype_are_those_of_the_parser(dtype: str) -> None:
    """Values at all bounds, of all lengths, and lists that hold none, two, or one that is cut off or too long."""
    features = FeaturesDict({"k": Scalar(dtype), "other": Text()})
    kind = 3 if dtype in INTEGERS or dtype == "bool" else 1 if dtype == "str" else 2
    bits = np.random.default_rng(0).integers(0, 1 << 32, 80).astype(np.uint32).view(np.float32).tolist()
    ints = [value for power in range(0, 65, 7) for value in ((1 << power) - 1, (1 << power) % (1 << 64))]
    contents = {
        1: [length_delimited(1, bytes(size)) for size in (0, 1, 127, 128)] + [b"", length_delimited(1, b"a") * 2],
        2: [length_delimited(1, packed_floats([value])) for value in [0.0, -0.0, 65504.0, 65519.0, 65520.0, 1e-8, *bits]]
        + [length_delimited(1, packed_floats(values)) for values in ([], [1.0, 2.0])],
        3: [length_delimited(1, varint(value)) for value in ints]
        + [
            length_delimited(1, content)
            for content in (b"", b"\x80", b"\x01\x01", b"\x80" * 9 + b"\x02", b"\x81" * 10 + b"\x00")
        ]
        + [length_delimited(1, b"\x81\x00"), length_delimited(1, b"\xff" * 9 + b"\x03")],
    }
    decoded = 0
    for varying in (False, True):
        for content in contents[kind]:
            good = {1: length_delimited(1, b"a"), 2: length_delimited(1, bytes(4)), 3: length_delimited(1, b"\x01")}[kind]
            decoder = SingleDecoder(features)
            for size in range(20):
                first = content if size % 2 and varying else good
                record = length_delimited(1, entry(b"k", kind, first) + entry(b"other", 1, length_delimited(1, bytes(size))))
                assert_same(decoder, features, record)
            record = length_delimited(1, entry(b"k", kind, content) + entry(b"other", 1, length_delimited(1, b"?")))
            decoded += assert_same(decoder, features, record)
    assert decoded > 3


def test_what_is_not_asked_for_must_still_be_a_record() -> None:
    """The parser refuses a list of which nothing is wanted, if it is none; so do templates, which pass over it."""
    features = FeaturesDict({"wanted": Scalar(np.int64)})
    others: list[dict[str, Any]] = [{"f": np.zeros(n, np.float32), "i": np.arange(n) * 100, "s": [b"s"] * n} for n in range(20)]
    records = [serialize_example({**other, "b": [b"b"], "wanted": np.array([5])}) for other in others]
    decoder = learnt(features, records)
    assert by_template(decoder, records[7])

    assert b"\xd8\x04" in records[7], "600, the last integer"
    assert not by_template(decoder, records[7].replace(b"\xd8\x04", b"\xd8\x84"))
    rng = random.Random(0)
    for _ in range(500):
        assert_same(decoder, features, mutate(rng.choice(records), rng))


def test_a_record_in_any_conforming_form_is_left_to_the_parser() -> None:
    """Wasteful varints, unknown fields and unpacked numbers are decoded, after templates were learnt and before."""
    features = FeaturesDict({"i": Tensor(shape=(2,), dtype=np.int64), "s": Text()})
    good = [serialize_example({"i": np.array([number, 2]), "s": [b"s" * number]}) for number in range(20)]
    text = entry(b"s", 1, length_delimited(1, b"sss"))
    forms = [
        length_delimited(1, entry(b"i", 3, varint_field(1, 3) + varint_field(1, 2)) + text),
        length_delimited(1, entry(b"i", 3, length_delimited(1, b"\x03\x02", padding=1)) + text),
        length_delimited(1, entry(b"i", 3, length_delimited(1, b"\x03\x02")) + text) + varint_field(9, 1),
        length_delimited(1, entry(b"i", 3, length_delimited(1, b"\x03\x02")) + text, padding=2),
        length_delimited(1, entry(b"i", 3, length_delimited(1, b"\x03\x82\x00")) + text),
        length_delimited(1, text + text + entry(b"i", 3, length_delimited(1, b"\x03\x02"))),
    ]
    for records in (good + forms, forms * 10 + good):
        decoder = learnt(features, records)
        assert sum(by_template(decoder, record) for record in records) >= 15


def test_options_and_decoders_are_heeded() -> None:
    """Texts as str, sequences as arrays, channels as declared, values as stored or by a function."""
    rng = random.Random(0)
    encoder = RecordEncoder(FEATURES)
    records = [encoder.encode(draw_example(rng)) for _ in range(20)]
    for features in (
        with_options(FEATURES, text="str", sequences="array", channels="declared"),
        with_decoders(
            FEATURES, {"image": lambda data, feature: len(data), "nested": {"text": lambda data, feature: data[::-1]}}
        ),
    ):
        decoder = learnt(features, records)
        assert all(by_template(decoder, record) for record in records)
    with pytest.raises(DecodeError, match="'image'"):
        learnt(FEATURES, records).decode(records[0].replace(b"IHDR", b"IHDX"))


def test_arrays_are_as_writable_as_those_of_the_parser() -> None:
    """And changing one changes no other example."""
    features = FeaturesDict(
        {"f": Tensor(shape=(2,), dtype=np.float32), "r": Tensor(shape=(2,), dtype=np.int8, encoding="bytes")}
    )
    record = RecordEncoder(features).encode({"f": np.ones(2, np.float32), "r": np.ones(2, np.int8)})
    decoder = learnt(features, [record] * 10)
    assert by_template(decoder, record)

    first, second, plain = decoder.decode(record), decoder.decode(record), plainly(features)(record)
    first["f"][:] = 7

    assert second["f"].tolist() == [1, 1]
    for name in features:
        assert first[name].flags.writeable == plain[name].flags.writeable
        assert first[name].flags.aligned and first[name].flags.c_contiguous


def test_records_that_are_all_different_cost_no_templates() -> None:
    """A data set of which no two records have their keys in one order is parsed, and stays so."""
    rng = random.Random(0)
    features = FeaturesDict({f"k{number}": Scalar(np.int64) for number in range(12)})
    record = RecordEncoder(features).encode({name: 5 for name in features})
    decoder = SingleDecoder(features)
    for _ in range(400):
        assert assert_same(decoder, features, shuffled(record, rng))
    assert len(decoder.templates) <= 8


def test_lengths_of_any_width_are_found_in_an_entry() -> None:
    """What makes a head, and what finds the payload's length in an entry's, are the inverse of each other."""
    widths = [size for power in (7, 14, 21) for size in range((1 << power) - 40, (1 << power) + 5)]
    kinds: list[tuple[Kind, bool]] = [("bytes", False), ("bytes", True), ("float", False), ("int64", False)]
    for kind, is_whole in kinds:
        one = Entry("k" * 130, kind, 0, 0, 0, is_whole)
        for size in [*range(300), *widths]:
            head = one.make_head(size)
            tail = b"\0" * size
            _, start = decode_varint(head, 1, len(head))
            assert one.payload_of(len(head) - start + size) == size
            assert Heads(one).find(b"?" + head + tail, 1) == (head, len(head), len(head) + size)
    lengths = {size + len(encode_varint(size)): size for size in [*range(20_000), *widths]}
    for total in range(-3, 20_000):
        if total in lengths:
            assert without_length(total) == lengths[total]
        else:
            with pytest.raises(ValueError, match="nothing takes"):
                without_length(total)


def test_long_records_are_decoded_in_their_place(tmp_path: Path, rng: np.random.Generator) -> None:
    """Of records of more than 16 KiB in a mapped file, nothing but pixels comes out of the mapping; all of it outlives it."""
    features: dict[str, Any] = {
        "floats": Tensor(shape=(None,), dtype=np.float32),
        "image": Image(shape=(None, None, 3)),
        "raw": Tensor(shape=(None,), dtype=np.uint8, encoding="bytes"),
        "text": Text(),
    }
    examples: list[dict[str, Any]] = [
        {
            "floats": rng.random(number, dtype=np.float32),
            "image": rng.integers(0, 256, (80 + number, 80, 3), dtype=np.uint8),
            "raw": rng.integers(0, 256, 20_000 * (number % 2), dtype=np.uint8),
            "text": bytes(rng.integers(65, 90, 30_000 + number, dtype=np.uint8)),
        }
        for number in range(20)
    ]
    with DatasetWriter(tmp_path / "long", features, codec="none") as writer:
        writer.write_all(examples)
    for io in ("mmap", "pread"):
        source = arrayfeed.open(tmp_path / "long", split="train", io=io)
        for _ in range(3):
            found = [source[number] for number in range(20)]
        source.close()
        del source
        gc.collect()
        order = sorted(range(20), key=lambda number: bytes(found[number]["text"]))
        wanted = sorted(examples, key=lambda example: bytes(example["text"]))
        for number, expected in zip(order, wanted, strict=True):
            assert difference(found[number], expected) == ""


def test_a_long_record_that_is_damaged_is_named(tmp_path: Path, rng: np.random.Generator) -> None:
    """Feature, file and record, whether it is read for the first time or again."""
    image = Image(shape=(None, None, 3))
    _, encoded = cv2.imencode(".png", rng.integers(0, 256, (100, 100, 3), dtype=np.uint8))
    good = encoded.tobytes()
    broken = good[:41] + bytes(100) + good[141:]  # what opens the compressed pixels
    with DatasetWriter(tmp_path / "images", {"image": image, "label": ClassLabel(5)}, codec="none") as writer:
        writer.write_all({"image": good if number % 5 else broken, "label": 3} for number in range(30))
    source = arrayfeed.open(tmp_path / "images", split="train")
    bad = 0
    for _ in range(3):
        for number in range(30):
            try:
                assert source[number]["image"].shape == (100, 100, 3)
            except DecodeError as error:
                bad += 1
                assert "'image'" in error.message and error.record == number
                assert error.path is not None and error.path.endswith(".array_record-00000-of-00001")
    assert bad == 18


def test_threads_may_share_a_decoder() -> None:
    """While it learns: every thread gets every example right."""
    rng = random.Random(0)
    encoder = RecordEncoder(FEATURES)
    records = [encoder.encode(draw_example(rng)) for _ in range(40)]
    expected = [looked_at(plainly(FEATURES)(record)) for record in records]
    decoder = SingleDecoder(FEATURES)
    wrong: list[str] = []

    def work(seed: int) -> None:
        places = list(range(len(records))) * 3
        random.Random(seed).shuffle(places)
        for place in places:
            wrong.extend(filter(None, [difference(looked_at(decoder.decode(records[place])), expected[place])]))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert decoder.templates
