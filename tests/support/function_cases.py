"""Functions for loaders made of one, and transforms that look around, in a module that worker processes can import."""

from __future__ import annotations

import os
import random
import sys
import time
from typing import Any

import numpy as np
import numpy.typing as npt

from arrayfeed.loaders import get_worker_info

__all__ = ["FRAMEWORKS", "draw", "draw_globally", "look_around", "seen_at_start", "tell_worker"]

FRAMEWORKS = ("torch", "jax", "tensorflow", "keras", "tqdm", "matplotlib")

_at_start: list[tuple[int, ...]] = []


def draw(step: int, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
    """A batch of random rows, and its step."""
    return {"step": np.full(4, step), "noise": rng.normal(size=(4, 3)).astype(np.float32)}


def look_around(example: dict[str, Any]) -> dict[str, Any]:
    """Add which frameworks this process has imported, and its number."""
    return {"x": example["x"], "imported": [name in sys.modules for name in FRAMEWORKS], "pid": os.getpid()}


def seen_at_start(worker: int) -> None:
    """A ``worker_init_fn`` that notes what ``get_worker_info`` says."""
    info = get_worker_info()
    assert info is not None
    _at_start.append((worker, info.id, info.num_workers, info.seed))


def draw_globally(example: dict[str, Any]) -> dict[str, Any]:
    """Return numbers of the generators that NumPy, Python and torch, where it is there, keep for everybody; after a while."""
    time.sleep(0.002)
    torch = sys.modules.get("torch")
    drawn = [np.random.randint(1 << 30), random.getrandbits(30), 0 if torch is None else int(torch.randint(1 << 30, ()))]
    return {"pid": os.getpid(), "drawn": np.array(drawn)}


def tell_worker(example: dict[str, Any]) -> dict[str, Any]:
    """Add what ``get_worker_info`` says here, -1 for nothing."""
    info = get_worker_info()
    if info is None:
        return {"id": -1, "num_workers": -1, "seed": 0, "length": -1, "start": -1}
    (start,) = _at_start or [(-1,)]
    length = len(info.dataset)
    return {"id": info.id, "num_workers": info.num_workers, "seed": info.seed, "length": length, "start": start[-1]}
