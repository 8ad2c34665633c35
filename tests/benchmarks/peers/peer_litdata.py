"""LitData: records in chunks, shuffled as chunks and within windows of them.

Configurations after its README (https://github.com/Lightning-AI/litData, "Shuffle data across workers", "LLM pre-training"):
``StreamingDataLoader`` with workers, ``TokensLoader`` for texts, which are packed before they are written. Images are
bytes, decoded by a function of the user's when a batch is made. Chunks are of 4 MB, not its example's 64 MB: at these sizes
that would make one chunk, which two workers share so slowly that an epoch of (a) took minutes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from . import records

NAME = "LitData"
CONFIGS: dict[str, dict[str, Any]] = {
    "default": {"workers": 0},
    "workers": {"workers": 2},
    # The best shuffle within a chunk that it has; with windows decoded whole, as by default, each record would cost one.
    "workers, full shuffle": {"workers": 2, "item_shuffle_window": 0, "batch_decode": 0},
}
WORKLOADS = set("abcdef")
SKIPPED: dict[str, str] = {}
CHUNK_TOKENS = 1024 * 2048


def version() -> str:
    from importlib.metadata import version

    return version("litdata")


def prepare(workload: str, data: Path, into: Path) -> None:
    from litdata import TokensLoader, optimize

    options: dict[str, Any] = {"chunk_bytes": "4MB"}
    if workload == "d":
        options = {"chunk_size": CHUNK_TOKENS, "item_loader": TokensLoader()}
    optimize(fn=_Write(workload, data), inputs=[0], output_dir=str(into), num_workers=1, verbose=False, **options)


class _Write:
    """All records of a workload, as one of LitData's workers writes them."""

    def __init__(self, workload: str, data: Path) -> None:
        self._workload = workload
        self._data = data

    def __call__(self, number: int) -> Iterator[Any]:
        import torch

        if self._workload == "d":
            for window in records.windows(self._data):
                yield torch.from_numpy(window)
            return
        for example in records.examples(self._workload, self._data):
            yield {name: _stored(value) for name, value in example.items()}


def _stored(value: Any) -> Any:
    if isinstance(value, bytes):
        return value
    if value.dtype.kind == "S":
        return value[()].decode()
    return value if value.ndim else value.item()


class Chunks:
    """A data set and its loader; the data set is told the epoch, by which it shuffles."""

    def __init__(
        self, workload: str, path: Path, data: Path, batch_size: int, seed: int, *, workers: int, **options: Any
    ) -> None:
        from litdata import StreamingDataLoader, StreamingDataset, TokensLoader

        logging.getLogger("litdata").setLevel(logging.ERROR)
        self._fields = records.fields(data)
        if workload == "d":
            options["item_loader"] = TokensLoader(block_size=records.window(data))
        self._dataset = StreamingDataset(str(path), shuffle=True, seed=seed, drop_last=False, **options)
        self._loader = StreamingDataLoader(
            self._dataset,
            batch_size=batch_size,
            num_workers=workers,
            collate_fn=None if workload == "d" else self._collate,
            persistent_workers=workers > 0,
        )

    def epoch(self, number: int) -> Iterator[dict[str, Any]]:
        for batch in self._loader:
            if isinstance(batch, dict):
                yield {name: np.asarray(column) for name, column in batch.items()}
            else:
                yield {"tokens": np.asarray(batch)}

    def _collate(self, examples: list[dict[str, Any]]) -> dict[str, Any]:
        import torch

        columns = records.stack([records.decode(example) for example in examples])
        typed = {name: columns[name].astype(dtype, copy=False) for name, dtype in self._fields.items()}
        if "image" in columns:
            typed["image"] = columns["image"]
        return {name: column if column.dtype.kind == "S" else torch.from_numpy(column) for name, column in typed.items()}


def open(workload: str, data: Path, prepared: Path, config: str, *, batch_size: int, workers: int, seed: int) -> Chunks:
    return Chunks(workload, prepared, data, batch_size, seed, **CONFIGS[config])
