"""Writing 28x28 uint8 images and labels, against array_record's bare writer over the same records, ready made."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from array_record.python.array_record_module import ArrayRecordWriter

from arrayfeed.datasource.features import ClassLabel, FeaturesDict, Tensor
from arrayfeed.datasource.writing import DatasetWriter
from arrayfeed.datasource.writing.codec import writer_options
from arrayfeed.datasource.writing.encoder import RecordEncoder
from support.written import read_records


def test_writing_small_arrays_keeps_up_with_array_record(tmp_path: Path, full_size: bool, rng: np.random.Generator) -> None:
    """From arrays, 100,000 examples/s or 0.7 of the bare writer, whichever is less; fsync and the checks counted in."""
    count, rounds = (60_000, 5) if full_size else (1000, 1)
    features = FeaturesDict({"image": Tensor(shape=(28, 28), dtype=np.uint8, encoding="bytes"), "label": ClassLabel(10)})
    columns: dict[str, np.ndarray[Any, Any]] = {
        "image": rng.integers(0, 256, (count, 28, 28), dtype=np.uint8),
        "label": rng.integers(0, 10, count),
    }
    columns["image"][:, :, 10:] = 0  # drawings are mostly background: something for zstd to do
    records = list(RecordEncoder(features).encode_columns(columns, count))

    def bare(path: Path, codec: str) -> None:
        writer = ArrayRecordWriter(str(path), writer_options(codec))
        for record in records:
            writer.write(record)
        writer.close()

    def by_columns(path: Path, codec: str) -> None:
        with DatasetWriter(path, features, codec=codec) as writer:
            writer.write_columns(columns)

    def by_example(path: Path, codec: str) -> None:
        with DatasetWriter(path, features, codec=codec) as writer:
            for image, label in zip(columns["image"], columns["label"], strict=True):
                writer.write({"image": image, "label": label})

    ways: dict[str, Callable[[Path, str], None]] = {
        "bare array_record": bare,
        "write_columns": by_columns,
        "write": by_example,
    }
    for codec in ("none", "zstd"):
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(rounds):
            for name, way in ways.items():
                path = tmp_path / f"{name} {number}"
                start = time.perf_counter()
                way(path, codec)
                seconds[name].append(time.perf_counter() - start)
                if path.is_dir():
                    assert number or read_records(path)["train"] == records
                    shutil.rmtree(path)
        rates = {name: count / statistics.median(times) for name, times in seconds.items()}
        for name, rate in rates.items():
            print(f"{codec:5} {name:18} {rate:8,.0f} examples/s   {rate / rates['bare array_record']:.2f} of bare")
        if full_size:
            assert rates["write_columns"] >= min(100_000, 0.7 * rates["bare array_record"])
