"""What it costs to bring batches over from worker processes: from one that does nothing else, against Grain and torch; from two
that read small images, against reading them in process."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import arrayfeed
from arrayfeed import DataLoader, DatasetWriter
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


def by_copying(source: Ready) -> Iterator[Any]:
    """Copy each batch to memory that was used before, in this process: what a worker does at least."""
    copy = {name: column.copy() for name, column in source[0].items()}
    for number in range(len(source)):
        for name, column in source[number].items():
            np.copyto(copy[name], column)
        yield copy


def same(batch: Any) -> Any:
    return batch


@pytest.mark.parametrize("size", CASES)
def test_batches_come_over_faster_than_from_grain_and_torch(size: str, full_size: bool) -> None:
    """Batches a second from one worker: large ones as views of shared memory, small ones many at a time."""
    shape, count, over_grain, over_torch = CASES[size]
    rounds, count = (7, count) if full_size else (1, 20)
    ways: dict[str, Callable[[Ready], Iterator[Any]]] = {"ours": ours, "torch": by_torch, "grain": by_grain, "copy": by_copying}
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
        if full_size and name in ("torch", "grain"):
            assert ratio >= (over_grain if name == "grain" else over_torch)
    iterators.clear()


def test_two_workers_read_small_images_at_least_half_as_fast_as_this_process(
    tmp_path: Path, full_size: bool, rng: np.random.Generator
) -> None:
    """60,000 images of 28 x 28, shuffled: work that is done sooner than sent, so that workers can only not cost too much."""
    count, epochs = (60_000, 15) if full_size else (3_000, 3)
    features = {
        "image": arrayfeed.features.Tensor(shape=(28, 28), dtype=np.uint8, encoding="bytes"),
        "label": arrayfeed.features.ClassLabel(num_classes=10),
    }
    with DatasetWriter(tmp_path / "small", features, codec="none") as writer:
        images = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        writer.write_columns({"image": images, "label": rng.integers(0, 10, count)})
    options: dict[str, Any] = {"batch_size": 128, "shuffle": True, "warn_waiting": None}
    source = arrayfeed.open(tmp_path / "small", split="train")
    loaders = {workers: DataLoader(source, num_workers=workers, **options) for workers in (0, 2)}
    seconds: dict[int, list[float]] = {workers: [] for workers in loaders}
    for _ in range(epochs):
        for workers, loader in loaders.items():
            start = time.perf_counter()
            assert sum(len(batch["label"]) for batch in loader) == count
            seconds[workers].append(time.perf_counter() - start)
    loaders[2].close()
    ratios = [here / there for here, there in zip(seconds[0], seconds[2], strict=True)]
    later = statistics.median(ratios[1:])
    print(
        f"28x28: {count / statistics.median(seconds[0][1:]):,.0f} records/s in process, two workers {later:.2f} of that "
        f"({min(ratios[1:]):.2f} to {max(ratios[1:]):.2f}); the first epoch, their start included, {seconds[2][0]:.2f} s, "
        f"in process {seconds[0][0]:.2f} s"
    )
    if full_size:
        assert later >= 0.5
