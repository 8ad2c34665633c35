"""``num_workers="auto"`` against every fixed choice: once it has chosen, it is about as fast as the best of them.

Five sorts of work: columns of small images, which cost less to make than to send; PNG and JPEG, whose decoders release the GIL,
with an augmentation that does not; a transform in pure Python; and one that sleeps. Nothing is done with the batches.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import arrayfeed
from arrayfeed import DataLoader, DatasetWriter

FIXED: dict[str, Any] = {
    "in process": {"num_workers": 0},
    "1 process": {"num_workers": 1},
    "2 processes": {"num_workers": 2},
    "2 threads": {"num_workers": 2, "worker_type": "thread"},
    "8 threads": {"num_workers": 8, "worker_type": "thread"},
}


def small(count: int, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """Noise, of a digit's size."""
    return rng.integers(0, 256, (count, 28, 28, 1), dtype=np.uint8)


def photographs(count: int, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """Smooth noise, which JPEG makes about as large as photographs."""
    coarse = rng.integers(0, 256, (count, 16, 16, 3), dtype=np.uint8)
    fine = coarse.repeat(16, axis=1).repeat(16, axis=2).astype(np.int16)
    return (fine + rng.integers(-12, 12, fine.shape)).clip(0, 255).astype(np.uint8)


def augment(example: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Crop to 224 x 224, flip, and scale to float32."""
    top, left = rng.integers(0, 32, 2)
    image = example["image"][top : top + 224, left : left + 224]
    if rng.random() < 0.5:
        image = image[:, ::-1]
    return {"image": image.astype(np.float32) / 255, "label": example["label"]}


def toil(example: dict[str, Any]) -> dict[str, Any]:
    """Half a millisecond of pure Python."""
    total = 0
    for number in range(8000):
        total += number * number % 7
    return {"image": example["image"], "label": example["label"], "total": total}


def sleep(example: dict[str, Any]) -> dict[str, Any]:
    """A millisecond of waiting, as for a network."""
    time.sleep(0.001)
    return example


CASES: dict[str, tuple[Any, Callable[..., npt.NDArray[np.uint8]], int, Any]] = {
    "28x28 columns": ("tensor", small, 128, ()),
    "PNG": ("png", small, 128, ()),
    "224 JPEG, crop, flip": ("jpeg", photographs, 32, arrayfeed.loaders.RandomMap(augment)),
    "slow transform": ("tensor", small, 32, toil),
    "sleeping transform": ("tensor", small, 32, sleep),
}


def write(path: Path, kind: Any, images: npt.NDArray[np.uint8]) -> Any:
    """Write images, labelled by their number; return the data set."""
    shape = images.shape[1:]
    image: Any = (
        arrayfeed.features.Tensor(shape=shape, dtype=np.uint8, encoding="bytes")
        if kind == "tensor"
        else arrayfeed.features.Image(shape=shape, encoding_format=kind)
    )
    features = {"image": image, "label": arrayfeed.features.Scalar(np.int64)}
    with DatasetWriter(path, features, codec="none") as writer:
        for number, pixels in enumerate(images):
            writer.write({"image": pixels, "label": number})
    return arrayfeed.open(path, split="train")


@pytest.mark.parametrize("case", CASES)
def test_what_auto_chooses_is_about_as_fast_as_the_best_fixed_choice(
    case: str, tmp_path: Path, full_size: bool, rng: np.random.Generator
) -> None:
    """At least 0.9 of its rate, by the median of rounds in which all take turns."""
    kind, make, batch_size, transforms = CASES[case]
    count, rounds, seconds = (2000, 15, 0.6) if full_size else (64, 1, 0.02)
    source = write(tmp_path / "images", kind, make(count, rng))
    options: dict[str, Any] = {"batch_size": batch_size, "shuffle": True, "num_epochs": None, "transforms": transforms}
    options["warn_waiting"] = None  # nothing else is done, and that by turns
    auto = DataLoader(source, num_workers="auto", **options)
    chosen = iter(auto)
    end = time.monotonic() + (60 if full_size else 0.2)
    while not auto.stats().choice and time.monotonic() < end:
        read(chosen, seconds / 5)
    loaders = {name: DataLoader(source, **options, **fixed) for name, fixed in FIXED.items()}
    ways = {"auto": chosen, **{name: iter(loader) for name, loader in loaders.items()}}
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for batches in ways.values():
        read(batches, seconds)  # starts, and fills what is made ahead
    for number in range(rounds):
        for name in [*ways][:: 1 if number % 2 else -1]:
            rates[name].append(read(ways[name], seconds))
    medians = {name: statistics.median(rates[name]) for name in ways}
    best = max(FIXED, key=lambda name: medians[name])
    ratio = statistics.median(ours / theirs for ours, theirs in zip(rates["auto"], rates[best], strict=True))
    figures = ", ".join(f"{name} {medians[name] * batch_size:,.0f}" for name in ways)
    print(f"{case}: {figures} records/s; auto is {ratio:.2f} of {best!r}. {auto.stats().choice}")
    for loader in (auto, *loaders.values()):
        loader.close()

    if full_size:
        assert auto.stats().choice
        assert ratio >= 0.9


def read(batches: Iterator[Any], seconds: float) -> float:
    """Read what was made ahead while others had their turn, then for a while; return batches a second."""
    for _ in range(8):
        next(batches)
    start = time.perf_counter()
    number = 0
    while (elapsed := time.perf_counter() - start) < seconds:
        next(batches)
        number += 1
    return number / elapsed
