"""Data sets that we write, read by array_record's own reader and by Grain: the same records, in the same order."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from arrayfeed.datasource.features import ClassLabel, Tensor
from arrayfeed.datasource.writing import DatasetWriter
from support.written import read_records

READ = """
import pickle, sys
import grain
from array_record.python.array_record_data_source import ArrayRecordDataSource
with ArrayRecordDataSource(sys.argv[2:]) as source:
    plain = [source[k] for k in range(len(source))]
    through_grain = list(grain.MapDataset.source(source))
with open(sys.argv[1], "wb") as file:
    pickle.dump((plain, through_grain), file)
"""


@pytest.mark.parametrize("codec", ["none", "zstd", "brotli", "snappy"])
def test_grain_reads_what_was_written(tmp_path: Path, rng: np.random.Generator, codec: str) -> None:
    """Over several shards, under every codec. In a process of its own: that reader's threads survive no fork."""
    features = {"x": Tensor(shape=(30,), dtype=np.uint8, encoding="bytes"), "label": ClassLabel(10)}
    with DatasetWriter(tmp_path / "data", features, codec=codec, shard_records=300) as writer:
        writer.write_columns({"x": rng.integers(0, 256, (1000, 30), dtype=np.uint8), "label": rng.integers(0, 10, 1000)})

    shards = sorted(map(str, (tmp_path / "data").glob("*.array_record*")))
    subprocess.run([sys.executable, "-c", READ, tmp_path / "found", *shards], check=True, timeout=120)
    plain, through_grain = pickle.loads((tmp_path / "found").read_bytes())

    assert plain == through_grain == read_records(tmp_path / "data")["train"]
