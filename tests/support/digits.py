"""scikit-learn's handwritten digits as a dataset on disk, for tests that train."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import arrayfeed


def write_digits(path: Path) -> Path:
    """Write 1,437 training and 360 test digits, PNG images of 8 x 8 pixels and labels, in shards of 400."""
    digits = load_digits()
    pixels = np.rint(digits.images * (255 / 16)).astype(np.uint8)[..., np.newaxis]
    features = {
        "image": arrayfeed.features.Image(shape=(8, 8, 1)),
        "label": arrayfeed.features.ClassLabel(num_classes=10),
    }
    order = np.random.default_rng(0).permutation(len(pixels))
    with arrayfeed.DatasetWriter(path, features=features, name="digits", shard_records=400) as writer:
        for place, number in enumerate(order):
            example = {"image": pixels[number], "label": int(digits.target[number])}
            writer.write(example, split="train" if place < 1437 else "test")
    return path
