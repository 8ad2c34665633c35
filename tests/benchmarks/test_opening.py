"""Opening a split of any size: in constant time and memory, once it has an index."""

from __future__ import annotations

import dataclasses
import os
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np

from arrayfeed import DatasetWriter
from arrayfeed.datasource.arrayrecord.index_writing import DescribedShard, write_record_index
from arrayfeed.datasource.arrayrecord.record_index import RecordIndex
from arrayfeed.datasource.features import ClassLabel
from arrayfeed.datasource.indexing import index_path
from arrayfeed.datasource.tfds import DatasetInfo, SplitInfo, shard_paths
from arrayfeed.datasource.writing.shards import open_shard

_OPEN = """
import sys, time
import arrayfeed
start = time.perf_counter()
split = arrayfeed.open(sys.argv[1], split="train")
if len(split):
    split[len(split) // 3]
seconds = time.perf_counter() - start
private = sum(int(line.split()[1]) for line in open("/proc/self/smaps_rollup") if line.startswith("Private"))
print(len(split), seconds, private)
"""


def make_dataset(path: Path, num_shards: int, num_records: int) -> None:
    """A split of ``num_shards`` shards, all of them links to the same file of ``num_records`` labels."""
    with DatasetWriter(path, {"label": ClassLabel(num_classes=10)}, name="labels", codec="none") as writer:
        writer.write_columns({"label": np.arange(num_records if num_shards else 1) % 10}, split="one")
    info = DatasetInfo.read(path)
    (only,) = shard_paths(path, info, "one")
    info = dataclasses.replace(info, splits=(SplitInfo("train", (num_records,) * num_shards),))
    info.write(path)
    reader = open_shard(os.fspath(only))
    index = RecordIndex(os.fspath(index_path(path, info, "one"))).lookup(only.name)
    assert index is not None
    described = DescribedShard(reader.file, reader.index, index.checksums, index.run, index.runs)
    paths = shard_paths(path, info, "train") if num_shards else []
    for shard in paths:
        os.link(only, shard)
    shards = {shard.name: lambda: described for shard in paths}
    write_record_index(os.fspath(index_path(path, info, "train")), shards)


def measure(path: Path, rounds: int) -> tuple[int, float, float]:
    """Return the split's length, and medians of the seconds to its first example and of the process's private kB."""
    found = []
    for _ in range(rounds):
        run = subprocess.run([sys.executable, "-c", _OPEN, path], check=True, capture_output=True, text=True)
        found.append([float(word) for word in run.stdout.split()])
    lengths, seconds, private = zip(*found, strict=True)
    return int(lengths[0]), statistics.median(seconds), statistics.median(private)


def test_a_split_of_any_size_opens_at_once(tmp_path: Path, full_size: bool) -> None:
    """A thousand shards of a hundred million records: the first example 50 ms later than nothing at all, in 100 MB."""
    num_shards, num_records, rounds = (1000, 100_000, 5) if full_size else (20, 500, 1)
    make_dataset(tmp_path / "empty", 0, 0)
    make_dataset(tmp_path / "large", num_shards, num_records)

    _, nothing_s, nothing_kb = measure(tmp_path / "empty", rounds)
    length, seconds, private_kb = measure(tmp_path / "large", rounds)

    assert length == num_shards * num_records
    print(
        f"{length:,} records in {num_shards:,} shards: first example after {seconds * 1e3:.1f} ms, an empty split opens in "
        f"{nothing_s * 1e3:.1f} ms; private memory {private_kb / 1e3:.1f} MB, {nothing_kb / 1e3:.1f} MB"
    )
    if full_size:
        assert seconds - nothing_s < 0.050
        assert private_kb < 100_000
