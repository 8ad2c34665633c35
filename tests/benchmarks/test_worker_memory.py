"""What a loader with two workers takes of memory, over data sets of a thousand and of a million records.

Proportional set size counts a page of a mapped file like any other, though the system takes such pages back when memory is
short, and has them in its cache whether somebody maps them or not. So two numbers are given: all of it, and what is the
processes' own. Shards that are mapped, as by default, take nothing of the second; read with ``io="pread"``, nothing of either,
and what is left is the record index.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from arrayfeed import DatasetWriter
from arrayfeed.datasource.features import Scalar, Tensor

TESTS = Path(__file__).parents[1]

SCRIPT = """
import sys
import psutil
import arrayfeed

loader = arrayfeed.DataLoader(
    arrayfeed.open(sys.argv[1], split="train", io=sys.argv[2]), batch_size=32, shuffle=True, num_workers=2, num_epochs=None
)
iterator = iter(loader)
for _ in range(200):
    batch = next(iterator)
main = psutil.Process()
family = [main, *main.children(recursive=True)]
kilobytes = {"Pss": 0, "Pss_Anon": 0, "Pss_Shmem": 0}
for process in family:
    for line in open(f"/proc/{process.pid}/smaps_rollup"):
        name = line.split(":")[0]
        if name in kilobytes:
            kilobytes[name] += int(line.split()[1])
print(kilobytes["Pss"] * 1024, (kilobytes["Pss_Anon"] + kilobytes["Pss_Shmem"]) * 1024, len(family))
"""


def measure(path: Path, io: str) -> tuple[int, int]:
    """Return the proportional set size of a training program and its workers after 200 batches: all of it, and their own."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(TESTS.parents[1]), str(TESTS)]))
    command = [sys.executable, "-c", SCRIPT, str(path), io]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    size, own, processes = map(int, done.stdout.split())
    assert processes == 4  # this program, two workers, and the process that they are started from
    return size, own


@pytest.mark.parametrize("io", ["mmap", "pread"])
@pytest.mark.parametrize(
    "number", [Tensor(shape=(), dtype=np.int64, encoding="bytes"), Scalar(np.int64)], ids=["alike", "varied"]
)
def test_a_thousand_times_the_records_take_no_more_memory(
    tmp_path: Path, full_size: bool, number: Tensor, io: Literal["mmap", "pread"]
) -> None:
    """At most 1.1 times of what is the processes' own; with ``io="pread"`` and records that are alike, of all, pages of files
    included. Of others the record index says more: 20 bytes of it a record are looked at.
    """
    rounds, large = (5, 1_000_000) if full_size else (1, 20_000)
    sizes: dict[int, list[tuple[int, int]]] = {1000: [], large: []}
    for count in sizes:
        features = {"x": Tensor(shape=(16,), dtype=np.uint8, encoding="bytes"), "n": number}
        with DatasetWriter(tmp_path / str(count), features, codec="none", shard_records=max(1000, count // 8)) as writer:
            for start in range(0, count, 100_000):
                numbers = np.arange(start, min(count, start + 100_000))
                writer.write_columns({"x": np.zeros((len(numbers), 16), np.uint8), "n": numbers})
    for _ in range(rounds):
        for count, each in sizes.items():
            each.append(measure(tmp_path / str(count), io))
    for count, each in sizes.items():
        size, own = (statistics.median(column) / 1e6 for column in zip(*each, strict=True))
        print(f"{type(number).__name__}, io={io}, {count:9,} records: {size:6.1f} MB, {own:6.1f} MB of them the processes' own")
    pairs = [*zip(sizes[1000], sizes[large], strict=True)]
    ratio, own_ratio = (statistics.median(b[k] / a[k] for a, b in pairs) for k in range(2))
    print(f"ratio {ratio:.3f}, of their own {own_ratio:.3f}")
    limit = 1.1 if full_size else 1.25  # of a single round
    assert own_ratio <= limit
    assert io == "mmap" or isinstance(number, Scalar) or ratio <= limit
