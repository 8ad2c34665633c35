"""TFRecord files that we write, read by TensorFlow and by TFDS; in an environment that has them."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arrayfeed.datasource.converting import convert_tfds, export_tfrecord
from support.digits import write_digits
from support.tfrecords import FIXTURES
from support.written import read_examples, read_records

READ = """
import glob, os, pickle, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
out, directory, compression = sys.argv[1:]
found = {}
for split in ("train", "test"):
    files = sorted(glob.glob(f"{directory}/*-{split}.tfrecord-*"))
    found[split] = [record.numpy() for record in tf.data.TFRecordDataset(files, compression_type=compression)]
examples = None
if not compression:
    import tensorflow_datasets as tfds
    builder = tfds.builder_from_directory(directory)
    in_order = tfds.ReadConfig(interleave_cycle_length=1)
    read = {split: builder.as_dataset(split=split, read_config=in_order) for split in builder.info.splits}
    examples = {split: list(tfds.as_numpy(found)) for split, found in read.items()}
with open(out, "wb") as file:
    pickle.dump((found, examples), file)
"""


def read_by_tensorflow(directory: Path, compression: str = "") -> tuple[Any, Any]:
    python = os.environ.get("ARRAYFEED_TFDS_PYTHON", sys.executable)
    out = directory.parent / "found"
    subprocess.run([python, "-c", READ, out, directory, compression], check=True, timeout=300)
    found: tuple[Any, Any] = pickle.loads(out.read_bytes())
    return found


@pytest.mark.parametrize("compression", ["none", "gzip", "zlib"])
def test_tensorflow_reads_what_was_exported(tmp_path: Path, compression: Any) -> None:
    """Every record, from plain, gzip and zlib files, every checksum checked by TensorFlow."""
    source = write_digits(tmp_path / "digits")
    export_tfrecord(source, tmp_path / "out", compression=compression, num_shards=3)

    found, examples = read_by_tensorflow(tmp_path / "out", "" if compression == "none" else compression.upper())

    assert found == read_records(source)
    if examples is not None:
        expected = read_examples(source)
        for split in expected:
            assert [example["label"] for example in examples[split]] == [example["label"] for example in expected[split]]
            for example, other in zip(examples[split], expected[split], strict=True):
                np.testing.assert_array_equal(example["image"], other["image"])


def test_a_tfds_data_set_is_the_same_there_and_back(tmp_path: Path) -> None:
    """TFDS reads from what came home what it read from what it wrote."""
    convert_tfds(FIXTURES / "shapes" / "1.0.0", tmp_path / "shapes")
    export_tfrecord(tmp_path / "shapes", tmp_path / "back")

    _, home = read_by_tensorflow(tmp_path / "back")
    shutil.copytree(FIXTURES / "shapes" / "1.0.0", tmp_path / "before")
    _, before = read_by_tensorflow(tmp_path / "before")

    for split in home:
        for example, other in zip(home[split], before[split], strict=True):
            assert example.keys() == other.keys()
            for key in example:
                np.testing.assert_array_equal(example[key], other[key])
