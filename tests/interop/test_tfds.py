"""Data sets that we write, read by TensorFlow Datasets' own data source: the same examples, types included."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arrayfeed.datasource.features import ClassLabel, Image, Scalar, Tensor, Text
from arrayfeed.datasource.features.features_dict import FeatureLike
from arrayfeed.datasource.writing import DatasetWriter
from support.written import read_examples

READ = """
import pickle, sys
import tensorflow_datasets as tfds
builder = tfds.builder_from_directory(sys.argv[1])
found = {name: list(builder.as_data_source(split=name)) for name in builder.info.splits}
said = {
    "names": builder.info.features["label"].names,
    "keys": builder.info.supervised_keys,
    "metadata": dict(builder.info.metadata),
    "version": str(builder.info.version),
    "description": builder.info.description,
    "num_examples": {name: split.num_examples for name, split in builder.info.splits.items()},
    "sliced": [example["label"] for example in builder.as_data_source(split="train[1shard:-1shard]+test")],
}
with open(sys.argv[2], "wb") as file:
    pickle.dump((found, said), file)
"""

FEATURES: dict[str, FeatureLike] = {
    "image": Image(shape=(5, 4, 3)),
    "gray": Image(shape=(None, None, 1), dtype=np.uint16),
    "label": ClassLabel(names=["cat", "dog", "Ä rose"]),
    "text": Text(),
    "nested": {"flag": np.bool_, "deep": {"wide": Scalar(np.int64), "half": Scalar(np.float16)}},
    "unsigned": Scalar(np.uint64),
    "plain": Tensor(shape=(2, 3), dtype=np.int32),
    "float": Tensor(shape=(None, 2), dtype=np.float32),
    "raw": Tensor(shape=(28, 28), dtype=np.uint8, encoding="bytes"),
    "zipped": Tensor(shape=(3,), dtype=np.float64, encoding="zlib"),
    "shaped": Tensor(shape=(None, None), dtype=np.int16, encoding="bytes"),
    "words": Tensor(shape=(None,), dtype=np.str_),
}


def make_example(number: int, rng: np.random.Generator) -> dict[str, Any]:
    return {
        "image": rng.integers(0, 256, (5, 4, 3), dtype=np.uint8),
        "gray": rng.integers(0, 1 << 16, (number % 3 + 1, 4, 1), dtype=np.uint16),
        "label": number % 3,
        "text": f"No {number}: \N{SNOWMAN}",
        "nested": {"flag": number % 2 == 0, "deep": {"wide": -number << 40, "half": np.float16(number / 8)}},
        "unsigned": (1 << 64) - 1 - number,
        "plain": rng.integers(-(1 << 31), 1 << 31, (2, 3)).astype(np.int32),
        "float": rng.random((number % 4, 2), dtype=np.float32),
        "raw": rng.integers(0, 256, (28, 28), dtype=np.uint8),
        "zipped": rng.random(3),
        # TFDS reads such a tensor only if it has more bytes than axes.
        "shaped": rng.integers(0, 9, (number % 2 + 1, 3), dtype=np.int16),
        "words": ["a", "", "ö"][: number % 4],
    }


def assert_same(found: Any, expected: Any, where: str) -> None:
    """Compare values and types, all the way down."""
    assert type(found) is type(expected), where
    if isinstance(expected, dict):
        assert list(found) == list(expected), where
        for key in expected:
            assert_same(found[key], expected[key], f"{where}[{key!r}]")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for place in range(len(expected)):
            assert_same(found[place], expected[place], f"{where}[{place}]")
    elif isinstance(expected, np.ndarray):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape), where
        np.testing.assert_array_equal(found, expected, err_msg=where)
    else:
        assert found == expected, where


@pytest.mark.parametrize("codec", ["auto", "none", "zstd:1", "brotli:1", "snappy"])
def test_tfds_reads_what_was_written(tmp_path: Path, rng: np.random.Generator, codec: str) -> None:
    """Every feature, several shards and splits, the description, and TFDS's own split strings."""
    metadata = {"made": ["by", {"hand": True}]}
    with DatasetWriter(
        tmp_path / "things",
        FEATURES,
        version="3.1.4",
        description="Things",
        metadata=metadata,
        supervised_keys=("image", "label"),
        codec=codec,
        shard_records=8,
    ) as writer:
        writer.write_all(make_example(number, rng) for number in range(30))
        writer.write_all((make_example(number, rng) for number in range(7)), split="test")

    python = os.environ.get("ARRAYFEED_TFDS_PYTHON", sys.executable)
    subprocess.run([python, "-c", READ, tmp_path / "things", tmp_path / "found"], check=True, timeout=300)
    found, said = pickle.loads((tmp_path / "found").read_bytes())

    assert_same(found, read_examples(tmp_path / "things"), "")
    assert said == {
        "names": ["cat", "dog", "Ä rose"],
        "keys": ("image", "label"),
        "metadata": metadata,
        "version": "3.1.4",
        "description": "Things",
        "num_examples": {"train": 30, "test": 7},
        "sliced": [number % 3 for number in [*range(8, 24), *range(7)]],
    }
