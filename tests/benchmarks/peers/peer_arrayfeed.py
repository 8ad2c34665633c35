"""arrayfeed itself, over the ArrayRecord directory that it wrote: in process, and with workers.

Documents are packed while they are loaded, in an order that every epoch shuffles anew. Some peers read windows that were packed
once, before they were written: "windows written" does as they do.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import arrayfeed

from . import records

NAME = "arrayfeed"
CONFIGS: dict[str, dict[str, Any]] = {"default": {}, "workers": {}, "windows written": {}}
WORKLOADS = set("abcdef")
SKIPPED: dict[str, str] = {}
CROP = 200


def version() -> str:
    from importlib.metadata import version

    return version("arrayfeed")


def prepare(workload: str, data: Path, into: Path) -> None:
    """Write windows of tokens; all else is there: ``data/arrayfeed``, which other peers read, too."""
    if workload == "d":
        shape = (records.window(data),)
        features = {"tokens": arrayfeed.features.Tensor(shape=shape, dtype=np.int32, encoding="bytes")}
        with arrayfeed.DatasetWriter(into / "windows", features, name="windows", codec="none", shard_records=2_000) as writer:
            for window in records.windows(data):
                writer.write({"tokens": window})


def augment(example: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Crop to 200 x 200 at random, flip half of them, and turn to float32 in 0 to 1."""
    import cv2

    image = example["image"]
    # As the other peers draw theirs, one by one: of three bounds at once, NumPy makes arrays first, which takes 15 us.
    top, left = (int(rng.integers(size - CROP + 1)) for size in image.shape[:2])
    crop = image[top : top + CROP, left : left + CROP]
    if rng.random() < 0.5:
        crop = cv2.flip(crop, 1)  # see ``records.augment``
    return {**example, "image": np.multiply(crop, np.float32(1 / 255), dtype=np.float32)}


class Feed:
    """A loader whose passes are the epochs; they advance by themselves."""

    def __init__(self, source: arrayfeed.ExampleDataSource, options: dict[str, Any]) -> None:
        self._source = source
        self._loader = arrayfeed.DataLoader(source, **options)

    def epoch(self, number: int) -> Iterator[dict[str, Any]]:
        return iter(self._loader)

    def stats(self) -> arrayfeed.LoaderStats:
        return self._loader.stats()

    def close(self) -> None:
        self._loader.close()
        self._source.close()


def open(workload: str, data: Path, prepared: Path, config: str, *, batch_size: int, workers: int, seed: int) -> Feed:
    source = arrayfeed.open(prepared / "windows" if config == "windows written" else data / "arrayfeed", split="train")
    options: dict[str, Any] = {"batch_size": batch_size, "shuffle": True, "seed": seed}
    if config == "workers":
        options["num_workers"] = workers
    if config == "alone":  # for a profile
        options["prefetch_factor"] = 0
    if workload == "c":
        options["transforms"] = arrayfeed.RandomMap(augment)
    if workload == "d" and config != "windows written":
        options["transforms"] = arrayfeed.pack(records.window(data), strategy="concat")
    return Feed(source, options)


class Numbers:
    """A source whose examples are their own indices: nothing is read."""

    fingerprint = "numbers"

    def __init__(self, records: int) -> None:
        self._records = records

    def __len__(self) -> int:
        return self._records

    def __getitem__(self, index: int) -> int:
        return index

    def read_batch(self, indices: Any) -> dict[str, Any]:
        return {"label": np.asarray(indices)}


def resume(records: int, position: int, batch_size: int) -> Iterator[Any]:
    """Return batches from ``position`` on, by a state that says so."""
    loader = arrayfeed.DataLoader(Numbers(records), batch_size=batch_size, shuffle=True, seed=3)
    loader.load_state_dict({**loader.state_dict(), "position": position})
    return iter(loader)
