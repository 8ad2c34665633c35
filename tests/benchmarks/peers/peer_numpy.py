"""The bound for data in memory: NumPy's fancy indexing of whole arrays. No loader can do with less."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

NAME = "NumPy in memory"
CONFIGS: dict[str, dict[str, Any]] = {"default": {}}
WORKLOADS = {"a", "e"}
SKIPPED = {key: "bounded by decoding or by the disk, not by memory" for key in "bcdf"}


def version() -> str:
    return np.__version__


def prepare(workload: str, data: Path, into: Path) -> None:
    """Nothing to write: the arrays themselves are read."""


class InMemory:
    """Arrays that are shuffled by a permutation and taken by ``batch_size`` rows."""

    def __init__(self, arrays: dict[str, Any], batch_size: int, seed: int) -> None:
        self._arrays = arrays
        self._batch_size = batch_size
        self._rng = np.random.default_rng(seed)

    def epoch(self, number: int) -> Iterator[dict[str, Any]]:
        order = self._rng.permutation(len(self._arrays["label"]))
        for start in range(0, len(order), self._batch_size):
            chosen = order[start : start + self._batch_size]
            yield {name: array[chosen] for name, array in self._arrays.items()}


def open(workload: str, data: Path, prepared: Path, config: str, *, batch_size: int, workers: int, seed: int) -> InMemory:
    fields = json.loads((data / "meta.json").read_text())["fields"]
    return InMemory({name: np.load(data / f"{name}.npy") for name in fields}, batch_size, seed)
