"""What samplers keep: as many bytes as their docstrings say, however much was read."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from arrayfeed.samplers import (
    BlockShuffleSampler,
    BucketBatchSampler,
    IndexSampler,
    InterleaveSampler,
    MixtureSampler,
    OrderedSampler,
    RepeatedAugmentation,
    StratifiedSampler,
    SubsetSampler,
    WeightedSampler,
)

RECORDS = 200_000
RANDOM = np.random.default_rng(0)
NUMBERS, WEIGHTS = RANDOM.integers(1, 500, RECORDS), RANDOM.random(RECORDS)

# Bytes a record, and a constant for objects and tables.
KEPT: dict[str, tuple[int, int, Callable[[], OrderedSampler]]] = {
    "index": (0, 300_000, lambda: IndexSampler(60_000, shuffle=True, num_epochs=9)),
    "index_long": (0, 20_000, lambda: IndexSampler(10**15, shuffle=True)),
    "repeated": (0, 600_000, lambda: RepeatedAugmentation(60_000, repeats=3)),
    "block_shuffle": (0, 600_000, lambda: BlockShuffleSampler(10**12, block_size=256, window_blocks=256)),
    "mixture": (0, 50_000, lambda: MixtureSampler([10**9, 10**12], shuffle=True)),
    "interleave": (0, 600_000, lambda: InterleaveSampler([10**9] * 1000, cycle=16, block=4)),
    "subset": (8, 20_000, lambda: SubsetSampler(NUMBERS, shuffle=True)),
    "weighted": (16, 20_000, lambda: WeightedSampler(WEIGHTS)),
    "weighted_once": (16, 20_000, lambda: WeightedSampler(WEIGHTS, replacement=False)),
    "stratified": (32, 300_000, lambda: StratifiedSampler(NUMBERS, weights="natural")),
    "bucket": (16, 200_000, lambda: BucketBatchSampler(NUMBERS, boundaries=[100, 300], batch_size=32).sampler),
}


@pytest.mark.parametrize(("per_record", "constant", "build"), KEPT.values(), ids=KEPT)
def test_a_sampler_keeps_what_it_says(per_record: int, constant: int, build: Callable[[], OrderedSampler]) -> None:
    """After blocks from all over an epoch, not more than the stated bytes a record and a constant."""
    build().block(0, 100)  # what NumPy imports on first use is not the sampler's
    tracemalloc.start()
    sampler = build()
    sampler.set_epoch(1)
    for start in range(0, 100_000, 10_000):
        start %= sampler.epoch_length
        sampler.block(start, min(start + 10_000, sampler.epoch_length))
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()

    assert kept < per_record * RECORDS + constant
