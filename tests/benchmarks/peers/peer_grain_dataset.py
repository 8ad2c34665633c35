"""Grain's Dataset API over array_record shards of group size 1.

Configurations after https://google-grain.readthedocs.io/en/latest/tutorials/dataset_basic_tutorial.html: defaults; and
two worker processes without reader threads, which was the fastest on two cores. Packing is ``ConcatThenSplitIterDataset``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grain.python as grain

from . import peer_grain, raw_records

NAME = "Grain Dataset"
CONFIGS: dict[str, dict[str, Any]] = {
    "default": {},
    "workers, no threads": {"workers": True, "read_options": {"num_threads": 0, "prefetch_buffer_size": 0}},
}
WORKLOADS = set("acdf")
SKIPPED = {key: "Grain DataLoader is there; (a), (c) and (f) tell them apart" for key in "be"}


def version() -> str:
    return peer_grain.version()


def prepare(workload: str, data: Path, into: Path) -> None:
    raw_records.write(workload, data, into)


class Pipeline:
    """A data set, shuffled anew for every epoch."""

    def __init__(
        self, source: Any, parse: Any, config: dict[str, Any], batch_size: int, workers: int, seed: int, window: int | None
    ) -> None:
        self._source, self._parse, self._config = source, parse, config
        self._batch_size, self._workers, self._seed, self._window = batch_size, workers, seed, window

    def epoch(self, number: int) -> Iterator[dict[str, Any]]:
        dataset: Any = grain.MapDataset.source(self._source).shuffle(seed=self._seed + 1000 * (number + 1)).map(self._parse)
        options = grain.ReadOptions(**self._config["read_options"]) if "read_options" in self._config else None
        if self._window is None:
            dataset = dataset.batch(self._batch_size, drop_remainder=False).to_iter_dataset(options)
        else:
            dataset = dataset.to_iter_dataset(options)
            dataset = grain.experimental.ConcatThenSplitIterDataset(dataset, length_struct={"tokens": self._window})
            dataset = dataset.batch(self._batch_size, drop_remainder=False)
        if self._config.get("workers"):
            dataset = dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=self._workers))
        return iter(dataset)


def open(workload: str, data: Path, prepared: Path, config: str, *, batch_size: int, workers: int, seed: int) -> Pipeline:
    import json

    source = grain.ArrayRecordDataSource(raw_records.paths(prepared))
    window = json.loads((data / "meta.json").read_text())["window"] if workload == "d" else None
    return Pipeline(source, raw_records.Parse(workload, data), CONFIGS[config], batch_size, workers, seed, window)


def resume(records: int, position: int, batch_size: int) -> Iterator[Any]:
    """Return batches from ``position`` on, by a state that says so."""
    iterator: Any = iter(grain.MapDataset.range(records).shuffle(seed=3).batch(batch_size).to_iter_dataset())
    iterator.set_state({"next_index": position // batch_size})
    return iter(iterator)
