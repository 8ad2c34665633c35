"""One small sampler of every kind, built the same way, for the suites that all of them must pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from arrayfeed.samplers import (
    BatchSampler,
    BlockShuffleSampler,
    BucketBatchSampler,
    IndexSampler,
    InterleaveSampler,
    MixtureSampler,
    OrderedSampler,
    RepeatedAugmentation,
    SequentialSampler,
    StratifiedSampler,
    SubsetSampler,
    WeightedSampler,
)

__all__ = ["BATCH_CASES", "CASES", "ONCE", "SEEDED", "Build", "BuildBatches"]

Build = Callable[..., OrderedSampler]
BuildBatches = Callable[..., BatchSampler]

LABELS = np.array([2] * 60 + [5] * 25 + [9] * 12)
LENGTHS = np.random.default_rng(3).integers(1, 60, 97)
WEIGHTS = np.random.default_rng(4).random(97)


def _bucket_order(**options: Any) -> OrderedSampler:
    return BucketBatchSampler(LENGTHS, boundaries=[10, 30], batch_sizes=[8, 4, 2], **({"lanes": 2} | options)).sampler


# 97 records: no rank count or batch size divides it. Where an order is laid out for a number of ranks, that is fixed,
# so that samplers of one case and of different ranks share their order.
CASES: dict[str, Build] = {
    "index": lambda **options: IndexSampler(97, shuffle=True, **options),
    "index_in_order": lambda **options: IndexSampler(97, **options),
    "index_long": lambda **options: IndexSampler(70_001, shuffle=True, **options),
    "sequential": lambda **options: SequentialSampler(97, **options),
    "subset": lambda **options: SubsetSampler(np.arange(0, 194, 2), shuffle=True, **options),
    "subset_in_order": lambda **options: SubsetSampler([5, 3, 3, *range(94)], num_records=200, **options),
    "block_shuffle": lambda **options: BlockShuffleSampler(97, block_size=8, window_blocks=3, **options),
    "block_shuffle_long": lambda **options: BlockShuffleSampler(20_001, block_size=64, window_blocks=50, **options),
    "interleave": lambda **options: InterleaveSampler([8] * 6 + [0] + [7] * 7, cycle=3, block=3, shuffle=True, **options),
    "interleave_in_order": lambda **options: InterleaveSampler([40, 27, 30], cycle=2, **options),
    "weighted": lambda **options: WeightedSampler(WEIGHTS, **options),
    "weighted_once": lambda **options: WeightedSampler(WEIGHTS, replacement=False, **options),
    "mixture": lambda **options: MixtureSampler([50, 31, 16], shuffle=True, **({"lanes": 2} | options)),
    "mixture_weighted": lambda **options: MixtureSampler([50, 31, 16], [0.2, 0.5, 0.3], shuffle=True, lanes=1, **options),
    "mixture_shortest": lambda **options: MixtureSampler(
        [50, IndexSampler(31, shuffle=True, seed=8)], [2, 1], shuffle=True, stop="shortest", lanes=1, **options
    ),
    "mixture_longest": lambda **options: MixtureSampler([50, 31], [3, 1], shuffle=True, stop="longest", lanes=3, **options),
    "stratified": lambda **options: StratifiedSampler(LABELS, lanes=1, **options),
    "stratified_natural": lambda **options: StratifiedSampler(LABELS, weights="natural", lanes=2, **options),
    "bucket": _bucket_order,
    "bucket_in_order": lambda **options: _bucket_order(shuffle=False, **options),
    "repeated": lambda **options: RepeatedAugmentation(97, repeats=3, **options),
}

# Those in which every record of the source comes exactly once an epoch.
ONCE = (
    "index",
    "index_in_order",
    "index_long",
    "sequential",
    "block_shuffle",
    "block_shuffle_long",
    "interleave",
    "interleave_in_order",
    "weighted_once",
    "mixture",
    "mixture_weighted",
    "stratified_natural",
    "bucket",
    "bucket_in_order",
)

# Those whose order depends on a seed.
SEEDED = tuple(name for name in CASES if name != "sequential" and not name.endswith("in_order"))

BATCH_CASES: dict[str, BuildBatches] = {
    "batches": lambda **options: BatchSampler(IndexSampler(97, shuffle=True, **options), 8),
    "batches_dropped": lambda **options: BatchSampler(IndexSampler(97, shuffle=True, **options), 8, drop_last=True),
    "batches_of_mixture": lambda **options: BatchSampler(MixtureSampler([50, 31], [1, 1], lanes=1, **options), 6),
    "large_batches": lambda **options: BatchSampler(IndexSampler(20_000, shuffle=True, **options), 5_000),
    "bucket_batches": lambda **options: BucketBatchSampler(
        LENGTHS, boundaries=[10, 30], batch_sizes=[8, 4, 2], lanes=2, **options
    ),
    "bucket_batches_dropped": lambda **options: BucketBatchSampler(
        LENGTHS, boundaries=[10, 30], batch_size=4, drop_last=True, lanes=2, **options
    ),
}
