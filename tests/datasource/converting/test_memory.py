"""Conversions stream: what they hold in memory does not grow with the input."""

from __future__ import annotations

import gzip
import io
import shutil
import tarfile
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from arrayfeed.datasource.converting import (
    convert_arrayrecord,
    convert_arrays,
    convert_tfrecord,
    convert_webdataset,
    export_folder,
    export_tfrecord,
)
from arrayfeed.datasource.example.wire import serialize_example
from support.tfrecords import write_tfrecord

#: Of the smaller input, and how many times that the larger is.
RECORDS, RECORD_BYTES, TIMES = 800, 20_000, 4


def make_inputs(directory: Path, count: int, rng: np.random.Generator) -> None:
    """Write records that no codec makes smaller, in every form."""
    x = rng.integers(0, 256, (count, RECORD_BYTES), dtype=np.uint8)
    plain = write_tfrecord(directory / "x.tfrecord", (serialize_example({"x": [row.tobytes()]}) for row in x))
    with open(plain, "rb") as file, gzip.open(directory / "x.gz", "wb", 1) as packed:
        shutil.copyfileobj(file, packed)
    np.savez(directory / "stored.npz", x=x)
    np.savez_compressed(directory / "compressed.npz", x=x)
    with tarfile.open(directory / "x.tar", "w") as tar:
        for number, row in enumerate(x):
            info = tarfile.TarInfo(f"{number:06d}.bin")
            info.size = RECORD_BYTES
            tar.addfile(info, io.BytesIO(row.tobytes()))


def peak_of(task: Callable[[], object]) -> int:
    """Return the most bytes that Python and NumPy held at once meanwhile; what is mapped is the system's to take back."""
    tracemalloc.start()
    try:
        task()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def run(kind: str, inputs: Path, path: Path) -> None:
    """Convert or export one of the inputs."""
    tasks: dict[str, Callable[[], object]] = {
        "tfrecord": lambda: convert_tfrecord(inputs / "x.tfrecord", path, num_workers=0),
        "gzip": lambda: convert_tfrecord(inputs / "x.gz", path, num_workers=0),
        "stored": lambda: convert_arrays(inputs / "stored.npz", path, num_workers=0),
        "compressed": lambda: convert_arrays(inputs / "compressed.npz", path, num_workers=0),
        "tar": lambda: convert_webdataset(inputs / "x.tar", path, num_workers=0),
        "arrayrecord": lambda: convert_arrayrecord(inputs / "data", path, num_workers=0),
        "export": lambda: export_tfrecord(inputs / "data", path, num_workers=0),
        "npz": lambda: export_folder(inputs / "data", path, form="npz", num_workers=0),
    }
    tasks[kind]()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A small input and a large one."""
    made = []
    for count in (RECORDS, TIMES * RECORDS):
        path = tmp_path_factory.mktemp("inputs")
        make_inputs(path, count, np.random.default_rng(count))
        convert_arrays(path / "stored.npz", path / "data", codec="none", num_workers=0)
        made.append(path)
    return made


@pytest.mark.parametrize("kind", ["tfrecord", "gzip", "stored", "compressed", "tar", "arrayrecord", "export", "npz"])
def test_memory_does_not_grow_with_the_input(tmp_path: Path, inputs: list[Path], kind: str) -> None:
    """Four times the records, in the same memory but for a tenth of what there is more of them."""
    peaks = [peak_of(partial(run, kind, path, tmp_path / path.name)) for path in inputs]

    more = (TIMES - 1) * RECORDS * RECORD_BYTES
    assert peaks[1] - peaks[0] < 0.1 * more, peaks
    assert peaks[0] < 30 << 20
