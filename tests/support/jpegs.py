"""JPEG images in ArrayRecord shards, and what training does to each: one function, the same for every loader."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from support.shards import write_shard

__all__ = ["augment", "write_jpegs"]

_SIDE, _CROP = 224, 200


def write_jpegs(folder: Path, count: int, *, shards: int = 2) -> list[str]:
    """Write ``count`` images of 224 x 224, about 12 kB each as of photographs, to ``shards`` files; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    records = []
    for _ in range(count):
        small = rng.integers(0, 256, (28, 28, 3), dtype=np.uint8)
        image = cv2.resize(small, (_SIDE, _SIDE), interpolation=cv2.INTER_CUBIC)
        records.append(cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 90])[1].tobytes())
    paths = [folder / f"images-{k:05d}-of-{shards:05d}.array_record" for k in range(shards)]
    return [write_shard(path, records[k::shards]) for k, path in enumerate(paths)]


def augment(record: bytes) -> dict[str, Any]:
    """Decode, crop to 200 x 200, flip half of them, and turn to float32 in 0 to 1; where and which is in the bytes."""
    image: Any = cv2.imdecode(np.frombuffer(record, np.uint8), cv2.IMREAD_COLOR_RGB)
    top, left = len(record) % (_SIDE - _CROP), len(record) // 7 % (_SIDE - _CROP)
    crop = image[top : top + _CROP, left : left + _CROP]
    if len(record) % 2:
        crop = crop[:, ::-1]
    return {"image": np.multiply(crop, np.float32(1 / 255), dtype=np.float32), "size": len(record)}


def one_thread(worker: int = 0) -> None:
    """Let OpenCV use one thread, in a worker."""
    cv2.setNumThreads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
