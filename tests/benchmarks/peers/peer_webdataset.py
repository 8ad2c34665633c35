"""WebDataset: records in tar files, read in a row and shuffled in a buffer.

Configurations after its README (https://github.com/webdataset/webdataset) and its documentation
(https://webdataset.github.io/webdataset/gettingstarted/): shards are shuffled and then records in a buffer of 1,000; images
decoded by its own ``decode``, through Pillow; ``WebLoader`` with workers, which batch for themselves. Its wish for many shards
is met with 32, so that shuffling these means something.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from . import records

NAME = "WebDataset"
CONFIGS: dict[str, dict[str, Any]] = {
    "default": {"workers": 0},
    # Images by OpenCV instead of Pillow; with workers, batches as tensors, which go through shared memory.
    "in process": {"workers": 0, "opencv": True},
    "tuned": {"workers": 2, "opencv": True},
}
WORKLOADS = set("abcef")
SKIPPED = {"d": "no packing of its own: a generator of the user's would do it"}
SHARDS = 32
SHUFFLE = 1_000


def version() -> str:
    from importlib.metadata import version

    return version("webdataset")


def prepare(workload: str, data: Path, into: Path) -> None:
    import webdataset

    examples = list(records.examples(workload, data))
    with webdataset.ShardWriter(str(into / "%04d.tar"), maxcount=-(-len(examples) // SHARDS), verbose=0) as writer:
        for number, example in enumerate(examples):
            writer.write({"__key__": f"{number:08d}", **_files(workload, example)})


def _files(workload: str, example: dict[str, Any]) -> dict[str, bytes]:
    """Return a record's files by ending: each of a type that ``decode`` knows; a row of a table is one file."""
    if workload == "e":
        return {"pyd": pickle.dumps(example)}
    files = {"cls": str(int(example["label"])).encode()}
    for name, value in example.items():
        if name == "image":
            file = io.BytesIO()
            np.save(file, value)
            files["npy"] = file.getvalue()
        elif name != "label":
            files[_ENDINGS[name]] = bytes(value)
    return files


_ENDINGS = {"png": "png", "jpeg": "jpg", "blob": "bin"}


class Tars:
    """A pipeline over the shards, made anew for every epoch, with a seed of its own."""

    def __init__(self, paths: list[str], data: Path, batch_size: int, seed: int, *, workers: int, opencv: bool = False) -> None:
        self._paths = paths
        self._fields = records.fields(data)
        self._batch_size = batch_size
        self._seed = seed
        self._workers = workers
        self._opencv = opencv

    def epoch(self, number: int) -> Iterator[dict[str, Any]]:
        import webdataset

        dataset = webdataset.WebDataset(self._paths, shardshuffle=len(self._paths), seed=self._seed + number, empty_check=False)
        dataset = dataset.shuffle(SHUFFLE, seed=self._seed + number)
        dataset = dataset.decode(*self._handlers()).map(self._example).batched(self._batch_size, collation_fn=records.stack)
        if not self._workers:
            yield from webdataset.WebLoader(dataset, batch_size=None)
            return
        for batch in webdataset.WebLoader(dataset.map(as_tensors), batch_size=None, num_workers=self._workers):
            yield {name: np.asarray(column) for name, column in batch.items()}

    def _handlers(self) -> list[Any]:
        return [by_opencv] if self._opencv else ["l8" if "image" in self._fields else "rgb8"]

    def _example(self, sample: dict[str, Any]) -> dict[str, Any]:
        """Return a sample's files as the fields that they were."""
        if "pyd" in sample:
            return dict(sample["pyd"])
        example = {"label": np.int64(sample["cls"])}
        if "bin" in sample:
            example["blob"] = np.frombuffer(sample["bin"], np.uint8)
        elif "npy" in sample:
            example["image"] = sample["npy"]
        elif "png" in sample:
            example["image"] = sample["png"] if self._opencv else sample["png"][..., None]
        else:
            example["image"] = sample["jpg"] if self._opencv else records.augment(sample["jpg"])
        return example


def as_tensors(batch: dict[str, Any]) -> dict[str, Any]:
    """Return a batch's columns as tensors, but for texts; the keys of its samples are left out."""
    import torch

    columns = {name: column for name, column in batch.items() if not name.startswith("__")}
    return {name: column if column.dtype.kind == "S" else torch.from_numpy(column) for name, column in columns.items()}


def by_opencv(key: str, data: bytes) -> Any:
    """Decode a file, if it is an image: a handler for ``decode``."""
    if key == ".png":
        return records.decode_png(data)
    return records.decode_jpeg(data) if key == ".jpg" else None


def open(workload: str, data: Path, prepared: Path, config: str, *, batch_size: int, workers: int, seed: int) -> Tars:
    return Tars(sorted(map(str, prepared.glob("*.tar"))), data, batch_size, seed, **CONFIGS[config])
