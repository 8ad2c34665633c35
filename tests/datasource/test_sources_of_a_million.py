"""Sources and views of a million elements: what they take to pickle, and which of them hold something of every element."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arrayfeed import ArrayRecordDataSource, ArraySource, SequenceSource, TFRecordSource, concatenate, features, zip_sources
from arrayfeed.datasource import BaseSource
from arrayfeed.datasource.shards import Shard
from support.tfrecords import write_tfrecord

MILLION = 1_000_000


def shards() -> ArrayRecordDataSource:
    """Return a source of a thousand shards, of a thousand records or so each; there are no such files."""
    paths = [Shard(f"/data/imagenet/2.1.0/imagenet-train.array_record-{k:05d}-of-01000") for k in range(1000)]
    return ArrayRecordDataSource.from_lengths(paths, [1000 + k % 3 for k in range(1000)])


def tfrecord(folder: Path) -> TFRecordSource:
    path = write_tfrecord(folder / "a", [b""])
    path.write_bytes(path.read_bytes() * MILLION)
    return TFRecordSource(path, index="beside")


def rows(folder: Path) -> BaseSource[Any]:
    np.save(folder / "x.npy", np.zeros(MILLION, np.uint8))
    return ArraySource({"x": folder / "x.npy"})


def deep(source: BaseSource[Any]) -> BaseSource[Any]:
    for _ in range(10):
        source = concatenate(source[::-1], source[:10].map(operator.itemgetter("x")).enumerate().map(itself))[5:].select(
            range(MILLION - 100)
        )
    return source


def itself(element: Any) -> Any:
    return element


LAZY: dict[str, Callable[[Path], BaseSource[Any]]] = {
    "ArrayRecord": lambda folder: shards(),
    "examples": lambda folder: shards().decode({"label": features.ClassLabel(10)}),
    "TFRecord": tfrecord,
    "arrays in files": rows,
    "any sequence": lambda folder: SequenceSource(range(MILLION)),
    "slice": lambda folder: shards()[3::3],
    "slice backwards": lambda folder: shards()[::-1][5:],
    "selection at a regular step": lambda folder: rows(folder).select(np.arange(MILLION - 1, -1, -2)),
    "map": lambda folder: shards().map(len),
    "concatenation": lambda folder: shards() + rows(folder),
    "zip": lambda folder: zip_sources(rows(folder), a := rows(folder), a[::-1]),
    "enumeration": lambda folder: shards().enumerate(),
    "batches": lambda folder: rows(folder).batch(7),
    "windows": lambda folder: rows(folder).window(10),
    "rows of batches": lambda folder: rows(folder).batch(7).unbatch(),
    "parts": lambda folder: rows(folder).split({"a": 0.9, "b": 0.1})["a"],
    "cache in memory": lambda folder: rows(folder).cache(),
    "cache in a file": lambda folder: rows(folder).cache(path=folder / "cache"),
    "deep": lambda folder: deep(rows(folder)),
}


@pytest.mark.parametrize("name", LAZY)
def test_what_is_found_by_arithmetic_pickles_in_8_kb(name: str, tmp_path: Path) -> None:
    """And comes back as long, and as the same."""
    source = LAZY[name](tmp_path)
    data = pickle.dumps(source)
    copy = pickle.loads(data)

    assert len(data) < 8000
    assert len(copy) == len(source) >= MILLION // 10
    assert copy.fingerprint == source.fingerprint
    source.close()
    copy.close()


@pytest.mark.parametrize(
    ("make", "element_bytes"),
    [
        (lambda source, rng: source.select(rng.permutation(MILLION)), 8),  # which elements, nobody but these indices knows
        (lambda source, rng: source.split([0.9, 0.1], seed=0)[0], 8),  # a regular part of a random order, sorted
        (lambda source, rng: ArraySource(np.zeros(MILLION, np.uint8)), 1),  # the only place where the array is
        (lambda source, rng: SequenceSource([1] * MILLION), 2),
    ],
    ids=["selection", "random parts", "array in memory", "list in memory"],
)
def test_what_is_known_nowhere_else_is_pickled(
    make: Callable[[BaseSource[Any], np.random.Generator], BaseSource[Any]],
    element_bytes: int,
    tmp_path: Path,
    rng: np.random.Generator,
) -> None:
    """Indices in no regular order, and elements in memory: so many bytes an element, as their documentation says."""
    view = make(rows(tmp_path), rng)

    assert 8000 < len(pickle.dumps(view)) < element_bytes * len(view) + 8000
