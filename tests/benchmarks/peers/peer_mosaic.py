"""MosaicML Streaming: records in MDS shards, shuffled in blocks of shards.

Configurations after https://docs.mosaicml.com/projects/streaming/en/stable/ ("Shuffling", "Performance tuning"): ``py1e`` in
blocks as it sets them itself, the batch size told to the data set, and its ``StreamingDataLoader``. For language models its
users pack texts into windows before they write them, so (d) reads whole windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from . import records

NAME = "MosaicML Streaming"
CONFIGS: dict[str, dict[str, Any]] = {
    "default": {"workers": 0},
    # Images as their bytes and by OpenCV instead of as images and by Pillow.
    "in process": {"workers": 0, "opencv": True},
    "tuned": {"workers": 2, "opencv": True},
}
WORKLOADS = set("abcdef")
SKIPPED: dict[str, str] = {}
_DECLARED: list[Any] = []  # operators are gone with the object that declares them


def version() -> str:
    from importlib.metadata import version

    return version("mosaicml-streaming")


def declare_operators() -> None:
    """Let torchvision be imported, as ``streaming`` does for data sets that are not used here: its wheel, made for CUDA, cannot
    load its own operators beside a PyTorch without, and what it says of two of them is an error where they are unknown.
    """
    import torch

    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            operators = torch.library.Library("torchvision", "FRAGMENT")
            operators.define(f"{name}(Tensor boxes, Tensor scores, float threshold) -> Tensor")
            _DECLARED.append(operators)


def prepare(workload: str, data: Path, into: Path) -> None:
    declare_operators()
    from streaming import MDSWriter

    if workload == "d":
        examples: Iterator[dict[str, Any]] = ({"tokens": window} for window in records.windows(data))
    else:
        examples = records.examples(workload, data)
    first = next(examples)
    columns = {name: _encoding(name, value) for name, value in first.items()}
    with MDSWriter(columns=columns, out=str(into)) as writer:
        for example in (first, *examples):
            writer.write({name: _stored(value) for name, value in example.items()})


def _encoding(name: str, value: Any) -> str:
    if isinstance(value, bytes) or value.dtype.kind in "S":
        return "bytes"
    if value.dtype.kind == "b":
        return "uint8"
    return f"ndarray:{value.dtype}:{','.join(map(str, value.shape))}" if value.ndim else str(value.dtype)


def _stored(value: Any) -> Any:
    if isinstance(value, bytes):
        return value
    if value.dtype.kind == "S":
        return bytes(value[()])
    if value.dtype.kind == "b":
        return value.astype(np.uint8)[()]
    return value if value.ndim else value[()]


class Streamed:
    """A data set and its loader, which count the epochs themselves."""

    def __init__(self, path: Path, data: Path, batch_size: int, seed: int, *, workers: int, opencv: bool = False) -> None:
        declare_operators()
        from streaming import StreamingDataLoader, StreamingDataset
        from streaming.base.util import clean_stale_shared_memory

        clean_stale_shared_memory()
        self._fields = records.fields(data)
        self._dataset = StreamingDataset(local=str(path), shuffle=True, batch_size=batch_size, shuffle_seed=seed)
        self._loader = StreamingDataLoader(
            self._dataset,
            batch_size=batch_size,
            num_workers=workers,
            collate_fn=self._collate,
            persistent_workers=workers > 0,
        )
        self._decode = records.decode if opencv else by_pillow

    def epoch(self, number: int) -> Iterator[dict[str, Any]]:
        for batch in self._loader:
            yield {name: np.asarray(column) for name, column in batch.items()}

    def _collate(self, examples: list[dict[str, Any]]) -> dict[str, Any]:
        import torch

        columns = records.stack([self._decode(example) for example in examples])
        typed = {name: columns[name].astype(dtype, copy=False) for name, dtype in self._fields.items()}
        if "image" in columns:
            typed["image"] = columns["image"]
        return {name: column if column.dtype.kind == "S" else torch.from_numpy(column) for name, column in typed.items()}


def by_pillow(example: dict[str, Any]) -> dict[str, Any]:
    """Decode an example's image by Pillow."""
    import io

    from PIL import Image

    decoded = dict(example)
    if "png" in example:
        decoded["image"] = np.asarray(Image.open(io.BytesIO(decoded.pop("png"))))[..., None]
    if "jpeg" in example:
        decoded["image"] = records.augment(np.asarray(Image.open(io.BytesIO(decoded.pop("jpeg")))))
    return decoded


def open(workload: str, data: Path, prepared: Path, config: str, *, batch_size: int, workers: int, seed: int) -> Streamed:
    return Streamed(prepared, data, batch_size, seed, **CONFIGS[config])
