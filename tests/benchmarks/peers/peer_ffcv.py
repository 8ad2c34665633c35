"""FFCV: one file, read by threads that run a pipeline which Numba has compiled.

Configurations after https://docs.ffcv.io/making_dataloaders.html and .../parameter_tuning.html ("Small dataset"): ``RANDOM``
order from the operating system's cache, as many workers as there are cores; for what does not fit in it, ``QUASI_RANDOM`` with
a cache of its own. Images are written as JPEG of quality 90, decoded again for that: it takes no encoded ones.

It is not on PyPI as a wheel. What it takes to build it: a C++ compiler, ``pkg-config``, libturbojpeg and OpenCV with their
headers (``install.py`` beside this file has the names).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from . import records

NAME = "FFCV"
CONFIGS: dict[str, dict[str, Any]] = {
    "default": {"order": "RANDOM"},  # its own default order is SEQUENTIAL: no shuffle at all
    "own cache": {"order": "QUASI_RANDOM", "os_cache": False, "num_workers": 2},
    "tuned": {"order": "RANDOM", "os_cache": True, "num_workers": 2},
}
WORKLOADS = set("ace")
SKIPPED = {
    "b": "no PNG: images are raw or JPEG",
    "d": "no packing, and no field of varied length but bytes",
    "f": "it compiles for seconds whenever it is opened, as it must be after the page cache was dropped",
}


def version() -> str:
    from importlib.metadata import version

    return version("ffcv")


def prepare(workload: str, data: Path, into: Path) -> None:
    from ffcv.fields import FloatField, IntField, NDArrayField, RGBImageField
    from ffcv.writer import DatasetWriter

    rows = Rows(list(records.examples(workload, data)))

    def field(name: str, value: Any) -> Any:
        if name == "jpeg":
            return RGBImageField(write_mode="jpg", jpeg_quality=90)
        if value.ndim:
            return NDArrayField(shape=value.shape, dtype=value.dtype)
        return FloatField() if value.dtype.kind == "f" else IntField()

    fields = {"image" if name == "jpeg" else name: field(name, value) for name, value in zip(rows.names, rows[0], strict=True)}
    DatasetWriter(str(into / "data.beton"), fields, num_workers=1).from_indexed_dataset(rows)


class Rows:
    """Examples as the tuples that the writer takes: texts as their bytes, JPEGs decoded."""

    def __init__(self, examples: list[dict[str, Any]]) -> None:
        self._examples = examples
        self.names = [*examples[0]]

    def __len__(self) -> int:
        return len(self._examples)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return tuple(self._value(value) for value in self._examples[index].values())

    def _value(self, value: Any) -> Any:
        if isinstance(value, bytes):
            import cv2

            return cv2.imdecode(np.frombuffer(value, np.uint8), cv2.IMREAD_COLOR_RGB)
        if value.dtype.kind == "S":
            return np.frombuffer(value.tobytes(), np.uint8)
        return np.ascontiguousarray(value) if value.ndim else value[()]


class Compiled:
    """A loader, whose every pass is an epoch; its buffers are the caller's until the next batch but a few."""

    def __init__(self, path: Path, fields: dict[str, np.dtype[Any]], workload: str, batch_size: int, seed: int, **options: Any):
        from ffcv.loader import Loader, OrderOption

        order = OrderOption[options.pop("order")]
        pipelines = {"image": _photograph(), "label": _scalar()} if workload == "c" else {}
        self._fields = fields
        self._loader = Loader(
            str(path), batch_size=batch_size, order=order, seed=seed, drop_last=False, pipelines=pipelines, **options
        )
        self._names = [*self._loader.pipeline_specs]

    def epoch(self, number: int) -> Iterator[dict[str, Any]]:
        for columns in self._loader:
            yield {name: self._typed(name, np.asarray(each)) for name, each in zip(self._names, columns, strict=True)}

    def _typed(self, name: str, column: Any) -> Any:
        """Return a column as what it was: numbers come as int64 or float64, ``(n, 1)``, texts as their bytes."""
        dtype = self._fields.get(name)
        if dtype is None or (column.dtype == dtype and column.shape[1:] != (1,)):
            return column
        if dtype.kind == "S":
            return column.view(dtype).reshape(len(column))
        return column.reshape(len(column)).astype(dtype, copy=False)


def _photograph() -> list[Any]:
    """Decode, take 200 x 200 of 224 x 224 at random (its crop resizes; of this area it has nothing to resize), flip, scale."""
    from ffcv.fields.rgb_image import RandomResizedCropRGBImageDecoder
    from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, ToTensor

    area = (records.CROP / 224) ** 2
    crop = RandomResizedCropRGBImageDecoder((records.CROP, records.CROP), scale=(area, area), ratio=(1.0, 1.0))
    return [crop, RandomHorizontalFlip(), NormalizeImage(np.zeros(3), np.full(3, 255.0), np.float32), ToTensor()]


def _scalar() -> list[Any]:
    from ffcv.fields.basics import IntDecoder
    from ffcv.transforms import ToTensor

    return [IntDecoder(), ToTensor()]


def open(workload: str, data: Path, prepared: Path, config: str, *, batch_size: int, workers: int, seed: int) -> Compiled:
    return Compiled(prepared / "data.beton", records.fields(data), workload, batch_size, seed, **CONFIGS[config])
