"""The same data as an ArrayRecord directory, which arrayfeed writes, with its index, and TFDS reads as its own."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["write_directory"]


def write_directory(data: Path) -> Path:
    """Write ``data``'s arrays to its folder ``arrayfeed``, unless it is there; return that folder."""
    import arrayfeed

    into = data / "arrayfeed"
    if into.exists():
        return into
    meta = json.loads((data / "meta.json").read_text())
    shards = meta["shards"]
    arrays = {path.stem: np.load(path, mmap_mode="r") for path in data.glob("*.npy")}
    count = meta["count"]
    shutil.rmtree(partial := data / "arrayfeed.part", ignore_errors=True)
    kind = "Tensor" if meta["workload"] != "b" else "Image"
    columns = {name: array for name, array in arrays.items() if len(array) == count}
    features = {name: _feature(name, array, kind) for name, array in columns.items()}
    if "jpeg" in arrays:
        columns["image"] = [piece.tobytes() for piece in _cut(arrays, "jpeg")]
        features["image"] = arrayfeed.features.Image(shape=(224, 224, 3), encoding_format="jpeg")
    if "tokens" in arrays:
        columns["tokens"] = _cut(arrays, "tokens")
        features["tokens"] = arrayfeed.features.Tensor(shape=(None,), dtype=np.int32, encoding="bytes")
    with arrayfeed.DatasetWriter(partial, features, name="data", codec="none", shard_records=-(-count // shards)) as writer:
        for number in range(0, count, 1000):
            rows = {name: column[number : number + 1000] for name, column in columns.items()}
            if all(isinstance(column, np.ndarray) for column in rows.values()) and kind == "Tensor":
                writer.write_columns(rows)
                continue
            for row in range(len(next(iter(rows.values())))):
                writer.write({name: column[row] for name, column in rows.items()})
    partial.rename(into)
    return into


def _cut(arrays: dict[str, Any], name: str) -> list[Any]:
    offsets = arrays["offsets"]
    return [arrays[name][start:stop] for start, stop in pairwise(offsets)]


def _feature(name: str, array: Any, kind: str) -> Any:
    from arrayfeed import features

    if name == "image" and kind == "Image":
        return features.Image(shape=(28, 28, 1), encoding_format="png")
    if array.dtype.kind == "S":
        return features.Text()
    if array.ndim == 1:
        return features.Scalar(array.dtype)
    return features.Tensor(shape=array.shape[1:], dtype=array.dtype, encoding="bytes" if array.dtype == np.uint8 else "none")
