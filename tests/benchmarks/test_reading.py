"""Single reads and batches against what else reads the same files, or the same bytes in memory.

array-record's reader and TFDS read in processes of their own, by turns with ours. TFDS needs an interpreter that has
tensorflow-datasets and OpenCV: ``ARRAYFEED_TFDS_PYTHON=/elsewhere/bin/python make bench``. All files are in the page cache.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from array_record.python.array_record_module import ArrayRecordWriter
from sklearn.datasets import load_digits

import arrayfeed
from arrayfeed import ArrayRecordDataSource, DatasetWriter, ExampleDataSource
from arrayfeed.datasource.features import BBoxFeature, ClassLabel, Image, Scalar, Sequence, Tensor, Text
from arrayfeed.datasource.writing.codec import writer_options
from support.equal import difference
from support.pairs import compare, read_all
from support.peer import ARRAY_RECORD, TFDS, Peer

RECORD_BYTES = 800

# Seventeen features, most of them small: what a table with a text or two and some annotations looks like.
MIXED: dict[str, Any] = {
    "age": Scalar(np.uint8),
    "box": BBoxFeature(),
    "caption": Text(),
    "count": Scalar(np.int32),
    "embedding": Tensor(shape=(64,), dtype=np.float32),
    "flag": Scalar(np.bool_),
    "half": Scalar(np.float16),
    "hash": Scalar(np.uint64),
    "id": Text(),
    "label": ClassLabel(1000),
    "matrix": Tensor(shape=(3, 3), dtype=np.float32),
    "objects": Sequence({"box": BBoxFeature(), "label": ClassLabel(80)}),
    "ratio": Scalar(np.float32),
    "score": Scalar(np.float64),
    "thumbnail": Tensor(shape=(8, 8, 3), dtype=np.uint8, encoding="bytes"),
    "tokens": Sequence(np.int64),
    "wide": Scalar(np.int64),
}


def write_records(path: Path, count: int, codec: str, rng: np.random.Generator) -> str:
    """Write one shard of records that compress to about half."""
    writer = ArrayRecordWriter(str(path), writer_options(codec))
    for _ in range(0, count, 1000):
        for row in rng.integers(0, 16, (min(count, 1000), RECORD_BYTES), dtype=np.uint8):
            writer.write(row.tobytes())
    writer.close()
    return str(path)


def draw_digits(count: int, rng: np.random.Generator) -> Iterator[tuple[bytes, int]]:
    """Yield PNG files of 28x28 gray pixels and labels: handwritten digits, larger and with noise on their strokes."""
    digits = load_digits()
    for number in rng.integers(0, len(digits.images), count).tolist():
        large = cv2.resize(digits.images[number] * 16.0, (28, 28), interpolation=cv2.INTER_CUBIC)
        large = np.where(large > 30, large + rng.integers(-20, 20, large.shape), 0)
        _, encoded = cv2.imencode(".png", np.clip(large, 0, 255).astype(np.uint8))
        yield encoded.tobytes(), int(digits.target[number])


def draw_photos(count: int, rng: np.random.Generator) -> Iterator[tuple[bytes, int]]:
    """Yield JPEG files of 224x224 colour pixels and labels: clouds of some detail."""
    for _ in range(count):
        layers = (rng.integers(0, 256, (size, size, 3), dtype=np.uint8) for size in (7, 28, 112))
        pixels = np.mean([cv2.resize(layer, (224, 224), interpolation=cv2.INTER_CUBIC) for layer in layers], axis=0)
        _, encoded = cv2.imencode(".jpg", pixels.astype(np.uint8))
        yield encoded.tobytes(), int(rng.integers(0, 1000))


def draw_mixed(count: int, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Yield examples of ``MIXED``, in which texts, sequences and numbers differ in length."""
    for number in range(count):
        boxes = rng.integers(0, 5)
        corners = np.sort(rng.random((boxes + 1, 2, 2), dtype=np.float32), axis=1).reshape(-1, 4)
        yield {
            "age": int(rng.integers(0, 120)),
            "box": corners[-1],
            "caption": "a word or two " * int(rng.integers(1, 6)),
            "count": int(rng.integers(-1000, 100_000)),
            "embedding": rng.random(64, dtype=np.float32),
            "flag": bool(rng.integers(0, 2)),
            "half": np.float16(rng.random()),
            "hash": int(rng.integers(0, 1 << 63)) * 2,
            "id": f"{number:012}",
            "label": int(rng.integers(0, 1000)),
            "matrix": rng.random((3, 3), dtype=np.float32),
            "objects": {"box": list(corners[:-1]), "label": rng.integers(0, 80, boxes).tolist()},
            "ratio": np.float32(rng.random()),
            "score": float(rng.random()),
            "thumbnail": rng.integers(0, 256, (8, 8, 3), dtype=np.uint8),
            "tokens": rng.integers(0, 30_000, rng.integers(3, 20)).tolist(),
            "wide": int(rng.integers(-(1 << 40), 1 << 40)),
        }


def write_images(path: Path, images: list[tuple[bytes, int]], shape: tuple[int, int, int]) -> ExampleDataSource:
    features: dict[str, Any] = {"image": Image(shape=shape), "label": ClassLabel(1000)}
    with DatasetWriter(path, features) as writer:
        writer.write_all({"image": data, "label": label} for data, label in images)
    return arrayfeed.open(path, split="train")


def decode_all(images: list[tuple[bytes, int]], indices: list[int], flags: int) -> float:
    """Return the seconds that a bare loop takes to decode images that are in memory."""
    start = time.process_time()
    for index in indices:
        cv2.imdecode(np.frombuffer(images[index][0], np.uint8), flags)
    return time.process_time() - start


def draw(rng: np.random.Generator, length: int, count: int) -> list[int]:
    drawn: list[int] = rng.integers(0, length, count).tolist()
    return drawn


@pytest.fixture
def tfds_python() -> str:
    """The interpreter that has tensorflow-datasets."""
    python = os.environ.get("ARRAYFEED_TFDS_PYTHON")
    if python is None:
        pytest.skip("ARRAYFEED_TFDS_PYTHON names no interpreter with tensorflow-datasets: not compared with TFDS")
    return python


@pytest.mark.parametrize(("codec", "at_least"), [("none", 50), ("zstd", 20)])
def test_a_record_is_read_many_times_faster_than_by_array_record(
    tmp_path: Path, full_size: bool, rng: np.random.Generator, codec: str, at_least: float
) -> None:
    """At random out of 100,000 in a shard: those never read before, and those read again."""
    records, count, pairs = (100_000, 3000, 11) if full_size else (200, 50, 1)
    path = write_records(tmp_path / "records.array_record", records, codec, rng)
    with Peer(ARRAY_RECORD, path) as peer:
        indices = rng.permutation(records)[:count].tolist()
        source = ArrayRecordDataSource(path)
        assert source[indices] == peer.read(indices)

        def read_first() -> float:
            return read_all(ArrayRecordDataSource(path), indices, time.perf_counter)

        def read_again() -> float:
            return read_all(source, indices, time.perf_counter)

        def theirs() -> float:
            return peer.seconds(indices)

        first = compare(f"{codec}, never read before, array-record", read_first, theirs, count, pairs)
        again = compare(f"{codec}, read again, array-record", read_again, theirs, count, pairs)
    if full_size:
        assert min(first, again) >= at_least


def test_records_of_a_large_shard_are_read_nearly_as_fast_as_those_of_a_small_one(
    tmp_path: Path, full_size: bool, rng: np.random.Generator
) -> None:
    """At random out of a million records instead of a thousand the rate falls by less than a third.

    Or by no more than that of a bare copy does: of 800 bytes anywhere in a mapped file, where a small one stays in the
    processor's caches and a large one does not.
    """
    sizes, count, pairs = ((1000, 1_000_000), 20_000, 21) if full_size else ((100, 1000), 50, 1)
    paths = [write_records(tmp_path / f"{size}.array_record", size, "none", rng) for size in sizes]
    small, large = map(ArrayRecordDataSource, paths)
    few = min(sizes[0], count)

    def read_first(path: str, size: int) -> float:
        source = ArrayRecordDataSource(path)
        return read_all(source, rng.permutation(size)[:few].tolist())

    def read_again(source: ArrayRecordDataSource) -> float:
        return read_all(source, draw(rng, len(source), count))

    first = compare(
        "large shard, small shard, never read before",
        lambda: read_first(paths[1], sizes[1]),
        lambda: read_first(paths[0], sizes[0]),
        few,
        pairs,
    )
    for source in (small, large):
        read_all(source, range(len(source)))
    again = compare("the same, read again", lambda: read_again(large), lambda: read_again(small), count, pairs)
    with open(paths[0], "rb") as file, open(paths[1], "rb") as large_file:
        maps = [mmap.mmap(each.fileno(), 0, access=mmap.ACCESS_READ) for each in (file, large_file)]
        for each in maps:
            sum(each[:: mmap.PAGESIZE])
        bare = compare(
            "the same, a bare copy of as many bytes",
            lambda: copy_all(maps[1], draw(rng, len(maps[1]) - RECORD_BYTES, count)),
            lambda: copy_all(maps[0], draw(rng, len(maps[0]) - RECORD_BYTES, count)),
            count,
            pairs,
        )
    if full_size:
        assert min(first, again) >= min(2 / 3, bare)


def copy_all(data: mmap.mmap, starts: list[int]) -> float:
    """Return the seconds that bare copies out of a mapped file take."""
    start = time.process_time()
    for place in starts:
        data[place : place + RECORD_BYTES]
    return time.process_time() - start


def test_small_images_are_read_nearly_as_fast_as_they_are_decoded(
    tmp_path: Path, full_size: bool, rng: np.random.Generator
) -> None:
    """28x28 PNG and label: 0.7 of a loop that only calls OpenCV, over the same bytes in memory."""
    size, count, pairs = (20_000, 5000, 31) if full_size else (100, 50, 1)
    images = list(draw_digits(size, rng))
    source = write_images(tmp_path / "digits", images, (28, 28, 1))
    for number in draw(rng, size, 20):
        pixels = cv2.imdecode(np.frombuffer(images[number][0], np.uint8), cv2.IMREAD_UNCHANGED)
        assert pixels is not None
        expected = {"image": pixels[..., None], "label": images[number][1]}
        assert not difference(source[number], expected)
    indices = draw(rng, size, count)

    ratio = compare(
        "28x28 PNG and label, bare decode loop",
        lambda: read_all(source, indices),
        lambda: decode_all(images, indices, cv2.IMREAD_UNCHANGED),
        count,
        pairs,
    )
    if full_size:
        assert ratio >= 0.7


def test_photos_are_read_as_fast_as_they_are_decoded(tmp_path: Path, full_size: bool, rng: np.random.Generator) -> None:
    """224x224 JPEG and label: 0.95 of a loop that only calls OpenCV, for the same pixels of the same bytes in memory."""
    size, count, pairs = (500, 300, 21) if full_size else (10, 5, 1)
    images = list(draw_photos(size, rng))
    source = write_images(tmp_path / "photos", images, (224, 224, 3))
    for number in draw(rng, size, 3):
        pixels = cv2.imdecode(np.frombuffer(images[number][0], np.uint8), cv2.IMREAD_COLOR_RGB)
        assert not difference(source[number], {"image": pixels, "label": images[number][1]})
    indices = draw(rng, size, count)

    ratio = compare(
        "224x224 JPEG and label, bare decode loop",
        lambda: read_all(source, indices),
        lambda: decode_all(images, indices, cv2.IMREAD_COLOR_RGB),
        count,
        pairs,
    )
    if full_size:
        assert ratio >= 0.95


@pytest.mark.parametrize(("what", "at_least"), [("28x28 PNG and label", 2.5), ("17 mixed features", 5)])
def test_examples_are_read_faster_than_by_tfds(
    tmp_path: Path, full_size: bool, rng: np.random.Generator, tfds_python: str, what: str, at_least: float
) -> None:
    """One by one, at random, from the same files; the examples are the same, types included."""
    size, count, pairs = (20_000, 2000, 11) if full_size else (50, 20, 1)
    if what == "17 mixed features":
        source = write_mixed(tmp_path / "mixed", size, rng)
    else:
        source = write_images(tmp_path / "digits", list(draw_digits(size, rng)), (28, 28, 1))
    indices = draw(rng, size, count)
    with Peer(TFDS, str(next(tmp_path.iterdir())), tfds_python) as peer:
        for found, expected in zip(source[indices[:20]], peer.read(indices[:20]), strict=True):
            assert not difference(found, expected)

        def ours() -> float:
            return read_all(source, indices, time.perf_counter)

        ratio = compare(f"{what}, TFDS", ours, lambda: peer.seconds(indices), count, pairs)
    if full_size:
        assert ratio >= at_least


def write_mixed(path: Path, count: int, rng: np.random.Generator) -> ExampleDataSource:
    with DatasetWriter(path, MIXED) as writer:
        writer.write_all(draw_mixed(count, rng))
    return arrayfeed.open(path, split="train")


def test_batches_of_small_tensors_keep_up_with_arrays_in_memory(
    tmp_path: Path, full_size: bool, rng: np.random.Generator
) -> None:
    """``read_batch`` of 128 at random: 0.7 of the rate at which NumPy indexes the same arrays."""
    size, batches, pairs = (60_000, 200, 31) if full_size else (1000, 3, 1)
    columns: dict[str, Any] = {
        "image": rng.integers(0, 256, (size, 28, 28), dtype=np.uint8),
        "label": rng.integers(0, 10, size),
    }
    features: dict[str, Any] = {
        "image": Tensor(shape=(28, 28), dtype=np.uint8, encoding="bytes"),
        "label": ClassLabel(10),
    }
    with DatasetWriter(tmp_path / "arrays", features, codec="none") as writer:
        writer.write_columns(columns)
    source = arrayfeed.open(tmp_path / "arrays", split="train")
    chosen = [rng.integers(0, size, 128) for _ in range(batches)]
    for indices in np.array_split(np.arange(size), 100):  # the first epoch maps the files and checks each record
        assert not difference(source.read_batch(indices), {name: column[indices] for name, column in columns.items()})

    def ours() -> float:
        start = time.process_time()
        for indices in chosen:
            source.read_batch(indices)
        return time.process_time() - start

    def numpy() -> float:
        start = time.process_time()
        for indices in chosen:
            {name: column[indices] for name, column in columns.items()}
        return time.process_time() - start

    ratio = compare("read_batch(128) of 28x28 and label, NumPy indexing", ours, numpy, batches * 128, pairs)
    if full_size:
        assert ratio >= 0.7
