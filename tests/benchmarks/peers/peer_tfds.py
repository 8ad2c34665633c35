"""PyTorch's DataLoader over ``tfds.data_source``: the directory that arrayfeed reads, too.

Configurations after https://www.tensorflow.org/datasets/data_source: defaults; and two workers that stay.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch.utils.data

from . import peer_torch, records
from .tfds_source import open_source

NAME = "torch DataLoader, tfds.data_source"
CONFIGS: dict[str, dict[str, Any]] = peer_torch.CONFIGS
WORKLOADS = set("abce")
SKIPPED = {"d": "no packing", "f": "its reads are array_record's, which (f) has"}


def version() -> str:
    from importlib.metadata import version

    return version("tensorflow-datasets")


def prepare(workload: str, data: Path, into: Path) -> None:
    """Nothing to write: the directory is there."""


class Source(torch.utils.data.Dataset[Any]):
    """The data source; each process opens it for itself, as the reader's threads outlive no fork."""

    def __init__(self, data: Path, augmented: bool) -> None:
        self._data = data
        self._augmented = augmented
        self._source: Any = None
        self._length = len(self._open())
        self._source = None

    def _open(self) -> Any:
        if self._source is None:
            self._source = open_source(self._data)
        return self._source

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self._make(self._open()[index])

    def __getitems__(self, indices: list[int]) -> list[dict[str, Any]]:
        return [self._make(example) for example in self._open().__getitems__(indices)]

    def _make(self, example: dict[str, Any]) -> dict[str, Any]:
        return {**example, "image": records.augment(example["image"])} if self._augmented else example


def open(
    workload: str, data: Path, prepared: Path, config: str, *, batch_size: int, workers: int, seed: int
) -> peer_torch.Loader:
    dataset = Source(data, workload == "c")
    options = peer_torch.options_of(CONFIGS[config], workers, batch_size, seed)
    return peer_torch.Loader(torch.utils.data.DataLoader(dataset, **options))
