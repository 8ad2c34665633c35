"""Records of unlike length: columns of a batch that is decoded together are those of the records decoded one by one."""

from __future__ import annotations

import ctypes
import mmap
import random
import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from arrayfeed.datasource.example.plan import DecodePlan
from arrayfeed.datasource.example.single import parse_record
from arrayfeed.datasource.example.wire import serialize_example
from arrayfeed.datasource.features import ClassLabel, FeaturesDict, Image, Scalar, Tensor, Text, with_options
from arrayfeed.datasource.features import Sequence as Many
from arrayfeed.datasource.memory import Extents
from arrayfeed.datasource.writing.encoder import RecordEncoder
from support.decoding import assert_same, plainly, together
from support.equal import difference
from support.mutate import mutate
from support.wire_writer import length_delimited

TABLE = FeaturesDict(
    {
        "age": Scalar(np.int32),
        "balance": Scalar(np.int64),
        "big": Scalar(np.uint64),
        "city": Text(),
        "flag": Scalar(np.bool_),
        "half": Scalar(np.float16),
        "history": Tensor(shape=(3,), dtype=np.int64),
        "nested": {"weights": Tensor(shape=(2, 2), dtype=np.float32), "note": Text()},
        "raw": Tensor(shape=(5,), dtype=np.uint8, encoding="bytes"),
        "small": Scalar(np.uint8),
        "wide": Tensor(shape=(300,), dtype=np.float32),
    }
)
#: What columns are made of value by value, or only where the values of a batch are of one shape.
OTHERS = FeaturesDict(
    {
        "image": Image(shape=(None, 3, 3)),
        "label": ClassLabel(5),
        "maybe": Scalar(np.int64, optional=True),
        "tokens": Many(np.int32),
        "words": Many(Text()),
        "zipped": Tensor(shape=(2,), dtype=np.int16, encoding="zlib"),
    }
)


# -- records, and the oracle ------------------------------------------------------------------------------------------


def draw(rng: random.Random, count: int) -> dict[str, Any]:
    """Return a value for each of ``TABLE`` and ``OTHERS``; sequences are of ``count`` elements."""
    integers = [0, 1, 127, 128, 1 << 14, 1 << 40, (1 << 63) - 1]
    return {
        "age": rng.choice([0, 5, 300, -7, -(1 << 31)]),
        "balance": rng.choice([*integers, -1, -(1 << 63)]),
        "big": rng.choice([*integers, (1 << 64) - 1]),
        "city": rng.choice(["", "x", "\0", "ends\0", "ü" * 40, "y" * rng.randrange(100, 140), "z" * 300]),
        "flag": rng.random() < 0.5,
        "half": np.float16(rng.random()),
        "history": np.array([rng.choice(integers) for _ in range(3)]),
        "nested": {"weights": np.full((2, 2), rng.random(), np.float32), "note": "n" * rng.randrange(20)},
        "raw": np.frombuffer(rng.randbytes(5), np.uint8),
        "small": rng.randrange(256),
        "wide": np.full(300, rng.random(), np.float32),
        "image": np.full((2, 3, 3), rng.randrange(256), np.uint8),
        "label": rng.randrange(5),
        "maybe": rng.choice([None, 3, -3, 3000]),
        "tokens": [rng.randrange(1000) for _ in range(count)],
        "words": [rng.choice(["", "a", "word"]) for _ in range(count)],
        "zipped": np.array([rng.randrange(100), 7], np.int16),
    }


def encode(features: FeaturesDict, rng: random.Random, records: int, count: int = 2) -> list[bytes]:
    encoder = RecordEncoder(features)
    examples = [draw(rng, count) for _ in range(records)]
    return [encoder.encode({name: example[name] for name in features}) for example in examples]


def reordered(record: bytes, seed: int) -> bytes:
    """Return the same record with its keys in an order of their own."""
    wire = list(parse_record(record).items())
    random.Random(seed).shuffle(wire)
    entries = [Extents.joined([serialize_example({key: values})]).tolist()[0] for key, values in wire]
    return length_delimited(1, b"".join(strip_prefix(each) for each in entries))


def strip_prefix(record: bytes) -> bytes:
    return record[next(place for place in range(1, 5) if record[place] < 128) + 1 :]


def goes_together(plan: DecodePlan, records: Sequence[bytes]) -> bool:
    """Whether none of the records is left to the parser."""
    _, odd = plan._varied.find(Extents.joined(records))
    return not odd.size


# -- the promise ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_columns_are_those_of_records_decoded_one_by_one(seed: int) -> None:
    """Numbers and texts of all lengths, in one batch and in several; some of the features, all, or texts as str."""
    rng = random.Random(seed)
    records = encode(TABLE, rng, 300)
    some = TABLE.select(["city", *rng.sample(sorted(set(TABLE) - {"city"}), 4)])
    for features in (TABLE, some, with_options(TABLE, text="str")):
        plan = DecodePlan(features, len(records))
        assert assert_same(plan, features, records, [0, 7, 8, 130, 300])
        assert assert_same(plan, features, records[::-1], [0, 300])
        assert goes_together(plan, records)


@pytest.mark.parametrize("seed", range(3))
def test_values_of_other_shapes_are_stacked_batch_by_batch(seed: int) -> None:
    """Sequences as long as their batch's; images, lists of texts, what may be missing. Of unlike lengths they are refused."""
    rng = random.Random(seed)
    records = [*encode(OTHERS, rng, 20, 3), *encode(OTHERS, rng, 20, 0), *encode(OTHERS, rng, 20, 2)]
    plan = DecodePlan(OTHERS, len(records))

    assert assert_same(plan, OTHERS, records, [0, 20, 40, 60])
    assert not assert_same(plan, OTHERS, records, [0, 30, 60])


@pytest.mark.parametrize("seed", range(2))
def test_keys_may_come_in_several_orders(seed: int) -> None:
    """Rows stay where they were asked for, those of a few orders that are decoded together, and those of many more."""
    rng = random.Random(seed)
    records = encode(TABLE, rng, 200)
    for orders in (2, 5, 100):
        shuffled = [reordered(record, rng.randrange(orders)) for record in records]
        plan = DecodePlan(TABLE, len(records))
        assert assert_same(plan, TABLE, shuffled, [0, 90, 200])
        assert assert_same(plan, TABLE, shuffled, [0, 90, 200])
        assert goes_together(plan, shuffled) == (orders < 100)


@pytest.mark.parametrize("seed", range(2))
def test_every_byte_of_a_record_may_be_any_other(seed: int) -> None:
    """One damaged record among good ones, each of its bytes set to several values by turns, and cut at every place: the same
    columns, or the same error, which names the record."""
    rng = random.Random(seed)
    names = ["age", "balance", "city", "half", "history", "raw"] if seed else ["city", "nested", "small", "big", "flag"]
    features = TABLE.select(names)
    records = encode(features, rng, 12)
    records[5] = min(records, key=len)
    plan = DecodePlan(features, len(records))
    assert assert_same(plan, features, records * 10, [0, 60, 120])
    victim, outcomes = records[5], {True: 0, False: 0}
    damaged = [
        victim[:at] + bytes([byte]) + victim[at + 1 :]
        for at in range(len(victim))
        for byte in {0, 10, 18, 26, 127, 128, 255, victim[at] ^ 1, victim[at] ^ 128, (victim[at] + 1) % 256}
    ]
    damaged += [victim[:at] for at in range(len(victim))] + [victim + victim[:at] for at in range(1, len(victim))]
    damaged += [mutate(victim, rng) for _ in range(200)]
    for bad in damaged:
        outcomes[assert_same(plan, features, [*records[:5], bad, *records[6:]], [0, 4, 12])] += 1
    assert min(outcomes.values()) > 100


@pytest.mark.parametrize("seed", range(2))
def test_what_is_learnt_from_damaged_records_does_no_harm(seed: int) -> None:
    """A plan that has seen nothing but damaged records decodes and refuses all the same."""
    rng = random.Random(seed)
    records = encode(TABLE, rng, 10)
    plan = DecodePlan(TABLE, len(records))
    for _ in range(150):
        assert_same(plan, TABLE, [mutate(record, rng) if rng.random() < 0.5 else record for record in records], [0, 10])
    assert assert_same(plan, TABLE, records, [0, 10])


def test_what_is_not_asked_for_must_still_be_a_record() -> None:
    """The parser refuses a list of which nothing is wanted, if it is none."""
    features = FeaturesDict({"wanted": Text()})
    lists: list[dict[str, Any]] = [{"f": np.zeros(n, np.float32), "i": np.arange(n) * 100, "s": [b"s"] * n} for n in range(20)]
    records = [serialize_example({**each, "b": [b"b"], "wanted": [b"w"]}) for each in lists]
    plan = DecodePlan(features, len(records))
    assert assert_same(plan, features, records, [0, 20])
    assert goes_together(plan, records)

    assert b"\xd8\x04" in records[7], "600, the last integer"
    assert b"\n\x01s\n\x01s" in records[7], "two strings of a list"
    for bad in (records[7].replace(b"\xd8\x04", b"\xd8\x84"), records[7].replace(b"\n\x01s\n\x01s", b"\n\x02s\n\x01s")):
        assert not assert_same(plan, features, [*records[:7], bad, *records[8:]], [0, 20])


@pytest.mark.skipif(sys.platform != "linux", reason="pages that cannot be read, by mprotect")
@pytest.mark.parametrize("at_end", [False, True])
def test_nothing_outside_of_a_record_is_read(at_end: bool) -> None:
    """Damaged records lie against a page that must not be touched, before it or behind it: whoever does so dies of it."""
    rng = random.Random(7)
    features = TABLE.select(["age", "balance", "city", "history", "small"])
    good = encode(features, rng, 40)
    plan = DecodePlan(features, len(good))
    assert assert_same(plan, features, good, [0, 40])
    held = Extents.joined(good[1:])
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 3 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None)
    for wall in (start, start + 2 * page):
        assert libc.mprotect(ctypes.c_void_p(wall), page, 0) == 0
    for _ in range(2000):
        bad = mutate(good[0], rng) if rng.random() < 0.8 else good[0][: rng.randrange(1, len(good[0]))]
        place = 2 * page - len(bad) if at_end else page
        memory[place : place + len(bad)] = bad
        alone = Extents(start, np.array([place]), np.array([len(bad)]), 3 * page, len(bad), (memory,))
        records = Extents.merged(40, [(np.array([3]), alone), (np.delete(np.arange(40), 3), held)])
        found = plan._varied.find(records)
        assert sum(part[0].size for part in found[0]) + found[1].size == 40
        try:
            plan._varied.decode(records, [0, 40])
        except ValueError:
            pass


def test_threads_learn_side_by_side() -> None:
    """Four threads decode with one plan that knows nothing, records of several orders, and get the same."""
    rng = random.Random(0)
    records = [reordered(record, rng.randrange(3)) for record in encode(TABLE, rng, 64)]
    expected = plainly(TABLE, records, [0, 64])
    for _ in range(5):
        plan = DecodePlan(TABLE, len(records))
        wrong: list[str] = []

        def work(plan: DecodePlan = plan, wrong: list[str] = wrong) -> None:
            for _ in range(3):
                wrong.append(difference(together(plan, records, [0, 64]), expected))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == [""] * 12
