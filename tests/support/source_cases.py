"""Every kind of source with a few elements, for the tests of what all sources promise; a new kind is one entry more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import arrayfeed
from arrayfeed.datasource import ArrayRecordDataSource, ArraySource, BaseSource, Field, SequenceSource, TFRecordSource
from arrayfeed.datasource.shards import Shard
from support.shards import CODECS, write_shard
from support.tfrecords import write_tfrecord

__all__ = ["SOURCE_CASES", "Case", "Made", "arrays", "examples", "freeze", "many_files", "one_file", "sequence", "tfrecords"]

#: Writes what it needs into a folder, and returns a fresh source and what its elements are.
Made: TypeAlias = tuple[BaseSource[Any], Sequence[Any]]
Case: TypeAlias = Callable[[Path], Made]

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

    def make(folder: Path) -> Made:
        reading = {key: options[key] for key in ("io", "check") if key in options}
        writing = {key: options[key] for key in ("codec", "group_size") if key in options}
        return ArrayRecordDataSource(write_shard(folder / "one", RECORDS, **writing), **reading), RECORDS

    return make


def part_of_a_file(folder: Path) -> Made:
    return ArrayRecordDataSource(write_shard(folder / "one", RECORDS) + "[5:64]"), RECORDS[5:64]


def many_files(io: Any = "mmap", group_size: int = 1) -> Case:
    def make(folder: Path) -> Made:
        paths = write_shards(folder, group_size)
        return ArrayRecordDataSource([*paths, paths[0]], io=io), RECORDS + RECORDS[:20]

    return make


def known_lengths(folder: Path) -> Made:
    shards = [Shard(path) for path in write_shards(folder)]
    return ArrayRecordDataSource.from_lengths(shards, [20, 0, 13, 1, 26, 12]), RECORDS


def empty_file(folder: Path) -> Made:
    return ArrayRecordDataSource(write_shard(folder / "none", [])), []


EXAMPLES = [
    {"image": np.full((3, 4), 5 * k, np.uint8) + np.arange(4, dtype=np.uint8), "label": k % 10, "text": b"%d" % k * (k % 4)}
    for k in range(40)
]


def examples(io: Any = "auto") -> Case:
    """Decoded examples, of fixed and of other lengths."""

    def make(folder: Path) -> Made:
        features = {
            "image": arrayfeed.features.Tensor(shape=(3, 4), dtype=np.uint8, encoding="bytes"),
            "label": arrayfeed.features.ClassLabel(num_classes=10),
            "text": arrayfeed.features.Text(),
        }
        with arrayfeed.DatasetWriter(folder / "data", features, shard_records=16) as writer:
            writer.write_all(EXAMPLES)
        return arrayfeed.open(folder / "data", split="train", io=io), EXAMPLES

    return make


def examples_of_some_fields(folder: Path) -> Made:
    """The records of a directory, decoded by a specification that has fewer fields, and one that no record has."""
    source, elements = examples()(folder)
    assert isinstance(source, arrayfeed.ExampleDataSource)
    decoded = source.records.decode({"label": Field(np.int64), "more": Field(np.float32, (2,), default=0.5)}, name="train")
    return decoded, [{"label": each["label"], "more": np.full(2, 0.5, np.float32)} for each in elements]


def tfrecords(folder: Path) -> Made:
    """A file, three of many, one of them empty, and part of another."""
    paths: list[Any] = [write_tfrecord(folder / f"s-{k}", RECORDS[25 * k : 25 * k + 25]) for k in range(3)]
    return TFRecordSource([*paths, write_tfrecord(folder / "none", []), f"{paths[0]}[3:9]"]), RECORDS + RECORDS[3:9]


def decoded_tfrecords(folder: Path) -> Made:
    """Records that TensorFlow's own specification would read: a scalar, one with a default, one of any length."""
    from arrayfeed.datasource.example.wire import serialize_example

    records, elements = [], []
    for k in range(40):
        values: dict[str, Any] = {"number": np.array([k]), "weights": np.arange(k % 3, dtype=np.float32)}
        if k % 4:
            values["name"] = [b"n%d" % k]
        records.append(serialize_example(values))
        elements.append({"name": values.get("name", [b"?"])[0], "number": k, "weights": values["weights"]})
    fields: dict[str, Any] = {
        "number": Field(np.int64),
        "weights": Field(np.float32, (None,)),
        "name": Field(bytes, default=b"?"),
    }
    return TFRecordSource(write_tfrecord(folder / "train", records)).decode(fields, name="train"), elements


def columns() -> dict[str, Any]:
    return {
        "image": np.arange(40 * 12, dtype=np.uint16).reshape(40, 3, 4),
        "label": np.arange(40) % 10,
        "text": np.array([f"t{k}" for k in range(40)]),
    }


def rows(columns: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {name: str(column[k]) if column.dtype.kind == "U" else column[k] for name, column in columns.items()} for k in range(40)
    ]


def arrays(folder: Path) -> Made:
    """A dict of arrays in memory."""
    return ArraySource(columns()), rows(columns())


def mapped_arrays(folder: Path) -> Made:
    """The same from memory-mapped ``.npy`` files."""
    for name, column in columns().items():
        np.save(folder / f"{name}.npy", column)
    return ArraySource({name: folder / f"{name}.npy" for name in columns()}), rows(columns())


def archived_arrays(folder: Path) -> Made:
    np.savez(folder / "all.npz", **columns())
    return ArraySource(folder / "all.npz"), rows(columns())


def one_array(folder: Path) -> Made:
    array = np.arange(40 * 3, dtype=np.float32).reshape(40, 3)
    return ArraySource(array), list(array)


def sequence(folder: Path) -> Made:
    """A list of objects that have no array's form."""
    elements = [{"name": f"one {k}", "values": (k, 0.5 * k), "none": None} for k in range(50)]
    return SequenceSource(elements), elements


SOURCE_CASES: dict[str, Case] = {
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
    "examples": examples(),
    "examples, pread": examples("pread"),
    "examples of some fields": examples_of_some_fields,
    "TFRecord files": tfrecords,
    "TFRecord files, decoded": decoded_tfrecords,
    "arrays": arrays,
    "arrays in mapped files": mapped_arrays,
    "arrays in an archive": archived_arrays,
    "one array": one_array,
    "list": sequence,
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
