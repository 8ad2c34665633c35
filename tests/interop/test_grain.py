"""Data sets that we write, read by array_record's own reader and by Grain: the same records and examples, in the same order."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import arrayfeed
from arrayfeed.datasource.features import ClassLabel, Tensor
from arrayfeed.datasource.tfds import DatasetInfo
from arrayfeed.datasource.writing import DatasetWriter
from support.equal import difference
from support.written import read_records

EVERY = Path(__file__).parents[1] / "fixtures" / "tfds" / "every_feature" / "1.0.0"

# What is the same through every layer is pickled as lists; examples inside an example compare as lists, too.
READ = """
import pickle, sys
import grain
from array_record.python.array_record_data_source import ArrayRecordDataSource
from arrayfeed.datasource.example.wire import parse_example
from arrayfeed.datasource.tfds import DatasetInfo
features = DatasetInfo.read(sys.argv[2]).features
with ArrayRecordDataSource(sys.argv[3:]) as source:
    plain = [source[k] for k in range(len(source))]
    through_grain = list(grain.MapDataset.source(source))
    decoded = list(grain.MapDataset.source(source).map(lambda record: features.decode_example(parse_example(record))))
with open(sys.argv[1], "wb") as file:
    pickle.dump((plain, through_grain, decoded), file)
"""


def check(path: Path, scratch: Path) -> None:
    """Compare what each of them reads. In a process of its own: that reader's threads survive no fork."""
    shards = sorted(map(str, path.glob("*-train.array_record*")))
    subprocess.run([sys.executable, "-c", READ, scratch / "found", path, *shards], check=True, timeout=120)
    plain, through_grain, decoded = pickle.loads((scratch / "found").read_bytes())

    assert plain == through_grain == read_records(path)["train"]
    assert difference(decoded, [*arrayfeed.open(path, split="train")]) == ""


@pytest.mark.parametrize("codec", ["none", "zstd", "brotli", "snappy"])
def test_grain_reads_what_was_written(tmp_path: Path, rng: np.random.Generator, codec: str) -> None:
    """Over several shards, under every codec."""
    features = {"x": Tensor(shape=(30,), dtype=np.uint8, encoding="bytes"), "label": ClassLabel(10)}
    with DatasetWriter(tmp_path / "data", features, codec=codec, shard_records=300) as writer:
        writer.write_columns({"x": rng.integers(0, 256, (1000, 30), dtype=np.uint8), "label": rng.integers(0, 10, 1000)})

    check(tmp_path / "data", tmp_path)


def test_grain_reads_every_feature(tmp_path: Path) -> None:
    """The examples that come through Grain's pipeline are ours."""
    examples = [*arrayfeed.open(EVERY, split="train", channels="declared")]
    for example in examples:
        example["translation_some"] = example["translation_any"] = {"en": "a", "fr": ["c", "b"]}
    with DatasetWriter(tmp_path / "data", DatasetInfo.read(EVERY).features, shard_records=2) as writer:
        writer.write_all(examples)

    check(tmp_path / "data", tmp_path)
