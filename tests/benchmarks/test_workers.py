"""What it costs to bring batches over from one worker process that does nothing else, against Grain and torch."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from arrayfeed import DataLoader
from support.worker_cases import Ready, first

pytestmark = pytest.mark.filterwarnings("ignore")  # the peers' own

CASES = {"19 MB": ((128, 224, 224, 3), 60, 5.0, 3.0), "1 kB": ((1000,), 3000, 3.0, 1.5)}


def ours(source: Ready) -> Iterator[Any]:
    return iter(DataLoader(source, num_workers=1, collate_fn=first))


def by_torch(source: Ready) -> Iterator[Any]:
    import torch.utils.data

    dataset: Any = source
    return iter(torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=1, collate_fn=same))


def by_grain(source: Ready) -> Iterator[Any]:
    import absl.flags
    import grain.python as grain

    absl.flags.FLAGS(["arrayfeed"])
    sampler = grain.IndexSampler(len(source), shard_options=grain.NoSharding(), shuffle=False, num_epochs=1, seed=0)
    options = grain.ReadOptions(num_threads=1, prefetch_buffer_size=2)
    return iter(grain.DataLoader(data_source=source, sampler=sampler, worker_count=1, read_options=options))


def same(batch: Any) -> Any:
    return batch


@pytest.mark.parametrize("size", CASES)
def test_batches_come_over_faster_than_from_grain_and_torch(size: str, full_size: bool) -> None:
    """Batches a second from one worker: large ones as views of shared memory, small ones many at a time."""
    shape, count, over_grain, over_torch = CASES[size]
    rounds, count = (7, count) if full_size else (1, 20)
    ways: dict[str, Callable[[Ready], Iterator[Any]]] = {"ours": ours, "torch": by_torch, "grain": by_grain}
    source = Ready((rounds + 1) * count + 100, shape)
    iterators = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, way in ways.items():
            iterators[name] = way(source)
            batch = next(iterators[name])
            assert np.array_equal(batch["image"], source[0]["image"])
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, iterator in iterators.items():
            start = time.perf_counter()
            for _ in range(count):
                batch = next(iterator)
            if number or not full_size:  # the first round fills what is made ahead
                rates[name].append(count / (time.perf_counter() - start))
    for name, values in rates.items():
        ratio = statistics.median(a / b for a, b in zip(rates["ours"], values, strict=True))
        print(f"{size:6} {name:6} {statistics.median(values):10,.0f} batches/s   ours: {ratio:.2f} times as many")
        if full_size and name != "ours":
            assert ratio >= (over_grain if name == "grain" else over_torch)
    iterators.clear()
