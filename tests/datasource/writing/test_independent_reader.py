"""What is written can be read without this library: shards by array_record, the rest in thirty lines from the format's page."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from array_record.python.array_record_module import ArrayRecordReader

from arrayfeed.datasource.features import ClassLabel, Tensor, Text
from arrayfeed.datasource.writing import DatasetWriter


def varint(data: bytes, place: int) -> tuple[int, int]:
    """Return the number at ``place``, seven bits a byte, and where it ends."""
    value = shift = 0
    while True:
        byte = data[place]
        place, value, shift = place + 1, value | (byte & 127) << shift, shift + 7
        if byte < 128:
            return value, place


def fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of each field of a protobuf message; those of an example all have a length."""
    place = 0
    while place < len(data):
        tag, place = varint(data, place)
        size, place = varint(data, place)
        yield tag >> 3, data[place : place + size]
        place += size


def integers(data: bytes) -> Iterator[int]:
    place = 0
    while place < len(data):
        value, place = varint(data, place)
        yield value - (value >> 63 << 64)


def read_record(record: bytes) -> dict[str, list[Any]]:
    """Return the lists of a tf.train.Example: 1 of bytes, 2 of packed floats, 3 of packed integers."""
    example: dict[str, list[Any]] = {}
    for _, features in fields(record):
        for _, entry in fields(features):
            key, feature = dict(fields(entry))[1].decode(), dict(fields(entry))[2]
            ((kind, payload),) = fields(feature)
            values = [value for _, value in fields(payload)]
            if kind == 1:
                example[key] = values
            else:
                example[key] = list(struct.unpack(f"<{len(values[0]) // 4}f", values[0]) if kind == 2 else integers(values[0]))
    return example


@pytest.mark.parametrize("codec", ["none", "zstd", "brotli", "snappy"])
def test_thirty_lines_read_what_was_written(tmp_path: Path, rng: np.random.Generator, codec: str) -> None:
    """Names of files, lengths of shards, dtypes and shapes from the JSON; little-endian bytes in C order; lists."""
    features: dict[str, Any] = {
        "raw": Tensor(shape=(3, 4), dtype=np.float64, encoding="bytes"),
        "floats": Tensor(shape=(2,), dtype=np.float32),
        "label": ClassLabel(names=["cat", "dog"]),
        "numbers": Tensor(shape=(2,), dtype=np.int64),
        "text": Text(),
    }
    columns: dict[str, Any] = {
        "raw": rng.random((25, 3, 4)).astype(">f8"),
        "floats": rng.random((25, 2), np.float32),
        "label": rng.integers(0, 2, 25),
        "numbers": rng.integers(-(1 << 63), (1 << 63) - 1, (25, 2)),
        "text": [f"N\N{LATIN SMALL LETTER O WITH STROKE}. {number}" for number in range(25)],
    }
    with DatasetWriter(tmp_path / "things", features, codec=codec, shard_records=10) as writer:
        writer.write_columns(columns)

    info = json.loads((tmp_path / "things" / "dataset_info.json").read_text())
    (split,) = info["splits"]
    schema = json.loads((tmp_path / "things" / "features.json").read_text())["featuresDict"]["features"]["raw"]["tensor"]
    shape, dtype = [int(size) for size in schema["shape"]["dimensions"]], np.dtype(schema["dtype"]).newbyteorder("<")
    examples = []
    for number, length in enumerate(split["shardLengths"]):
        name = f"{info['name']}-{split['name']}.array_record-{number:05d}-of-{len(split['shardLengths']):05d}"
        records = ArrayRecordReader(str(tmp_path / "things" / name)).read_all()
        assert len(records) == int(length)
        examples += [read_record(record) for record in records]

    assert len(examples) == 25
    for row, example in enumerate(examples):
        np.testing.assert_array_equal(np.frombuffer(example["raw"][0], dtype).reshape(shape), columns["raw"][row])
        assert example["floats"] == columns["floats"][row].tolist()
        assert example["numbers"] == columns["numbers"][row].tolist()
        assert example["label"] == [columns["label"][row]]
        assert example["text"][0].decode() == columns["text"][row]
