"""Hugging Face datasets: Arrow tables on disk, mapped into memory.

Configurations after https://huggingface.co/docs/datasets/use_with_pytorch ("Data loading") and .../use_with_pyarrow: the torch
format under PyTorch's ``DataLoader``, with workers or without; and the Arrow format with its own ``shuffle`` and
``iter(batch_size)``. Images are the ``Image`` feature, which Pillow decodes, or bytes that OpenCV decodes. Texts for language
models are packed before they are written, as in https://huggingface.co/learn/llm-course/chapter7/6.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from . import records

NAME = "Hugging Face datasets"
CONFIGS: dict[str, dict[str, Any]] = {
    "default": {"format": "torch", "workers": 0},
    "workers": {"format": "torch", "workers": 2, "opencv": True},
    "tuned": {"format": "arrow", "opencv": True},
}
WORKLOADS = set("abcdef")
SKIPPED: dict[str, str] = {}


def version() -> str:
    from importlib.metadata import version

    return version("datasets")


def prepare(workload: str, data: Path, into: Path) -> None:
    import datasets

    datasets.disable_progress_bars()
    first = next(_rows(workload, data))
    features = datasets.Features({name: _feature(datasets, value) for name, value in first.items()})
    arguments = {"workload": workload, "data": data}
    table = datasets.Dataset.from_generator(_rows, gen_kwargs=arguments, features=features, cache_dir=str(into / "cache"))
    table.save_to_disk(str(into / "table"))
    shutil.rmtree(into / "cache")


def _rows(workload: str, data: Path) -> Iterator[dict[str, Any]]:
    if workload == "d":
        for window in records.windows(data):
            yield {"tokens": window}
        return
    for example in records.examples(workload, data):
        yield {name: _plain(value) for name, value in example.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value
    if value.ndim:
        return value.tobytes() if value.nbytes > 10_000 and value.dtype == np.uint8 else value
    return value[()].decode() if value.dtype.kind == "S" else value[()]


def _feature(datasets: Any, value: Any) -> Any:
    """Return the feature of a value: bytes, lists of a fixed length, or its arrays of several axes."""
    if isinstance(value, bytes | str):
        return datasets.Value("binary" if isinstance(value, bytes) else "string")
    dtype = str(value.dtype)
    if not value.ndim:
        return datasets.Value(dtype)
    if value.ndim == 1:
        return datasets.Sequence(datasets.Value(dtype), length=len(value))
    return {2: datasets.Array2D, 3: datasets.Array3D}[value.ndim](shape=value.shape, dtype=dtype)


class Rows:
    """A table in torch format, of which PyTorch's loader takes the rows."""

    def __init__(self, table: Any, fields: dict[str, np.dtype[Any]], batch_size: int, *, workers: int) -> None:
        import torch

        # The format turns float64 into float32, cannot hold text, and takes zeros from the end of bytes: these columns come as
        # plain values.
        plain = [name for name, dtype in fields.items() if dtype.kind == "S" or dtype == np.float64 or name == "blob"]
        formatted = [name for name in table.column_names if name not in plain]
        self._loader = torch.utils.data.DataLoader(
            table.with_format("torch", columns=formatted, output_all_columns=True),
            batch_size=batch_size,
            shuffle=True,
            num_workers=workers,
            collate_fn=self._collate,
            persistent_workers=workers > 0,
        )
        self._fields = fields

    def epoch(self, number: int) -> Iterator[dict[str, Any]]:
        for batch in self._loader:
            yield {name: np.asarray(column) for name, column in batch.items()}

    def _collate(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        import torch

        columns: dict[str, Any] = {}
        for name in rows[0]:
            values = [row[name] for row in rows]
            if name in records.DECODED:
                columns["image"] = torch.from_numpy(np.stack([_decoded(name, value) for value in values]))
            elif name == "blob":
                columns[name] = torch.stack([torch.frombuffer(bytearray(value), dtype=torch.uint8) for value in values])
            elif isinstance(values[0], torch.Tensor):
                columns[name] = torch.stack(values)
            else:
                columns[name] = np.array(values, self._fields[name])
        return columns


def _decoded(name: str, value: Any) -> Any:
    """Decode an image; one that Pillow has decoded comes as a tensor, channels first."""
    if isinstance(value, bytes):
        return records.DECODED[name][1](value)
    image = np.asarray(value.permute(1, 2, 0) if value.ndim == 3 else value[..., None])
    return records.augment(image) if name == "jpeg" else image


class Columns:
    """A table in Arrow format, shuffled and cut into batches by itself; its columns are seen as arrays, not copied."""

    def __init__(self, table: Any, fields: dict[str, np.dtype[Any]], batch_size: int, seed: int) -> None:
        self._table = table.with_format("arrow")
        self._features = table.features
        self._fields = fields
        self._batch_size = batch_size
        self._seed = seed

    def epoch(self, number: int) -> Iterator[dict[str, Any]]:
        for batch in self._table.shuffle(seed=self._seed + number).iter(batch_size=self._batch_size):
            yield dict(self._column(name, batch.column(name).combine_chunks()) for name in batch.column_names)

    def _column(self, name: str, column: Any) -> tuple[str, Any]:
        if name in records.DECODED:
            field, decode = records.DECODED[name]
            return field, np.stack([decode(value.as_buffer()) for value in column])
        dtype = self._fields[name]
        if name == "blob":
            return name, np.stack([np.frombuffer(value.as_buffer(), np.uint8) for value in column])
        if dtype.kind in "Sb":
            return name, column.to_numpy(zero_copy_only=False).astype(dtype)
        shape = getattr(self._features[name], "shape", None) or (getattr(self._features[name], "length", None),)
        values = getattr(column, "storage", column)
        while hasattr(values, "flatten") and values.type.num_fields:
            values = values.flatten()
        array = values.to_numpy()
        return name, array.reshape(len(column), *shape) if shape != (None,) else array


def open(workload: str, data: Path, prepared: Path, config: str, *, batch_size: int, workers: int, seed: int) -> Rows | Columns:
    import datasets

    options = CONFIGS[config]
    table = datasets.load_from_disk(str(prepared / "table"))
    fields = records.fields(data)
    for name in records.DECODED.keys() & set(table.column_names):
        if not options.get("opencv"):
            table = table.cast_column(name, datasets.Image())
    if options["format"] == "arrow":
        return Columns(table, fields, batch_size, seed)
    return Rows(table, fields, batch_size, workers=options["workers"])
