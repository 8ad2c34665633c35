"""SPDL: a pipeline of stages on threads, over what its user brings; it has no format of its own.

Configurations after its documentation (https://facebookresearch.github.io/spdl/main/getting_started/pytorch.html,
"Restructuring PyTorch Datasets for SPDL", and .../best_practice.html): reading and decoding are stages, images are decoded,
cropped and flipped by its own FFmpeg, and a batch of them is made at once by ``convert_frames``. The records lie in ``.npy``
files that are mapped into memory.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import records

NAME = "SPDL"
CONFIGS: dict[str, dict[str, Any]] = {
    # Records one by one, then collated: PyTorch's way, as its guide begins with.
    "default": {"whole_batches": False},
    # Batches as the unit of a stage, one for each core: what the guide ends with.
    "tuned": {"whole_batches": True},
    "tuned, OpenCV": {"whole_batches": True, "opencv": True},
}
WORKLOADS = set("abcef")
SKIPPED = {"d": "no packing: its stages are the user's"}
THREADS = 2


def version() -> str:
    from importlib.metadata import version

    return version("spdl")


def prepare(workload: str, data: Path, into: Path) -> None:
    records.write_arrays(workload, data, into)


class Stages:
    """A pipeline for each epoch, over a new order of the records' numbers."""

    def __init__(
        self,
        workload: str,
        data: Path,
        prepared: Path,
        batch_size: int,
        seed: int,
        *,
        whole_batches: bool,
        opencv: bool = False,
    ) -> None:
        self._arrays, self._name, self._encoded, offsets = records.map_arrays(workload, data, prepared)
        self._offsets = offsets.tolist()
        self._batch_size = batch_size
        self._seed = seed
        self._whole_batches = whole_batches
        self._opencv = opencv
        if self._name is not None and not opencv:
            self._frames(0)  # says so if there is no FFmpeg; a stage that fails only loses its records

    def epoch(self, number: int) -> Iterator[dict[str, Any]]:
        from spdl.pipeline import PipelineBuilder

        order = np.random.default_rng([self._seed, number]).permutation(len(self._arrays["label"])).tolist()
        builder = PipelineBuilder().add_source(order)
        if self._whole_batches:
            builder = builder.aggregate(self._batch_size).pipe(self._batch, concurrency=THREADS)
        else:
            builder = builder.pipe(self._example, concurrency=THREADS).aggregate(self._batch_size).pipe(self._collate)
        pipeline = builder.add_sink(4).build(num_threads=THREADS)
        with pipeline.auto_stop():
            yield from pipeline

    def _example(self, index: int) -> dict[str, Any]:
        """Return a record; an image as decoded frames."""
        example = {name: array[index] for name, array in self._arrays.items()}
        return example if self._name is None else {**example, "image": self._frames(index)}

    def _collate(self, examples: Sequence[dict[str, Any]]) -> dict[str, Any]:
        columns = records.stack([{name: value for name, value in each.items() if name != "image"} for each in examples])
        if self._name is not None:
            columns["image"] = self._converted([example["image"] for example in examples])
        elif "image" in self._arrays:
            columns["image"] = np.stack([example["image"] for example in examples])
        return columns

    def _batch(self, chosen: Sequence[int]) -> dict[str, Any]:
        columns = {name: array[chosen] for name, array in self._arrays.items()}
        if self._name is not None and self._opencv:
            columns["image"] = np.stack([records.DECODED[self._name][1](self._bytes(index)) for index in chosen])
        elif self._name is not None:
            columns["image"] = self._converted([self._frames(index) for index in chosen])
        return columns

    def _bytes(self, index: int) -> bytes:
        return self._encoded[self._offsets[index] : self._offsets[index + 1]].tobytes()

    def _frames(self, index: int) -> Any:
        """Return an image decoded by SPDL; a JPEG cropped and half of them flipped, too."""
        import spdl.io

        packets = spdl.io.demux_image(self._bytes(index))
        if self._name == "png":
            return spdl.io.decode_packets(packets, filter_desc=None)
        left, top = random.randrange(25), random.randrange(25)
        flip = ",hflip" if random.random() < 0.5 else ""
        crop = f"crop={records.CROP}:{records.CROP}:{left}:{top}{flip}"
        return spdl.io.decode_packets(packets, filter_desc=spdl.io.get_video_filter_desc(filter_desc=crop, pix_fmt="rgb24"))

    def _converted(self, frames: list[Any]) -> Any:
        import spdl.io

        array = spdl.io.to_numpy(spdl.io.convert_frames(frames))
        return array if self._name == "png" else np.multiply(array, np.float32(1 / 255), dtype=np.float32)


def open(workload: str, data: Path, prepared: Path, config: str, *, batch_size: int, workers: int, seed: int) -> Stages:
    return Stages(workload, data, prepared, batch_size, seed, **CONFIGS[config])
