"""torchdata's StatefulDataLoader over array_record's own data source.

Configurations after https://meta-pytorch.org/data/beta/torchdata.stateful_dataloader.html: a drop-in for PyTorch's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import peer_torch, raw_records

NAME = "torchdata StatefulDataLoader, array_record"
CONFIGS: dict[str, dict[str, Any]] = peer_torch.CONFIGS
WORKLOADS = set("ac")
SKIPPED = {key: "its reads are those of torch's DataLoader; (a) and (c) tell them apart" for key in "bdef"}


def version() -> str:
    from importlib.metadata import version

    return version("torchdata")


def prepare(workload: str, data: Path, into: Path) -> None:
    raw_records.write(workload, data, into)


def open(
    workload: str, data: Path, prepared: Path, config: str, *, batch_size: int, workers: int, seed: int
) -> peer_torch.Loader:
    from torchdata.stateful_dataloader import StatefulDataLoader

    dataset = peer_torch.Shards(workload, data, prepared)
    return peer_torch.Loader(StatefulDataLoader(dataset, **peer_torch.options_of(CONFIGS[config], workers, batch_size, seed)))
