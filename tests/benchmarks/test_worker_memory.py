"""What a loader with two workers takes of memory, over data sets of a thousand and of a million records."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np

from arrayfeed import DatasetWriter
from arrayfeed.datasource.features import Scalar, Tensor

TESTS = Path(__file__).parents[1]

SCRIPT = """
import sys
import psutil
import arrayfeed

loader = arrayfeed.DataLoader(
    arrayfeed.open(sys.argv[1], split="train"), batch_size=32, shuffle=True, num_workers=2, num_epochs=None
)
iterator = iter(loader)
for _ in range(200):
    batch = next(iterator)
main = psutil.Process()
family = [main, *main.children(recursive=True)]
print(sum(process.memory_full_info().pss for process in family), len(family))
"""


def measure(path: Path) -> int:
    """Return the proportional set size of a training program and its workers after 200 batches, in bytes."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(TESTS.parents[1]), str(TESTS)]))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path)], capture_output=True, text=True, env=environment, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    size, processes = map(int, done.stdout.split())
    assert processes == 4  # this program, two workers, and the process that they are started from
    return size


def test_a_thousand_times_the_records_take_no_more_memory(tmp_path: Path, full_size: bool) -> None:
    """At most 1.1 times: nothing in any process grows with the data set but pages of files that it has read."""
    rounds, large = (5, 1_000_000) if full_size else (1, 20_000)
    sizes: dict[int, list[int]] = {1000: [], large: []}
    for count in sizes:
        features = {"x": Tensor(shape=(16,), dtype=np.uint8, encoding="bytes"), "n": Scalar(np.int64)}
        with DatasetWriter(tmp_path / str(count), features, codec="none", shard_records=max(1000, count // 8)) as writer:
            for start in range(0, count, 100_000):
                numbers = np.arange(start, min(count, start + 100_000))
                writer.write_columns({"x": np.zeros((len(numbers), 16), np.uint8), "n": numbers})
    for _ in range(rounds):
        for count, each in sizes.items():
            each.append(measure(tmp_path / str(count)))
    ratio = statistics.median(b / a for a, b in zip(sizes[1000], sizes[large], strict=True))
    for count, each in sizes.items():
        print(f"{count:9,} records: {statistics.median(each) / 1e6:6.1f} MB")
    print(f"ratio {ratio:.3f}")
    assert ratio <= 1.1
