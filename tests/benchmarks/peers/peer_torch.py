"""PyTorch's DataLoader over array_record's own data source, whose batched reads (``__getitems__``) it uses.

Configurations after https://docs.pytorch.org/docs/stable/data.html: defaults; and two workers that stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.utils.data

from . import raw_records

NAME = "torch DataLoader, array_record"
CONFIGS: dict[str, dict[str, Any]] = {
    "default": {},
    "workers": {"num_workers": 2, "persistent_workers": True, "prefetch_factor": 4},
}
WORKLOADS = set("abcef")
SKIPPED = {"d": "no packing"}


def version() -> str:
    from importlib.metadata import version

    return f"{torch.__version__}, array_record {version('array_record')}"


def prepare(workload: str, data: Path, into: Path) -> None:
    raw_records.write(workload, data, into)


class Shards(torch.utils.data.Dataset[Any]):
    """The shards as a map-style data set; each process opens them for itself, as the reader's threads outlive no fork."""

    def __init__(self, workload: str, data: Path, prepared: Path) -> None:
        self._paths = raw_records.paths(prepared)
        self._parse = raw_records.Parse(workload, data)
        self._source: Any = None
        self._length = len(self._open())
        self._source = None

    def _open(self) -> Any:
        if self._source is None:
            from array_record.python.array_record_data_source import ArrayRecordDataSource

            self._source = ArrayRecordDataSource(self._paths)
        return self._source

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self._parse(self._open()[index])

    def __getitems__(self, indices: list[int]) -> list[dict[str, Any]]:
        return [self._parse(record) for record in self._open().__getitems__(indices)]


def one_thread(worker: int) -> None:
    import cv2

    cv2.setNumThreads(1)


class Loader:
    """A DataLoader, whose passes are the epochs. What it gives is tensors, which become arrays for nothing."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def epoch(self, number: int) -> Iterator[dict[str, Any]]:
        for batch in self._loader:
            yield {name: value.numpy() if torch.is_tensor(value) else np.asarray(value) for name, value in batch.items()}


def options_of(config: dict[str, Any], workers: int, batch_size: int, seed: int) -> dict[str, Any]:
    options = {"batch_size": batch_size, "shuffle": True, "generator": torch.Generator().manual_seed(seed), **config}
    if "num_workers" in options:
        options |= {"num_workers": workers, "worker_init_fn": one_thread}
    return options


def as_torch_takes(example: dict[str, Any]) -> dict[str, Any]:
    """Return texts as ``bytes``: there is no tensor of them."""
    return {name: bytes(value) if isinstance(value, np.bytes_) else value for name, value in example.items()}


def open(workload: str, data: Path, prepared: Path, config: str, *, batch_size: int, workers: int, seed: int) -> Loader:
    dataset = Shards(workload, data, prepared)
    return Loader(torch.utils.data.DataLoader(dataset, **options_of(CONFIGS[config], workers, batch_size, seed)))
