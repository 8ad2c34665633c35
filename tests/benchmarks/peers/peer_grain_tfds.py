"""Grain's DataLoader over ``tfds.data_source``: the directory that arrayfeed reads, too.

After https://www.tensorflow.org/datasets/data_source, with ``peer_grain``'s configurations.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import peer_grain, records
from .tfds_source import open_source

NAME = "Grain DataLoader, tfds.data_source"
CONFIGS: dict[str, dict[str, Any]] = peer_grain.CONFIGS
WORKLOADS = set("abe")
SKIPPED = {key: "(a), (b) and (e) tell them apart" for key in "cdf"}


def version() -> str:
    from importlib.metadata import version

    return f"{version('grain')}, tfds {version('tensorflow-datasets')}"


def prepare(workload: str, data: Path, into: Path) -> None:
    """Nothing to write: the directory is there."""


def augment(example: dict[str, Any]) -> dict[str, Any]:
    return {**example, "image": records.augment(example["image"])}


def keep(example: dict[str, Any]) -> dict[str, Any]:
    return example


def open(
    workload: str, data: Path, prepared: Path, config: str, *, batch_size: int, workers: int, seed: int
) -> peer_grain.Loader:
    function = augment if workload == "c" else keep
    return peer_grain.Loader(open_source(data), function, CONFIGS[config], batch_size, workers, seed)
