"""Examples into columns: what each kind of leaf becomes, and which examples do not go together."""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrayfeed.datasource.columns import map_leaves, stack


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass(frozen=True)
class Box:
    size: Any
    name: Any


@dataclass(frozen=True)
class Crate(Box):
    pass


def assert_column(found: Any, expected: np.ndarray[Any, Any]) -> None:
    assert type(found) is np.ndarray
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(found, expected)


def objects(*values: Any) -> np.ndarray[Any, Any]:
    column = np.empty(len(values), object)
    for place, value in enumerate(values):
        column[place] = value
    return column


@pytest.mark.parametrize(
    ("examples", "expected"),
    [
        ([1, 2, 3], np.array([1, 2, 3])),
        ([True, False], np.array([True, False])),
        ([1, 2.5], np.array([1, 2.5])),
        ([1j, 2], np.array([1j, 2])),
        ([-(2**63), 2**63 - 1], np.array([-(2**63), 2**63 - 1])),
        ([1, 2**63], np.array([1, 2**63], np.uint64)),
        ([2**53 + 1, 2**64 - 1], np.array([2**53 + 1, 2**64 - 1], np.uint64)),
        ([-1, 2**63], objects(-1, 2**63)),
        ([1, 2**64], objects(1, 2**64)),
        ([np.float32(1), np.float32(2)], np.array([1, 2], np.float32)),
        ([np.uint8(1), np.int8(-2)], np.array([1, -2], np.int16)),
        ([np.float32(1), 2], np.array([1, 2], np.float64)),
        ([np.zeros((2, 3), np.uint8)] * 2, np.zeros((2, 2, 3), np.uint8)),
        ([np.float32(1), np.array(2, np.uint8)], np.array([1, 2], np.float32)),
        ([[1, 2], [3, 4]], np.array([[1, 2], [3, 4]])),
        ([[], []], np.empty((2, 0))),
        ([np.datetime64("2020-01-01"), np.datetime64("2021-01-01")], np.array(["2020-01-01", "2021-01-01"], "M8[D]")),
        ([np.array([b"a", b"bc"], object)] * 2, np.array([[b"a", b"bc"]] * 2, object)),
        (["a", "bc"], objects("a", "bc")),
        ([b"a", b"a\0"], objects(b"a", b"a\0")),
        ([None, 1], objects(None, 1)),
        ([1, None], objects(1, None)),
        ([1, "a"], objects(1, "a")),
        ([["a", "b"], ["c", "d"]], objects(["a", "b"], ["c", "d"])),
        ([["a"], ["b", "c"]], objects(["a"], ["b", "c"])),
        ([range(2), range(2)], objects(range(2), range(2))),
        ([], np.empty(0)),
    ],
)
def test_leaves_of_this_kind_become_this_column(examples: list[Any], expected: np.ndarray[Any, Any]) -> None:
    """Value, dtype and shape; nothing is rounded, cut or padded, and what NumPy cannot hold stays the object it is."""
    assert_column(stack(examples), expected)


@given(st.lists(st.integers(-(2**65), 2**65), min_size=1))
def test_integers_keep_their_values(values: list[int]) -> None:
    """Whatever they are: int64, uint64 or Python's own, never rounded through float64."""
    assert stack(values).tolist() == values


def test_structures_are_kept() -> None:
    """Dicts in the first example's order, tuples, named tuples and dataclasses of their own type, to any depth."""
    examples: list[OrderedDict[str, Any]] = [
        OrderedDict(b=(k, {"x": [k, k]}), a=Pair(k / 2, Box(np.full(3, k, np.uint8), f"box {k}")), none=None, empty=())
        for k in range(4)
    ]
    columns = stack(examples)

    assert list(columns) == ["b", "a", "none", "empty"]
    assert type(columns["b"]) is tuple and type(columns["a"]) is Pair and type(columns["a"].right) is Box
    assert columns["empty"] == ()
    for k, example in enumerate(examples):
        assert columns["b"][0][k] == example["b"][0]
        assert columns["b"][1]["x"][k].tolist() == example["b"][1]["x"]
        assert columns["a"].left[k] == example["a"].left
        np.testing.assert_array_equal(columns["a"].right.size[k], example["a"].right.size)
        assert columns["a"].right.name[k] == example["a"].right.name


def test_a_column_owns_its_memory() -> None:
    """What is written into a batch does not change the examples, nor the other way round."""
    examples = [np.zeros(3), np.zeros(3)]
    column = stack(examples)
    column[0] = 1
    examples[1][:] = 2

    assert examples[0].tolist() == [0, 0, 0]
    assert column[1].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        ([{"a": 1}, {"b": 1}], "the examples: example 0 of the batch has keys ['a'], example 1 has keys ['b']"),
        ([{"a": 1}, {"a": 1}, {"a": 1, "b": 2}], "example 2 has keys ['a', 'b']"),
        ([{"a": 1, 2: 3}, {"a": 1}], "has keys ['a', 2], example 1 has keys ['a']"),
        ([{"a": 1}, 3], "example 1 has int"),
        ([(1, 2), (1,)], "has a tuple of 2, example 1 has a tuple of 1"),
        ([(1, 2), Pair(1, 2)], "example 1 has Pair"),
        ([(1,), [1]], "example 1 has list"),
        ([[[1], [2, 3]]] * 2, "example 0 of the batch is a list of lists of unequal lengths; pad them in a transform"),
        ([Box(1, 2), 5], "has Box, example 1 has int"),
        ([Box(1, 2), Crate(1, 2)], "has Box, example 1 has Crate"),
        ([np.zeros(2), np.zeros(2), np.zeros(3)], "has shape (2,), example 2 has shape (3,); make them equal in a transform"),
        ([1, [1, 2]], "has shape (), example 1 has shape (2,)"),
        ([{"a": {"b": (0, np.zeros(n))}} for n in (2, 3)], "field 'a/b/1': example 0 of the batch has shape (2,)"),
        ([{"a": Pair(0, Box(np.zeros(n), ""))} for n in (2, 3)], "field 'a/right/size': example 0"),
        ([Pair(np.zeros(n), 0) for n in (2, 3)], "field 'left': example 0"),
    ],
)
def test_examples_that_differ_are_told_apart_by_field_and_number(examples: list[Any], message: str) -> None:
    """What the first example has, what another has instead, and where."""
    with pytest.raises(ValueError, match=re.escape(message)):
        stack(examples)


def test_map_leaves_reaches_every_array_and_keeps_the_structure() -> None:
    """Lists are walked like tuples: what became a list of arrays stays one."""
    columns = {"a": (np.arange(3), Pair(np.ones(2), Box(np.zeros(1), [1, 2])))}
    found = map_leaves(lambda leaf: np.shape(leaf), columns)

    assert found == {"a": ((3,), Pair((2,), Box((1,), [(), ()])))}
    assert type(found["a"][1]) is Pair
