"""Every batch is the one that the plain loop makes, whatever works ahead and however much of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import arrayfeed
from arrayfeed import DataLoader, ExampleDataSource, IndexSampler
from arrayfeed.datasource.columns import map_leaves
from support.equal import difference
from support.loading import Listed, numbers_in, plain_batches, write_small

PREFETCH = (0, 1, 2, 5)
DTYPES = {
    "box": {"name": np.int32, "xy": np.float32},
    "flag": np.bool_,
    "hash": np.uint64,
    "image": np.uint8,
    "label": np.int64,
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> ExampleDataSource:
    """503 examples in shards of 100."""
    return write_small(tmp_path_factory.mktemp("loader") / "small", 503)


def flatten(value: Any) -> list[Any]:
    leaves: list[Any] = []
    map_leaves(leaves.append, value)
    return leaves


def same(found: list[Any], expected: list[Any]) -> str:
    """Return how two lists of batches differ, types and bits included; "" if they do not."""
    return difference(found, expected)


# -- against the plain loop -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefetch_factor", PREFETCH)
@pytest.mark.parametrize(("batch_size", "drop_last"), [(1, False), (3, True), (64, False), (128, True), (600, False)])
def test_columns_are_those_of_the_plain_loop(
    small: ExampleDataSource, batch_size: int, drop_last: bool, prefetch_factor: int
) -> None:
    """Shuffled, over two epochs: values, declared dtypes, shapes, order of keys."""
    sampler = IndexSampler(len(small), shuffle=True, seed=5)
    loader = DataLoader(
        small, batch_size=batch_size, sampler=sampler, drop_last=drop_last, num_epochs=2, prefetch_factor=prefetch_factor
    )
    plain = [
        batch
        for epoch in range(2)
        for batch in plain_batches(small, sampler, batch_size, epoch=epoch, drop_last=drop_last, dtypes=DTYPES)
    ]

    assert same(list(loader), plain) == ""
    assert len(loader) == len(plain)


@pytest.mark.parametrize("prefetch_factor", PREFETCH)
def test_batches_of_a_view_are_those_of_the_plain_loop(small: ExampleDataSource, prefetch_factor: int) -> None:
    """A slice, backwards, and a selection with duplicates."""
    for view in (small[400:3:-2], small.select([7, 7, 3, 500, 0])):
        loader = DataLoader(view, batch_size=3, shuffle=True, seed=1, prefetch_factor=prefetch_factor)

        assert same(list(loader), list(plain_batches(view, loader.sampler, 3, dtypes=DTYPES))) == ""


@pytest.mark.parametrize("prefetch_factor", PREFETCH)
def test_transforms_see_single_examples_in_turn(small: ExampleDataSource, prefetch_factor: int) -> None:
    """One transform or several; they change structure and dtypes as they like."""

    def pick(example: dict[str, Any]) -> dict[str, Any]:
        return {"pixels": example["image"].astype(np.float32) / 255, "label": np.int16(example["label"])}

    def add(example: dict[str, Any]) -> dict[str, Any]:
        return {**example, "sum": example["pixels"].sum()}

    for transforms in (pick, [pick, add]):
        loader = DataLoader(small, batch_size=50, shuffle=True, transforms=transforms, prefetch_factor=prefetch_factor)
        several = transforms if isinstance(transforms, list) else [transforms]

        assert same(list(loader), list(plain_batches(small, loader.sampler, 50, transforms=several))) == ""


@pytest.mark.parametrize("prefetch_factor", PREFETCH)
def test_a_list_is_a_source(prefetch_factor: int) -> None:
    """So is anything with a length and items; each item of an epoch is asked for once, by a Python int."""
    source = Listed(23)
    loader = DataLoader(source, batch_size=4, shuffle=True, seed=2, prefetch_factor=prefetch_factor)
    batches = list(loader)

    assert sorted(source.reads) == list(range(23))
    assert {type(index) for index in source.reads} == {int}
    assert same(batches, list(plain_batches(source, loader.sampler, 4))) == ""
    numbers = DataLoader([10.0, 11.0, 12.0], batch_size=2, prefetch_factor=prefetch_factor)
    assert same(list(numbers), [np.array([10.0, 11.0]), np.array([12.0])]) == ""


def test_a_source_that_reads_many_at_once_is_asked_so() -> None:
    """``__getitems__`` gets a list of ints a batch; ``__getitem__`` is not called then."""

    class Many(Listed):
        asked: list[list[int]]

        def __getitems__(self, indices: list[int]) -> list[Any]:
            self.asked.append(indices)
            return [super(Many, self).__getitem__(index) for index in indices]

        def __getitem__(self, index: int) -> dict[str, Any]:
            raise AssertionError("one by one")

    source = Many(10)
    source.asked = []

    assert numbers_in(list(DataLoader(source, batch_size=4))) == list(range(10))
    assert source.asked == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_collate_fn_gets_the_list_of_examples_and_gives_the_batch() -> None:
    """Whatever it returns is delivered as it is; also over a source that has columns."""
    loader = DataLoader(Listed(5), batch_size=2, collate_fn=lambda examples: [example["x"] for example in examples])

    assert list(loader) == [[0, 1], [2, 3], [4]]


def test_collate_fn_replaces_columns(small: ExampleDataSource) -> None:
    """A source of columns hands over examples then, of the types that indexing gives."""
    (first, *_) = DataLoader(small, batch_size=2, collate_fn=tuple)

    assert difference(list(first), [small[0], small[1]]) == ""


@given(
    length=st.integers(0, 50),
    batch_size=st.integers(1, 60),
    drop_last=st.booleans(),
    num_epochs=st.integers(1, 3),
    prefetch_factor=st.sampled_from(PREFETCH),
    shuffle=st.booleans(),
    seed=st.integers(-(2**70), 2**70),
)
def test_any_loader_delivers_what_the_plain_loop_does(
    length: int, batch_size: int, drop_last: bool, num_epochs: int, prefetch_factor: int, shuffle: bool, seed: int
) -> None:
    """Over any length, zero too, epochs end on their own batch; the stream is the same a second time."""
    source = Listed(length)

    def make() -> DataLoader:
        return DataLoader(
            source,
            batch_size=batch_size,
            shuffle=shuffle,
            seed=seed,
            drop_last=drop_last,
            num_epochs=num_epochs,
            prefetch_factor=prefetch_factor,
        )

    loader = make()
    plain = [
        batch
        for epoch in range(num_epochs)
        for batch in plain_batches(source, loader.sampler, batch_size, epoch=epoch, drop_last=drop_last)
    ]
    found = list(loader)

    assert same(found, plain) == ""
    assert len(loader) == len(plain)
    assert same(list(make()), found) == ""


# -- structures and dtypes --------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass(frozen=True, slots=True)
class Point:
    x: Any
    y: Any

    def __post_init__(self) -> None:
        if not isinstance(self.x, int):
            raise TypeError("a point is made of an int")


STRUCTURES: dict[str, tuple[Callable[[int], Any], Any]] = {
    "dict": (lambda k: {"a": k, "b": {"c": np.float32(k)}}, {"a": np.arange(3), "b": {"c": np.arange(3, dtype=np.float32)}}),
    "tuple": (lambda k: (k, float(k)), (np.arange(3), np.arange(3.0))),
    "named tuple": (lambda k: Pair(k, (k > 1,)), Pair(np.arange(3), (np.array([False, False, True]),))),
    "int32 and int64": (lambda k: np.int32(k) if k else np.int64(k), np.arange(3)),
    "float32 and float64": (lambda k: np.full(2, k, "f4" if k else "f8"), np.arange(3.0).repeat(2).reshape(3, 2)),
    "int and float": (lambda k: k if k else 0.5, np.array([0.5, 1, 2])),
    "bool and int": (lambda k: k if k else True, np.array([1, 1, 2])),
    "uint8": (lambda k: np.full((2, 1), k, np.uint8), np.arange(3, dtype=np.uint8).repeat(2).reshape(3, 2, 1)),
    "hashes": (lambda k: 2**64 - 1 - k, np.array([2**64 - 1, 2**64 - 2, 2**64 - 3], np.uint64)),
    "some hashes": (lambda k: 2**63 if k == 1 else k, np.array([0, 2**63, 2], np.uint64)),
    "lists of numbers": (lambda k: [k, k + 1], np.array([[0, 1], [1, 2], [2, 3]])),
    "dates": (lambda k: np.datetime64(k, "D"), np.arange(3).astype("datetime64[D]")),
    "arrays of texts": (lambda k: np.array(["a", "b" * k]), np.array([["a", ""], ["a", "b"], ["a", "bb"]])),
}
OBJECTS: dict[str, Callable[[int], Any]] = {
    "str": lambda k: "x" * k,
    "bytes": lambda k: b"x\0" * k,
    "None": lambda k: {"none": None},
    "lists of str": lambda k: ["a", "b"],
    "integers past 64 bits": lambda k: -(2**70) + k,
    "integers of both signs past 63 bits": lambda k: 2**63 if k else -1,
    "other objects": lambda k: range(k),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_batches_have_the_structure_of_the_examples(name: str) -> None:
    """Nested dicts, tuples and named tuples of arrays; dtypes promoted as NumPy promotes, integers never rounded."""
    make, expected = STRUCTURES[name]
    (batch,) = DataLoader([make(k) for k in range(3)], batch_size=3)

    assert difference(batch, expected) == ""


@pytest.mark.parametrize("name", OBJECTS)
def test_what_is_no_number_comes_as_an_array_of_objects(name: str) -> None:
    """One dimension, each object as it was."""
    examples = [OBJECTS[name](k) for k in range(3)]
    (batch,) = DataLoader(examples, batch_size=3)
    column, expected = (batch["none"], [None] * 3) if isinstance(batch, dict) else (batch, examples)

    assert (column.dtype, column.shape) == (np.dtype(object), (3,))
    assert column.tolist() == expected


def test_a_dataclass_of_columns_is_made_without_its_checks() -> None:
    """Frozen, slotted, and with a ``__post_init__`` that wants an example's values."""
    (batch,) = DataLoader([Point(k, (k, "y")) for k in range(3)], batch_size=3)

    assert type(batch) is Point
    assert difference((batch.x, batch.y[0]), (np.arange(3), np.arange(3))) == ""
    assert batch.y[1].tolist() == ["y"] * 3


# -- whose memory it is -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefetch_factor", [0, 2])
def test_batches_that_are_kept_stay_as_they_were(small: ExampleDataSource, prefetch_factor: int) -> None:
    """A whole epoch is kept; every second batch is overwritten; the others are what they were."""
    loader = DataLoader(small, batch_size=7, shuffle=True, prefetch_factor=prefetch_factor)
    kept = list(loader)
    for batch in kept[::2]:
        map_leaves(lambda leaf: leaf.fill(0), batch)

    assert same(kept[1::2], list(plain_batches(small, loader.sampler, 7, dtypes=DTYPES))[1::2]) == ""


def test_no_two_arrays_of_an_epoch_share_an_element(small: ExampleDataSource) -> None:
    """Of one batch or of two."""
    leaves = [leaf for batch in DataLoader(small, batch_size=20) for leaf in flatten(batch)]

    assert all(leaf.flags.writeable for leaf in leaves)
    assert not any(np.shares_memory(one, other) for one, other in combinations(leaves, 2))


def test_one_kept_batch_does_not_keep_the_epoch(small: ExampleDataSource) -> None:
    """It holds on to no more than its run's 2 MiB."""
    (batch, *_) = DataLoader(small, batch_size=2)

    for leaf in flatten(batch):
        root = leaf
        while isinstance(root.base, np.ndarray):
            root = root.base
        assert root.nbytes <= 2 << 20


def test_runs_of_texts_are_counted_by_their_length(tmp_path: Path) -> None:
    """Batches of long texts are not taken for eight bytes a text: no run is longer than 2 MiB (or a batch)."""
    with arrayfeed.DatasetWriter(tmp_path / "texts", {"text": arrayfeed.features.Text()}) as writer:
        writer.write_all({"text": b"%03d" % k * 10_000} for k in range(640))
    source = arrayfeed.open(tmp_path / "texts", split="train")
    sizes: list[int] = []
    read_batches = source.read_batches

    def watched(indices: Any, bounds: Any) -> Any:
        sizes.append(len(indices))
        return read_batches(indices, bounds)

    source.read_batches = watched  # type: ignore[method-assign]
    found = [text for batch in DataLoader(source, batch_size=10) for text in batch["text"]]

    assert found == [b"%03d" % k * 10_000 for k in range(640)]
    assert max(sizes) * 30_000 <= 2 << 20
