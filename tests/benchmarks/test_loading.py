"""A shuffled epoch of small images from uncompressed shards, against NumPy's fancy indexing of the same arrays in memory.

NumPy draws its permutation with ``Generator.permutation`` and takes 128 rows of both arrays at a time: no loader can do with
less. The files are in the page cache. Both sides count the records and let go of each batch.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import arrayfeed
from arrayfeed import DataLoader, DatasetWriter

BATCH_SIZE = 128


def test_a_shuffled_epoch_of_small_images_keeps_up_with_arrays_in_memory(
    tmp_path: Path, full_size: bool, rng: np.random.Generator
) -> None:
    """At least half of NumPy's rate, by the median of pairs measured by turns; every record of every epoch is there."""
    count, pairs = (60_000, 15) if full_size else (3_000, 1)
    images = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
    labels = rng.integers(0, 10, count)
    features = {
        "image": arrayfeed.features.Tensor(shape=(28, 28), dtype=np.uint8, encoding="bytes"),
        "label": arrayfeed.features.ClassLabel(num_classes=10),
    }
    with DatasetWriter(tmp_path / "small", features, codec="none", shard_records=count // 4) as writer:
        writer.write_columns({"image": images, "label": labels})
    assert len(list((tmp_path / "small").glob("*.array_record-*-of-00004"))) == 4

    def index_arrays() -> None:
        order, seen = rng.permutation(count), 0
        for start in range(0, count, BATCH_SIZE):
            chosen = order[start : start + BATCH_SIZE]
            batch: dict[str, Any] = {"image": images[chosen], "label": labels[chosen]}
            seen += len(batch["label"])
        assert seen == count

    def open_loader(prefetch_factor: int) -> DataLoader:
        source = arrayfeed.open(tmp_path / "small", split="train")
        return DataLoader(source, batch_size=BATCH_SIZE, shuffle=True, seed=1, prefetch_factor=prefetch_factor)

    def load(loader: DataLoader) -> Callable[[], None]:
        def run() -> None:
            seen = 0
            for batch in loader:
                seen += len(batch["label"])
            assert seen == count

        return run

    index_arrays()
    for ahead in (2, 0):
        loader = open_loader(ahead)
        # The first epoch maps the files, checks each record and learns how they are laid out.
        first_s = seconds(load(loader))
        ours: list[float] = []
        theirs: list[float] = []
        for pair in range(pairs):
            ways: list[tuple[Callable[[], None], list[float]]] = [(load(loader), ours), (index_arrays, theirs)]
            for way, times in ways if pair % 2 else reversed(ways):
                times.append(seconds(way))
        ratios = sorted(their / our for their, our in zip(theirs, ours, strict=True))
        print(
            f"prefetch_factor={ahead}: {rate(count, ours)} against NumPy's {rate(count, theirs)}, "
            f"{statistics.median(ratios):.2f} of it ({ratios[0]:.2f} to {ratios[-1]:.2f} in {pairs} pairs); "
            f"first epoch {statistics.median(theirs) / first_s:.2f}"
        )
        assert_complete(loader, images, labels)
        if full_size:
            assert statistics.median(ratios) >= 0.5


def seconds(way: Callable[[], None]) -> float:
    start = time.perf_counter()
    way()
    return time.perf_counter() - start


def rate(count: int, times: list[float]) -> str:
    return f"{count / statistics.median(times) / 1e6:.2f} M records/s"


def assert_complete(loader: DataLoader, images: Any, labels: Any) -> None:
    """Read another epoch and compare its sums, by pixel and by label, with those of the arrays."""
    pixels = np.zeros((28, 28), np.int64)
    classes = np.zeros(10, np.int64)
    for batch in loader:
        pixels += batch["image"].sum(axis=0, dtype=np.int64)
        classes += np.bincount(batch["label"], minlength=10)

    assert (pixels == images.sum(axis=0, dtype=np.int64)).all()
    assert (classes == np.bincount(labels, minlength=10)).all()
    assert len(loader) == -(-len(labels) // BATCH_SIZE)
    assert loader.stats().records % len(labels) == 0
