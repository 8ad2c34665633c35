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

from arrayfeed.datasource.features import ClassLabel, FeaturesDict, Image, Tensor
from arrayfeed.datasource.processors import count_cpus
from arrayfeed.datasource.writing import DatasetWriter, write_dataset
from arrayfeed.datasource.writing.codec import writer_options
from arrayfeed.datasource.writing.encoder import RecordEncoder
from support.written import read_records


def test_writing_small_arrays_keeps_up_with_array_record(tmp_path: Path, full_size: bool, rng: np.random.Generator) -> None:
    """From arrays, 100,000 examples/s a core or 0.7 of the bare writer, whichever is less; all checks counted in.

    Counted in seconds of processor time, of array_record's own threads too: a core's, however busy the machine is.
    """
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
                start = time.process_time()
                way(path, codec)
                seconds[name].append(time.process_time() - start)
                if path.is_dir():
                    assert number or read_records(path)["train"] == records
                    shutil.rmtree(path)
        rates = {name: count / statistics.median(times) for name, times in seconds.items()}
        of_bare = {
            name: statistics.median(bare / ours for bare, ours in zip(seconds["bare array_record"], times, strict=True))
            for name, times in seconds.items()
        }
        for name, rate in rates.items():
            print(f"{codec:5} {name:18} {rate:8,.0f} examples/s   {of_bare[name]:.2f} of bare")
        if full_size:
            assert rates["write_columns"] >= 100_000 or of_bare["write_columns"] >= 0.7


class Pictures:
    """Pictures made when they are asked for, so that there is nothing to send to the processes."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"image": np.random.default_rng(index).integers(0, 256, (96, 96, 3), dtype=np.uint8), "label": index % 10}


def test_all_processors_write(tmp_path: Path, full_size: bool) -> None:
    """``write_dataset`` of pictures that are encoded as PNG, by one process and by as many as there are processors."""
    count, rounds = (8000, 5) if full_size else (40, 1)
    features = FeaturesDict({"image": Image(shape=(96, 96, 3)), "label": ClassLabel(10)})
    seconds: dict[int, list[float]] = {1: [], count_cpus(): []}
    sources: dict[str, Any] = {"train": Pictures(count)}
    roots = set()
    for number in range(rounds):
        for workers, times in seconds.items():
            path = tmp_path / f"{workers} {number}"
            start = time.perf_counter()
            roots.add(write_dataset(path, sources, features, name="a", num_workers=workers, num_shards=4 * count_cpus()))
            times.append(time.perf_counter() - start)
            shutil.rmtree(path)

    assert len(roots) == 1, "the same data set, whoever wrote it"
    ratios = [one / all_ for one, all_ in zip(*seconds.values(), strict=True)]
    for workers, times in seconds.items():
        print(f"{workers} processes   {count / statistics.median(times):8,.0f} examples/s")
    print(f"{statistics.median(ratios):.2f} times as fast, of {count_cpus()} processors")
