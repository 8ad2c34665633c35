"""Grain's DataLoader over array_record shards of group size 1, as its documents recommend.

Configurations after https://google-grain.readthedocs.io/en/latest/data_loader/data_loader_tutorial.html: defaults; and
two workers without reader threads, which was the fastest on two cores.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import absl.flags
import grain.python as grain

from . import raw_records

NAME = "Grain DataLoader"
CONFIGS: dict[str, dict[str, Any]] = {
    "default": {},
    "workers, no threads": {"worker_count": True, "read_options": {"num_threads": 0, "prefetch_buffer_size": 0}},
}
WORKLOADS = set("abcef")
SKIPPED = {"d": "its DataLoader does not pack; its Dataset API does"}

if not absl.flags.FLAGS.is_parsed():
    absl.flags.FLAGS(["benchmark"])


def version() -> str:
    from importlib.metadata import version

    return version("grain")


def prepare(workload: str, data: Path, into: Path) -> None:
    raw_records.write(workload, data, into)


class Make(grain.MapTransform):
    """A function as Grain takes it."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def map(self, element: Any) -> Any:
        return self._function(element)


class Loader:
    """A new DataLoader every epoch: it has no epochs but those it was made for."""

    def __init__(self, source: Any, function: Any, config: dict[str, Any], batch_size: int, workers: int, seed: int) -> None:
        self._source = source
        self._operations = [Make(function), grain.Batch(batch_size, drop_remainder=False)]
        self._options: dict[str, Any] = {"worker_count": workers if config.get("worker_count") else 0}
        if "read_options" in config:
            self._options["read_options"] = grain.ReadOptions(**config["read_options"])
        self._seed = seed

    def epoch(self, number: int) -> Iterator[dict[str, Any]]:
        count = len(self._source)
        # Seeds far apart: Grain adds them to the epoch.
        seed = self._seed + 1000 * (number + 1)
        order = grain.IndexSampler(count, shard_options=grain.NoSharding(), shuffle=True, num_epochs=1, seed=seed)
        return iter(grain.DataLoader(data_source=self._source, sampler=order, operations=self._operations, **self._options))


def open(workload: str, data: Path, prepared: Path, config: str, *, batch_size: int, workers: int, seed: int) -> Loader:
    source = grain.ArrayRecordDataSource(raw_records.paths(prepared))
    return Loader(source, raw_records.Parse(workload, data), CONFIGS[config], batch_size, workers, seed)


def resume(records: int, position: int, batch_size: int) -> Iterator[Any]:
    """Return batches from ``position`` on, by a state that says so."""
    order = grain.IndexSampler(records, shard_options=grain.NoSharding(), shuffle=True, num_epochs=1, seed=3)
    source = grain.RangeDataSource(0, records, 1)
    iterator: Any = iter(grain.DataLoader(data_source=source, sampler=order, operations=[grain.Batch(batch_size)]))
    state = json.loads(iterator.get_state())
    iterator.set_state(json.dumps({**state, "last_seen_indices": {"0": position - 1}}).encode())
    return iter(iterator)
