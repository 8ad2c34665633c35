"""JPEG images decoded, cropped, flipped and collated by two workers: what the loader adds to the bare work, and to its peers'.

The bare work is the same function in a loop in two processes, over records held in memory, with nothing done about the results.
"stacked" is that and one copy of each image to its row of a batch, in memory that was used before: no loader does with less,
since the function returns an array of its own, in the cache, and training wants a batch, which is 30 MB.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arrayfeed import ArrayRecordDataSource, DataLoader
from support.jpegs import augment, one_thread, write_jpegs
from support.peer_loaders import Augmented, by_grain, by_torch

pytestmark = pytest.mark.filterwarnings("ignore")  # the peers' own

BATCH_SIZE = 64
#: How many batches each way has made ahead at most, and the seconds that its workers take for them once it was measured.
AHEAD = {"bare": (1, 0.0), "stacked": (1, 0.0), "ours": (4, 0.4), "torch": (4, 0.4), "grain": (24, 2.5)}


def loop(records: list[bytes], pipe: multiprocessing.connection.Connection, stacks: bool) -> None:
    """Do the bare work whenever asked for so many images."""
    one_thread()
    batches = [np.zeros((BATCH_SIZE, 200, 200, 3), np.float32) for _ in range(3 if stacks else 0)]
    while count := pipe.recv():
        for number in range(count):
            example = augment(records[number % len(records)])
            if stacks:
                batches[number // BATCH_SIZE % len(batches)][number % BATCH_SIZE] = example["image"]
        pipe.send(True)


class Bare:
    """Two processes that do the bare work."""

    def __init__(self, records: list[bytes], *, stacks: bool) -> None:
        context = multiprocessing.get_context("fork")
        pairs = [context.Pipe() for _ in range(2)]
        self._pipes = [pair[0] for pair in pairs]
        self._processes = [context.Process(target=loop, args=(records, pair[1], stacks), daemon=True) for pair in pairs]
        for process in self._processes:
            process.start()

    def run(self, batches: int) -> None:
        for pipe in self._pipes:
            pipe.send(batches * BATCH_SIZE // 2)
        for pipe in self._pipes:
            pipe.recv()

    def close(self) -> None:
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            pipe.send(0)
            process.join()


def take(iterator: Iterator[Any]) -> Callable[[int], None]:
    def run(batches: int) -> None:
        for _ in range(batches):
            batch = next(iterator)
            assert batch["image"].shape == (BATCH_SIZE, 200, 200, 3)

    return run


def test_images_come_nearly_as_fast_as_they_can_be_decoded(tmp_path: Path, full_size: bool) -> None:
    """At least 0.88 of the bare rate with stacking, and 1.15 of the better of torch and Grain, by the median of rounds.

    Of the bare rate without stacking that copy alone leaves 0.88: 66 us for each image of 480 kB, on 540.
    """
    rounds, batches = (7, 8) if full_size else (1, 2)
    paths = write_jpegs(tmp_path, 1024 if full_size else 256)
    source = ArrayRecordDataSource(paths)
    bare, stacked = (Bare([*source[:256]], stacks=stacks) for stacks in (False, True))
    torch_batches = by_torch(Augmented(source), BATCH_SIZE)
    next(torch_batches)  # its workers are forked before Grain's reader starts threads
    options: dict[str, Any] = {"batch_size": BATCH_SIZE, "shuffle": True, "drop_last": True, "num_epochs": None}
    ours = DataLoader(source, transforms=augment, num_workers=2, worker_init_fn=one_thread, **options)
    iterators = {"ours": iter(ours), "torch": torch_batches, "grain": by_grain(paths, BATCH_SIZE)}
    ways: dict[str, Callable[[int], None]] = {"bare": bare.run, "stacked": stacked.run}
    ways |= {name: take(each) for name, each in iterators.items()}
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            ahead, pause = AHEAD[name] if full_size else (1, 0.0)
            way(ahead)
            start = time.perf_counter()
            way(batches)
            if number or not full_size:
                rates[name].append(batches * BATCH_SIZE / (time.perf_counter() - start))
            time.sleep(pause)
    for each in (bare, stacked, ours):
        each.close()
    ratios = {}
    for name, values in rates.items():
        parts = sorted(a / b for a, b in zip(rates["ours"], values, strict=True))
        ratios[name] = statistics.median(parts)
        spread = f"({parts[0]:.2f} to {parts[-1]:.2f})"
        print(f"{name:7} {statistics.median(values):6.0f} images/s   ours: {ratios[name]:.2f} of it {spread}")
    if full_size:
        assert ratios["stacked"] >= 0.88
        assert min(ratios["torch"], ratios["grain"]) >= 1.15
