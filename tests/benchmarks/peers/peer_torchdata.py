"""torchdata's StatefulDataLoader over array_record's own data source.

Configurations after https://meta-pytorch.org/data/beta/torchdata.stateful_dataloader.html: a drop-in for PyTorch's.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch.utils.data

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


class Numbers(torch.utils.data.Dataset[int]):
    """A data set whose examples are their own indices: nothing is read."""

    def __init__(self, records: int) -> None:
        self._records = records

    def __len__(self) -> int:
        return self._records

    def __getitem__(self, index: int) -> int:
        return index


def resume(records: int, position: int, batch_size: int) -> Iterator[Any]:
    """Return batches from ``position`` on, by a state that says so: one after the first batch, with its numbers changed."""
    from torchdata.stateful_dataloader import StatefulDataLoader

    loaders = [StatefulDataLoader(Numbers(records), batch_size=batch_size, shuffle=True) for _ in range(2)]
    state: dict[str, Any] = loaders[0].state_dict()
    order = state["_sampler_iter_state"]
    order["samples_yielded"] = order["sampler_iter_state"]["yielded"] = position
    state["_sampler_iter_yielded"] = state["_num_yielded"] = position // batch_size
    loaders[1].load_state_dict(state)
    return iter(loaders[1])
