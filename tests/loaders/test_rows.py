"""Examples stacked while they are made give what ``stack`` gives of all of them, errors included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from arrayfeed import DataLoader
from arrayfeed.datasource.columns import stack
from arrayfeed.loaders.rows import Rows
from support.equal import difference
from support.worker_cases import Pair

LARGE = (100, 120)


@dataclass(frozen=True)
class Own:
    image: Any
    label: Any


def usual(row: int, rng: np.random.Generator) -> Any:
    """Return an example with large arrays, small ones, numbers and text."""
    image = rng.random(LARGE)
    return {
        "image": image,
        "turned": rng.integers(0, 9, LARGE).T,
        "pair": Pair(row, {"deep": image[::2].astype(np.float32)}),
        "small": np.arange(3),
        "text": "x" * row,
    }


def changed(row: int, rng: np.random.Generator, what: str) -> Any:
    """Return the same; row 3 is different in one respect."""
    example = usual(row, rng)
    if row != 3:
        return example
    image: Any = example["image"]
    others: dict[str, Any] = {
        "dtype": {**example, "image": image.astype(np.float32)},
        "big endian": {**example, "image": image.astype(">f8")},
        "list": {**example, "image": image.tolist()},
        "subclass": {**example, "image": image.view(np.ma.MaskedArray)},
        "order of keys": dict(reversed(example.items())),
        "small one": {**example, "small": np.arange(3.0)},
        "shape": {**example, "image": image[1:]},
        "none": {**example, "image": None},
        "key": {**example, "more": 1},
        "tuple": (image, example),
        "text": "nothing",
    }
    return others[what]


DIFFERENT = ["dtype", "big endian", "list", "subclass", "order of keys", "small one", "shape", "none", "key", "tuple", "text"]


def by_rows(examples: Sequence[Any]) -> Any:
    rows = Rows(len(examples), np.empty)
    for example in examples:
        rows.add(example)
    assert rows.has_large
    return rows.finish()


def outcome(function: Any, examples: list[Any]) -> Any:
    try:
        return function(examples)
    except ValueError as error:
        return str(error), type(error)


def test_large_arrays_go_into_their_columns(rng: np.random.Generator) -> None:
    """Of dicts, named tuples and dataclasses; what is added is not kept."""
    examples = [usual(row, rng) for row in range(6)]
    assert not difference(by_rows(examples), stack(examples))
    owns = [Own(rng.random(LARGE), row) for row in range(4)]
    rows = Rows(4, np.empty)
    for own in owns:
        rows.add(own)
    found = rows.finish()

    assert type(found) is Own and found.label.tolist() == [0, 1, 2, 3]
    assert (found.image == np.stack([own.image for own in owns])).all()


@pytest.mark.parametrize("what", DIFFERENT)
def test_unlike_examples_are_stacked_as_ever(what: str, rng: np.random.Generator) -> None:
    """Whatever differs in one of them: the same batch, or the same error."""
    examples = [changed(row, rng, what) for row in range(6)]
    rows = Rows(6, np.empty)
    for example in examples:
        rows.add(example)
    found, expected = outcome(lambda _: rows.finish(), examples), outcome(stack, examples)

    assert not difference(found, expected)


@pytest.mark.parametrize("way", [{}, {"num_workers": 2}, {"num_workers": 3, "worker_type": "thread"}], ids=str)
def test_large_examples_are_the_same_from_everybody(way: dict[str, Any], no_leaks: None) -> None:
    """Several batches, of which the first shows how large examples are; the last one is short."""
    source = [{"x": np.full((90, 100), k, np.int16 if k < 40 else np.int64), "k": k} for k in range(50)]
    found = list(DataLoader(source, batch_size=7, transforms=_double, **way))
    expected = [stack([_double(example) for example in source[k : k + 7]]) for k in range(0, 50, 7)]

    assert not difference(found, expected)


def test_a_batch_function_may_keep_its_batch(no_leaks: None) -> None:
    """What a worker's ``BatchMap`` keeps stays as it is, though the memory of batches that were sent is used again."""
    from arrayfeed import BatchMap

    source = [np.full((200, 100), k, np.int64) for k in range(40)]
    for batch in DataLoader(source, batch_size=2, num_workers=1, transforms=BatchMap(Keep())):
        kept, now = batch["kept"], batch["now"]
        assert (kept[0] == kept[0][0, 0]).all() and (now[0] == now[0][0, 0]).all()
        assert kept[0][0, 0] == max(0, now[0][0, 0] - 10)


class Keep:
    """Gives each batch with the one of five batches before."""

    def __init__(self) -> None:
        self.batches: list[Any] = []

    def __call__(self, batch: Any) -> Any:
        self.batches.append(batch)
        return {"kept": self.batches[max(0, len(self.batches) - 6)].copy(), "now": batch}


def _double(example: dict[str, Any]) -> dict[str, Any]:
    return {"x": example["x"] * 2, "k": example["k"]}
