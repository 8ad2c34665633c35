"""Samplers against what else gives shuffled indices: speed in one interleaved run, and how well batches are mixed.

    python tests/benchmarks/bench_samplers.py [--quick] [--plot FILE.png]

Every figure is a median over rounds with its range; every ratio is the median of the rounds' own ratios, so that a machine
that is slow for a while is slow for both. Grain is measured where it is installed, and said to be missing where not.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))  # run by path, too

from arrayfeed.samplers import (
    BlockShuffleSampler,
    BucketBatchSampler,
    IndexSampler,
    MixtureSampler,
    OrderedSampler,
    RecordRandom,
    RepeatedAugmentation,
    SequentialSampler,
    ShardOptions,
    StratifiedSampler,
    SubsetSampler,
    WeightedSampler,
)
from support.shuffle_quality import BATCH, GROUP, MODELS, RECORDS, mixing

BLOCK = 4096
RANDPERM = "torch.randperm(10**7)"
GRAIN = "grain index_shuffle, one call an index"
LENGTHS = (2, 10, 1000, 60_000, 10**6, 10**7, 10**9, 10**12)


@dataclass
class Row:
    """Nanoseconds an item, one figure a round."""

    name: str
    rounds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    def ratio(self, other: Row) -> float:
        """Return how many times the other's time this one takes, as the median of the rounds' ratios."""
        return statistics.median(mine / theirs for mine, theirs in zip(self.rounds, other.rounds, strict=True))


def ours(length: int) -> str:
    return f"IndexSampler({length:,}), blocks of {BLOCK:,}"


def read_blocks(sampler: OrderedSampler, blocks: int) -> int:
    for start in range(0, blocks * BLOCK, BLOCK):
        sampler.block(start, start + BLOCK)
    return blocks * BLOCK


def call(function: Callable[[int], object], times: int) -> int:
    for number in range(times):
        function(number)
    return times


def read_all(items: Any, limit: int) -> int:
    return sum(1 for _ in itertools.islice(items, limit))


def index_shuffle() -> Callable[[int], int] | None:
    """Return Grain's permutation of a million indices, called per index as its data sets do, or None."""
    try:
        from grain._src.python.experimental.index_shuffle.python import index_shuffle_module
    except ImportError:
        return None
    return lambda index: int(index_shuffle_module.index_shuffle(index, max_index=999_999, seed=1, rounds=4))


def cases(quick: bool) -> dict[str, Callable[[], int]]:
    """Return what is measured: a function each that gives some items and says how many."""
    blocks, numbers = (2, 10_000) if quick else (25, 10_000_000)
    shuffled = {ours(n): IndexSampler(n, shuffle=True, num_epochs=None) for n in LENGTHS}
    labels = np.arange(10**6) % 1000
    others: dict[str, OrderedSampler] = {
        "SequentialSampler": SequentialSampler(10**6, num_epochs=None),
        "IndexSampler, rank 3 of 8": IndexSampler(10**7, shuffle=True, num_epochs=None, shard=ShardOptions(3, 8)),
        "SubsetSampler": SubsetSampler(np.arange(0, 10**6, 2), shuffle=True, num_epochs=None),
        "BlockShuffleSampler, 64 blocks of 256": BlockShuffleSampler(10**6, block_size=256, window_blocks=64, num_epochs=None),
        "WeightedSampler": WeightedSampler(1.0 + np.arange(10**6), num_epochs=None),
        "WeightedSampler, without replacement": WeightedSampler(1.0 + np.arange(10**6), replacement=False, num_epochs=None),
        "MixtureSampler of 3": MixtureSampler([10**6, 10**7, 10**5], [7, 2, 1], shuffle=True, stop="longest", num_epochs=None),
        "StratifiedSampler of 1,000 classes": StratifiedSampler(labels, num_epochs=None),
        "BucketSampler": BucketBatchSampler(labels, boundaries=[100, 300], batch_size=32, num_epochs=None).sampler,
        "RepeatedAugmentation": RepeatedAugmentation(10**6, repeats=3, num_epochs=None),
    }
    for sampler in (*shuffled.values(), *others.values()):
        sampler.block(0, 1)  # what an epoch lays out once is not what a block costs
    random = RecordRandom(0)
    moved = random.generator(0, 0)
    iterated = IndexSampler(10**6, shuffle=True, num_epochs=None)
    found: dict[str, Callable[[], int]] = {
        RANDPERM: lambda: len(torch.randperm(numbers)),
        "numpy Generator.permutation(10**7)": lambda: len(np.random.default_rng(0).permutation(numbers)),
    }
    for name, sampler in (shuffled | others).items():
        found[name] = partial(read_blocks, sampler, blocks)
    grain_shuffle = index_shuffle()
    if grain_shuffle is not None:
        found[GRAIN] = lambda: call(grain_shuffle, blocks * 400)
    found["IndexSampler, iterated"] = lambda: read_all(iterated, blocks * BLOCK)
    found["torch RandomSampler, iterated"] = lambda: read_all(
        torch.utils.data.RandomSampler(range(blocks * BLOCK)), blocks * BLOCK
    )
    found["RecordRandom.generator"] = lambda: call(partial(random.generator, 0), 400)
    found["RecordRandom.rewind"] = lambda: call(partial(random.rewind, moved, 0), 400)
    batch = np.arange(128)
    found["RecordRandom.uniform, 4 numbers for each of 128"] = lambda: 128 * call(lambda _: random.uniform(0, batch, 4), 20)
    return found


def measure_speed(quick: bool) -> dict[str, Row]:
    """Run every case in turn, round after round."""
    functions = cases(quick)
    rows = {name: Row(name) for name in functions}
    for _ in range(2 if quick else 11):
        for name, function in functions.items():
            start = time.perf_counter()
            items = function()
            rows[name].rounds.append((time.perf_counter() - start) / items * 1e9)
    return rows


def measure_trillion(quick: bool) -> dict[str, Row]:
    """Return what the first of everything costs at 10**12 records, in nanoseconds."""
    rows = {name: Row(name) for name in ("construction", "a position", "resume from a state, and the first block")}
    state = IndexSampler(10**12, shuffle=True).state_dict(123_456_789_012)
    for number in range(3 if quick else 201):
        marks = [time.perf_counter()]
        sampler = IndexSampler(10**12, shuffle=True)
        marks.append(time.perf_counter())
        sampler[number * 3_999_999_999 % 10**12]
        marks.append(time.perf_counter())
        resumed = IndexSampler(10**12, shuffle=True)
        resumed.load_state_dict(state)
        resumed.block(resumed.position, resumed.position + 128)
        marks.append(time.perf_counter())
        for row, (start, end) in zip(rows.values(), itertools.pairwise(marks), strict=True):
            row.rounds.append((end - start) * 1e9)
    return rows


def measure_mixing() -> dict[str, tuple[float, float]]:
    """Return the largest class's share and the distinct groups of a batch, for our orders, for others and for models."""
    rng = np.random.default_rng(0)
    orders: dict[str, Callable[[], Any]] = {
        "numpy permutation": lambda: rng.permutation(RECORDS),
        "torch RandomSampler": lambda: np.array(list(torch.utils.data.RandomSampler(range(RECORDS)))),
    }
    for rank, world in [(0, 1), (3, 4)]:
        sampler = IndexSampler(RECORDS, shuffle=True, shard=ShardOptions(rank, world))
        orders[f"IndexSampler, rank {rank} of {world}"] = partial(sampler.block, 0, sampler.epoch_length)
    for window in (4, 16, 64):
        blocks = BlockShuffleSampler(RECORDS, block_size=GROUP, window_blocks=window)
        orders[f"BlockShuffleSampler, {window} blocks of {GROUP}"] = partial(blocks.block, 0, RECORDS)
    grain_part = grain_rank()
    if grain_part is not None:
        orders["grain IndexSampler, its own rank 3 of 4"] = grain_part
    orders |= {f"model: {name}": partial(model, rng) for name, model in MODELS.items()}
    return {name: mixing(np.asarray(order())) for name, order in orders.items()}


def grain_rank() -> Callable[[], Any] | None:
    """Return the order of Grain's IndexSampler where the sampler is given a shard, as its first interface does."""
    try:
        import grain.python as grain
    except ImportError:
        return None
    shard = grain.ShardOptions(shard_index=3, shard_count=4)
    sampler = grain.IndexSampler(RECORDS, shard_options=shard, shuffle=True, num_epochs=1, seed=0)
    return lambda: np.array([sampler[index].record_key for index in range(3, RECORDS, 4)])


def print_speed(rows: dict[str, Row], unit: str, per: str) -> None:
    scale = {"ns": 1, "us": 1000}[unit]
    print(f"\n{per:58} {unit:>8}  {'range':>17}   {f'x {RANDPERM}' if RANDPERM in rows else ''}")
    for row in rows.values():
        low, high = min(row.rounds) / scale, max(row.rounds) / scale
        ratio = f"{row.ratio(rows[RANDPERM]):8.2f}" if RANDPERM in rows else ""
        print(f"{row.name:58} {row.median / scale:8.1f}  {low:7.1f} - {high:7.1f}   {ratio}")


def print_mixing(table: dict[str, tuple[float, float]]) -> None:
    print(f"\n{RECORDS:,} records sorted by class, batches of {BATCH:<9} largest class's share   groups of {GROUP} in a batch")
    for name, (share, groups) in table.items():
        print(f"{name:58} {share:8.3f}   {groups:22.1f}")


def plot_mixing(path: Path) -> None:
    """Draw which record comes at which position, for four ways to shuffle."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rng = np.random.default_rng(0)
    shown = {
        "IndexSampler": IndexSampler(RECORDS, shuffle=True).block(0, RECORDS),
        f"BlockShuffleSampler, 16 blocks of {GROUP}": BlockShuffleSampler(RECORDS, block_size=GROUP, window_blocks=16).block(
            0, RECORDS
        ),
        "4 of 16 shards interleaved, buffer of 1,024": MODELS["16 shards, 4 interleaved, a buffer of 1,024"](rng),
        "shards in random order": MODELS["235 shards in random order"](rng),
    }
    figure, axes = plt.subplots(1, len(shown), figsize=(16, 4), sharey=True, layout="constrained")
    for axis, (name, order) in zip(axes, shown.items(), strict=True):
        share, groups = mixing(order)
        axis.plot(order[::4], ",", color="C0")
        axis.set(title=f"{name}\nlargest class {share:.2f}, {groups:.0f} groups in a batch", xlabel="position")
        axis.set_xticks([])
    axes[0].set_ylabel("record (sorted by class)")
    figure.savefig(path, dpi=100)
    plt.close(figure)


def main(arguments: list[str] | None = None) -> dict[str, Row]:
    """Measure and print everything; return the rows of the speed table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="see that it works, with figures of no value")
    parser.add_argument("--plot", type=Path, help="draw the orders into a PNG file")
    options = parser.parse_args(arguments)
    rows = measure_speed(options.quick)
    print_speed(rows, "ns", "an index")
    if GRAIN in rows:
        print(f"\nIndexSampler of 10**6 against {GRAIN}: {1 / rows[ours(10**6)].ratio(rows[GRAIN]):.0f} times as fast")
    else:
        print("\ngrain is not installed: not measured")
    print_speed(measure_trillion(options.quick), "us", "the first of 10**12 records")
    print_mixing(measure_mixing())
    if options.plot:
        plot_mixing(options.plot)
    return rows


if __name__ == "__main__":
    main()
