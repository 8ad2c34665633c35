"""Views of views of views, against the plain lists that they stand for."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from arrayfeed import ArraySource, SequenceSource, concatenate, zip_sources
from arrayfeed.datasource import BaseSource
from arrayfeed.datasource.columns import stack
from arrayfeed.datasource.structure import map_structure, walk
from support.equal import difference

Pair = tuple[BaseSource[Any], list[Any]]


def triple(element: Any) -> Any:
    """Return the same structure with every number tripled."""
    return map_structure(lambda leaf: leaf * 3, element)


def next_one(element: Any) -> Any:
    """Return the same structure with one added to every number."""
    return map_structure(lambda leaf: leaf + 1, element)


def arrays(length: int) -> Pair:
    """Return a source that reads columns, and its elements."""
    columns: dict[str, Any] = {"x": np.arange(length), "v": np.arange(2 * length, dtype=np.float32).reshape(length, 2)}
    return ArraySource(columns), [{"x": columns["x"][i], "v": columns["v"][i]} for i in range(length)]


def objects(length: int) -> Pair:
    """Return a source that reads elements one by one, and its elements."""
    elements = [{"x": np.int64(100 + i), "v": np.full(2, i, np.float32)} for i in range(length)]
    return SequenceSource(elements), elements


# Each step makes a view of a view, and the list of a list.


def cut(data: st.DataObject, pair: Pair) -> Pair:
    view, expected = pair
    bounds = st.none() | st.integers(-len(expected) - 2, len(expected) + 2)
    key = slice(data.draw(bounds), data.draw(bounds), data.draw(st.none() | st.integers(-3, 3).filter(bool)))
    return view[key], expected[key]


def select(data: st.DataObject, pair: Pair) -> Pair:
    view, expected = pair
    assume(expected)
    keys: list[int] = data.draw(st.lists(st.integers(-len(expected), len(expected) - 1), max_size=12))
    return view.select(keys), [expected[key] for key in keys]


def apply(data: st.DataObject, pair: Pair) -> Pair:
    view, expected = pair
    function: Callable[[Any], Any] = data.draw(st.sampled_from([triple, next_one]))
    return view.map(function), [function(element) for element in expected]


def join(data: st.DataObject, pair: Pair) -> Pair:
    view, expected = pair
    start = data.draw(st.integers(0, len(expected)))
    return concatenate(view[start:], view, view[:start]), expected[start:] + expected + expected[:start]


def pair_up(data: st.DataObject, pair: Pair) -> Pair:
    view, expected = pair
    if data.draw(st.booleans()):
        return zip_sources(view, view[::-1]), list(zip(expected, expected[::-1], strict=True))
    named = zip_sources(a=view, b=view.map(triple))
    return named, [{"a": element, "b": triple(element)} for element in expected]


def number(data: st.DataObject, pair: Pair) -> Pair:
    view, expected = pair
    return view.enumerate(5), list(enumerate(expected, 5))


def regroup(data: st.DataObject, pair: Pair) -> Pair:
    view, expected = pair
    assume(expected)
    rows = [map_structure(lambda leaf: leaf if isinstance(leaf, np.ndarray) else np.asarray(leaf)[()], e) for e in expected]
    return view.batch(data.draw(st.integers(1, 5))).unbatch(), rows


def remember(data: st.DataObject, pair: Pair) -> Pair:
    view, expected = pair
    cached = view.cache(1 << 20)
    read: bool = data.draw(st.booleans())
    if expected and read:
        asked: list[int] = data.draw(st.lists(st.integers(0, len(expected) - 1), min_size=1, max_size=4))
        cached.read_batch(asked)
    return cached, expected


def part(data: st.DataObject, pair: Pair) -> Pair:
    view, expected = pair
    parts = view.split(data.draw(st.integers(1, 3)))
    which = data.draw(st.integers(0, len(parts) - 1))
    start = sum(map(len, parts[:which]))
    return parts[which], expected[start : start + len(parts[which])]


STEPS = [cut, cut, select, apply, join, pair_up, number, regroup, remember, part]


@st.composite
def compositions(draw: st.DrawFn) -> Pair:
    """Draw a view made in up to six steps, and the list it stands for."""
    pair: Pair = draw(st.sampled_from([arrays, objects]))(draw(st.integers(0, 12)))
    for step in draw(st.lists(st.sampled_from(STEPS), max_size=6)):
        pair = step(draw(st.data()), pair)
        assume(len(pair[1]) < 200)
    return pair


def assert_reads(view: BaseSource[Any], expected: list[Any], keys: list[int]) -> None:
    """Fail unless ``view`` is the list ``expected``, at ``keys`` by every way of reading."""
    assert len(view) == len(expected)
    for key in keys:
        assert not difference(view[key], expected[key])
    wanted = [expected[key] for key in keys]
    assert not difference(view[keys], wanted)
    assert not difference(view[np.array(keys, np.int64)], wanted)
    if keys:
        assert not difference(view.read_batch(keys), stack(wanted))
        bounds = [0, len(keys) // 3, len(keys) // 2, len(keys)]
        batches = view.read_batches(keys, bounds)
        for batch, start, stop in zip(batches, bounds, bounds[1:], strict=False):
            if start < stop:
                assert not difference(batch, stack(wanted[start:stop]))
            assert all(len(leaf) == stop - start for _, leaf in walk(batch))
    for outside in (len(expected), -len(expected) - 1):
        with pytest.raises(IndexError, match=f"index {outside} is out of range"):
            view[outside]
        with pytest.raises(IndexError, match=f"index {outside} is out of range"):
            view.read_batch([0, outside] if expected else [outside])


@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(compositions(), st.data())
def test_any_composition_is_the_list_it_stands_for(pair: Pair, data: st.DataObject) -> None:
    """Element by element, many at once and as columns; iterated; and again after it was pickled."""
    view, expected = pair
    bound = st.integers(-len(expected), max(0, len(expected) - 1))
    keys = data.draw(st.lists(bound, max_size=8 if expected else 0))

    assert_reads(view, expected, keys)
    assert not difference(list(view), expected)
    copied = pickle.loads(pickle.dumps(view))
    assert_reads(copied, expected, keys)
    assert copied.fingerprint == view.fingerprint
    assert repr(copied) == repr(view)
    assert_reads(view, expected, keys)


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(st.integers(0, 9), st.data())
def test_slices_and_selections_of_each_other_are_those_of_a_list(length: int, data: st.DataObject) -> None:
    """All the cases of Python's slices, several deep."""
    view: BaseSource[Any] = SequenceSource([*range(length)])
    expected = [*range(length)]
    for _ in range(data.draw(st.integers(1, 5))):
        view, expected = data.draw(st.sampled_from([cut, cut, select]))(data, (view, expected))

    assert list(view) == expected
    assert [view[i] for i in range(-len(expected), len(expected))] == expected * 2


# -- depth ----------------------------------------------------------------------------------------------------------------


def calls_of(read: Callable[[], Any]) -> int:
    """Return how many Python functions ``read`` calls."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    read()
    sys.setprofile(note)
    try:
        read()
    finally:
        sys.setprofile(None)
    return count


def sliced(view: BaseSource[Any]) -> BaseSource[Any]:
    return view[1:]


def reversed_and_selected(view: BaseSource[Any]) -> BaseSource[Any]:
    return view[::-1].select(range(len(view) - 1))


def rotated(view: BaseSource[Any]) -> BaseSource[Any]:
    return concatenate(view[1:], view[:1])


def appended(view: BaseSource[Any]) -> BaseSource[Any]:
    return view + view[:1]


@pytest.mark.parametrize("step", [sliced, reversed_and_selected, rotated, appended], ids=lambda step: step.__name__)
@pytest.mark.parametrize("make", [arrays, objects], ids=lambda make: make.__name__)
def test_depth_costs_nothing(make: Callable[[int], Pair], step: Callable[[BaseSource[Any]], BaseSource[Any]]) -> None:
    """After three hundred steps an element, and a batch, takes as many calls as after three."""
    view = make(1000)[0].map(next_one)
    counts = []
    for depth in range(1, 301):
        view = step(view)
        if depth in (3, 300):
            indices = np.arange(20)
            counts.append((calls_of(lambda: view[7]), calls_of(lambda: view[indices])))  # noqa: B023
    assert counts[1][0] <= counts[0][0]
    # What a rotation has cut apart is read part by part.
    assert counts[1][1] <= counts[0][1] + (40 if step is rotated else 8)


def test_maps_of_slices_of_maps_cost_their_functions_and_no_more() -> None:
    """Each further map is one more call of one more function, whatever is between."""
    view, expected = objects(1000)
    counts = []
    for depth in range(1, 201):
        view, expected = view.map(identity)[1:], expected[1:]
        if depth in (10, 200):
            counts.append(calls_of(lambda: view[7]))  # noqa: B023
    assert counts[1] - counts[0] == 190
    assert not difference(view[7], expected[7])


def identity(element: Any) -> Any:
    """Return the element."""
    return element


def test_a_deep_view_pickles_and_shows_itself() -> None:
    """There is nothing deep about it."""
    view, _ = arrays(5000)
    for _ in range(1000):
        view = concatenate(view[1:], view[:1])[2:].select(range(len(view) - 3))[:-1]
    view = view.map(identity)
    copied = pickle.loads(pickle.dumps(view))

    assert not difference(copied[-1], view[-1])
    assert repr(copied) == repr(view)
