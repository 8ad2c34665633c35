"""Every kind of source with a few elements, for the tests of what all sources promise; a new kind is one entry more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import arrayfeed
from arrayfeed.datasource import ArrayRecordDataSource, BaseSource
from arrayfeed.datasource.shards import Shard
from support.shards import CODECS, write_shard

__all__ = ["CASES", "Case", "freeze"]

#: Writes what it needs into a folder, and returns a fresh source and what its elements are.
Case: TypeAlias = Callable[[Path], tuple[BaseSource[Any], Sequence[Any]]]

# Of one length and of others, empty ones, one that fills a block and more: all ways through the reader.
RECORDS = [b"%03d" % k * (30 if k % 3 else k) for k in range(70)] + [b"x" * 70_000, b""]


def write_shards(folder: Path, group_size: int = 1) -> list[str]:
    """Write six shards of the records, one an empty file, in every codec."""
    cuts = [0, 20, 20, 33, 34, 60, len(RECORDS)]
    return [
        write_shard(folder / f"s-{k}", RECORDS[cuts[k] : cuts[k + 1]], codec=CODECS[k % 4], group_size=group_size)
        for k in range(6)
    ]


def one_file(**options: Any) -> Case:
    """A file of all records."""

    def make(folder: Path) -> tuple[BaseSource[Any], Sequence[Any]]:
        reading = {key: options[key] for key in ("io", "check") if key in options}
        writing = {key: options[key] for key in ("codec", "group_size") if key in options}
        return ArrayRecordDataSource(write_shard(folder / "one", RECORDS, **writing), **reading), RECORDS

    return make


def part_of_a_file(folder: Path) -> tuple[BaseSource[Any], Sequence[Any]]:
    return ArrayRecordDataSource(write_shard(folder / "one", RECORDS) + "[5:64]"), RECORDS[5:64]


def many_files(io: Any = "mmap", group_size: int = 1) -> Case:
    def make(folder: Path) -> tuple[BaseSource[Any], Sequence[Any]]:
        paths = write_shards(folder, group_size)
        return ArrayRecordDataSource([*paths, paths[0]], io=io), RECORDS + RECORDS[:20]

    return make


def known_lengths(folder: Path) -> tuple[BaseSource[Any], Sequence[Any]]:
    shards = [Shard(path) for path in write_shards(folder)]
    return ArrayRecordDataSource.from_lengths(shards, [20, 0, 13, 1, 26, 12]), RECORDS


def empty_file(folder: Path) -> tuple[BaseSource[Any], Sequence[Any]]:
    return ArrayRecordDataSource(write_shard(folder / "none", [])), []


def view(make: Case, cut: Callable[[Any], Any], cut_list: Callable[[Any], Any] | None = None) -> Case:
    """A view of another case's source, and the same of its elements."""

    def make_view(folder: Path) -> tuple[BaseSource[Any], Sequence[Any]]:
        source, elements = make(folder)
        return cut(source), (cut_list or cut)(list(elements))

    return make_view


def examples(folder: Path) -> tuple[BaseSource[Any], Sequence[Any]]:
    """Decoded examples, of fixed and of other lengths."""
    features = {
        "image": arrayfeed.features.Tensor(shape=(3, 4), dtype=np.uint8, encoding="bytes"),
        "label": arrayfeed.features.ClassLabel(num_classes=10),
        "text": arrayfeed.features.Text(),
    }
    rng = np.random.default_rng(0)
    elements = [
        {"image": rng.integers(0, 256, (3, 4), dtype=np.uint8), "label": k % 10, "text": b"%d" % k * (k % 4)} for k in range(40)
    ]
    with arrayfeed.DatasetWriter(folder / "data", features, shard_records=16) as writer:
        writer.write_all(elements)
    return arrayfeed.open(folder / "data", split="train"), elements


CASES: dict[str, Case] = {
    "mmap": one_file(),
    "pread": one_file(io="pread"),
    "zstd": one_file(codec="zstd"),
    "brotli in groups": one_file(codec="brotli:1", group_size=7),
    "snappy, hashes checked": one_file(codec="snappy", check="hash"),
    "mmap, hashes checked": one_file(check="hash"),
    "part of a file": part_of_a_file,
    "many files": many_files(),
    "many files, pread": many_files("pread"),
    "many files in groups": many_files(group_size=3),
    "known lengths": known_lengths,
    "empty": empty_file,
    "slice": view(one_file(), lambda s: s[3:60:4]),
    "slice backwards": view(many_files(), lambda s: s[80::-3]),
    "empty slice": view(one_file(), lambda s: s[7:7]),
    "selection": view(many_files(), lambda s: s.select([9, -1, 9, 0, 40]), lambda s: [s[k] for k in (9, -1, 9, 0, 40)]),
    "view of a view of a view": view(
        many_files(),
        lambda s: s[::-1].select(range(1, 60, 2))[3:-2][::-2],
        lambda s: [s[::-1][k] for k in range(1, 60, 2)][3:-2][::-2],
    ),
    "examples": examples,
    "slice of examples": view(examples, lambda s: s[30:2:-3]),
}


def freeze(value: Any) -> Any:
    """Return a value made of tuples, with types, dtypes and shapes in it: equal only to one that is the same all over."""
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return ("array", value.shape, tuple(map(freeze, value.reshape(-1).tolist())))
        return ("array", str(value.dtype), value.shape, value.tobytes())
    if isinstance(value, dict):
        return ("dict", *((key, freeze(each)) for key, each in value.items()))
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *map(freeze, value))
    return (type(value).__name__, value)
