"""Distinct values without ``np.unique``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from arrayfeed.datasource.distinct import distinct, first_places


@pytest.mark.parametrize("size", [0, 1, 2, 7, 1000])
def test_it_is_what_unique_finds(size: int, rng: np.random.Generator) -> None:
    """The values, and where each stands first."""
    for highest in (1, 3, 1 << 62):
        numbers = rng.integers(0, highest, size)
        values, places = np.unique(numbers, return_index=True)
        assert np.array_equal(first_places(numbers), places)
        assert np.array_equal(numbers[first_places(numbers)], values)
        assert np.array_equal(distinct(numbers), values)


FIRST_BATCH = """
import sys
import arrayfeed

for batch in arrayfeed.DataLoader(arrayfeed.open(sys.argv[1], split="train"), batch_size=8, shuffle=True):
    break
assert "numpy.ma" not in sys.modules
"""


def test_a_first_batch_is_there_without_masked_arrays(tmp_path: Path) -> None:
    """Of records that an index says are alike, in several shards."""
    from arrayfeed import DatasetWriter, features

    schema = {"x": features.Tensor(shape=(300,), dtype=np.uint8, encoding="bytes"), "n": features.Scalar(np.int64)}
    with DatasetWriter(tmp_path / "data", schema, codec="none", shard_records=40) as writer:
        writer.write_columns({"x": np.ones((100, 300), np.uint8), "n": np.arange(100)})

    subprocess.run([sys.executable, "-c", FIRST_BATCH, tmp_path / "data"], check=True)
