"""Damaged records of every feature: a value, or DecodeError naming the feature; nothing else, and at once."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from array_record.python.array_record_module import ArrayRecordReader

from arrayfeed.datasource.errors import DecodeError
from arrayfeed.datasource.example.wire import WireError, WireValues, parse_example
from arrayfeed.datasource.features import Feature, FeaturesDict, NestedExamples

FIXTURES = Path(__file__).parents[2] / "fixtures" / "tfds"
DIRECTORIES = [FIXTURES / name / "1.0.0" for name in ("every_feature", "unreadable")]


def features_of(directory: Path) -> FeaturesDict:
    features = Feature.from_json(json.loads((directory / "features.json").read_text()))
    assert isinstance(features, FeaturesDict)
    return features


def records_of(directory: Path) -> list[bytes]:
    (path,) = directory.glob("*.array_record-*")
    return list(ArrayRecordReader(str(path)).read_all())


def touch(value: Any) -> None:
    """Decode what is decoded when it is looked at."""
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, (list, NestedExamples)) else ():
        touch(item)


INTEGERS = [-1, 0, 1, 255, 256, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63)]


def damage(wire: dict[str, WireValues], key: str, rng: random.Random) -> WireValues:
    """Return another list for ``key``."""
    values = wire[key]
    if rng.random() < 0.2:
        return rng.choice([None, *wire.values()])
    if isinstance(values, list):
        if not values or rng.random() < 0.2:
            return rng.choice([[], [b""], [*values, b""], values * 2])
        place = rng.randrange(len(values))
        data = bytearray(values[place])
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(data) + 1)
            match rng.randrange(3):
                case 0 if at < len(data):
                    data[at] = rng.randrange(256)
                case 1:
                    del data[at : at + rng.choice([1, 4, 1000])]
                case _:
                    data[at:at] = rng.randbytes(rng.randrange(1, 5))
        return [*values[:place], bytes(data), *values[place + 1 :]]
    if isinstance(values, np.ndarray) and values.size:
        changed = values.copy()
        changed[rng.randrange(changed.size)] = rng.choice(INTEGERS)
        return rng.choice([changed, values[:-1], np.concatenate([values, values])])
    return rng.choice([None, np.ones(1, np.int64), np.ones(1, np.float32)])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("directory", DIRECTORIES, ids=["every_feature", "unreadable"])
def test_a_damaged_list_gives_a_value_or_an_error_by_name(
    directory: Path, seed: int, capfd: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(seed)
    features = features_of(directory)
    alone = {name: FeaturesDict({name: features[name]}) for name in features}
    owners = {key: name for name, one in alone.items() for leaf in one.leaves() for key in leaf.keys}
    wires = [parse_example(record) for record in records_of(directory)]
    outcomes = {"value": 0, "error": 0}
    for _ in range(1_500):
        wire = dict(rng.choice(wires))
        key = rng.choice([key for key in wire if key in owners])
        wire[key] = damage(wire, key, rng)
        name = owners[key]
        try:
            touch(alone[name].decode_example(wire))
        except DecodeError as error:
            assert f"feature '{name}" in str(error)
            outcomes["error"] += 1
        else:
            outcomes["value"] += 1
    assert min(outcomes.values()) > 100
    capfd.readouterr()  # What libpng and others print about damaged images.


@pytest.mark.parametrize("directory", DIRECTORIES, ids=["every_feature", "unreadable"])
def test_a_damaged_record_gives_an_example_or_an_error(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Bytes changed, cut out or put in anywhere: the parser or a feature says what is wrong."""
    rng = random.Random(0)
    features = features_of(directory)
    records = records_of(directory)
    outcomes = {"value": 0, "error": 0}
    for _ in range(300):
        record = bytearray(rng.choice(records))
        at = rng.randrange(len(record))
        match rng.randrange(3):
            case 0:
                record[at] ^= 1 << rng.randrange(8)
            case 1:
                del record[at : at + rng.randrange(1, 9)]
            case _:
                record[at:at] = rng.randbytes(rng.randrange(1, 9))
        try:
            touch(features.decode_example(parse_example(bytes(record))))
        except (DecodeError, WireError):
            outcomes["error"] += 1
        else:
            outcomes["value"] += 1
    assert min(outcomes.values()) > 3
    capfd.readouterr()
