"""What it costs that a loader always knows where its time went: of the cheapest batches there are, less than a fiftieth."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import arrayfeed
from arrayfeed import DataLoader, DatasetWriter
from arrayfeed.datasource.laps import READ, Laps, lap, lap_source
from arrayfeed.loaders.telling.times import Times
from arrayfeed.loaders.telling.waiting import WaitingWarning
from arrayfeed.loaders.telling.watch import Watch


def test_telling_costs_less_than_a_fiftieth_of_the_cheapest_batches(
    tmp_path: Path, full_size: bool, rng: np.random.Generator
) -> None:
    """Processor time of the very calls that an epoch of 28 x 28 images makes, against that of the epoch."""
    count, pairs = (60_000, 15) if full_size else (3_000, 1)
    images = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
    features = {
        "image": arrayfeed.features.Tensor(shape=(28, 28), dtype=np.uint8, encoding="bytes"),
        "label": arrayfeed.features.ClassLabel(num_classes=10),
    }
    with DatasetWriter(tmp_path / "small", features, codec="none") as writer:
        writer.write_columns({"image": images, "label": rng.integers(0, 10, count)})
    source = arrayfeed.open(tmp_path / "small", split="train")
    loader = DataLoader(source, batch_size=128, shuffle=True, prefetch_factor=0)
    batches = sum(1 for _ in loader)
    runs = len(loader._watch.runs)
    watch, warning = Watch(), WaitingWarning(0.2)

    def tell() -> None:
        previous: float | None = None
        for _ in range(batches - runs):
            previous = watch.delivered(128, None, previous)
        for _ in range(runs):
            asked = time.perf_counter()
            previous = watch.delivered(128, asked, previous)
            with Laps() as laps:
                lap(READ)
                lap_source()
            watch.refilled(Times(0, laps.start_ns, tuple(laps.spent_ns), 100), 128, 1)
            warning.look(watch)

    def load() -> None:
        for _ in loader:
            pass

    shares = sorted(processor_s(tell) / processor_s(load) for _ in range(pairs))
    print(
        f"telling takes {statistics.median(shares):.2%} of the time of an epoch of {batches} batches in {runs} runs "
        f"({shares[0]:.2%} to {shares[-1]:.2%} in {pairs} pairs)"
    )

    if full_size:
        assert statistics.median(shares) < 0.02


def processor_s(way: Callable[[], None]) -> float:
    start = time.process_time()
    way()
    return time.process_time() - start
