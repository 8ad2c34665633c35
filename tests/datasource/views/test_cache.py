"""What a cache keeps, for how long, in how many bytes: in memory and in a file alike."""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from arrayfeed import ArraySource, SequenceSource
from arrayfeed.datasource.columns import StructureError, stack
from arrayfeed.datasource.views.cache import CacheView
from arrayfeed.datasource.views.cache.values import decode_value, encode_value
from support.equal import difference
from support.sources import Asked, divide

Cache = Callable[..., CacheView[Any]]


@pytest.fixture(params=["memory", "file"])
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> Cache:
    """Makes a cache of a source, of either kind."""
    in_file = request.param == "file"
    return lambda source, max_bytes=1 << 30, name="cache": source.cache(max_bytes, path=tmp_path / name if in_file else None)


class Point(NamedTuple):
    x: Any
    y: Any


@dataclass(frozen=True)
class Box:
    corner: Point
    names: list[str]

    def __post_init__(self) -> None:
        if self.names is None:
            raise ValueError("a box needs names")


def mixed(number: int) -> dict[str, Any]:
    """Return an example with something of every kind in it."""
    return {
        "image": np.full((2, 3), number, np.uint8),
        "empty": np.empty((0, 4), np.float32),
        "scalar": np.float16(number),
        "label": number,
        "large": 1 << 70 + number,
        "text": "é" * number,
        "bytes": bytes(number),
        "none": None,
        "list": [1.5, "a", [number]],
        "ragged": np.arange(number),
        "objects": np.array([b"x", "y", None], object),
        "pair": (number, {"deep": -0.0}),
    }


# -- what is asked of the source ------------------------------------------------------------------------------------------


def test_an_element_is_read_from_the_source_once(cache: Cache) -> None:
    """By whatever ways it is asked for: one by one, many at once, again and again in one call."""
    source = Asked([mixed(k) for k in range(10)])
    view = cache(source)

    assert not difference(view[3], mixed(3))
    assert source.asked == [("one", 3)]
    assert not difference(view[[3, 5, 3, 5, 1]], [mixed(k) for k in (3, 5, 3, 5, 1)])
    assert source.asked == [("many", [5, 5, 1])]
    assert not difference(list(view), [mixed(k) for k in range(10)])
    assert not difference([view[k] for k in range(10)], [mixed(k) for k in range(10)])
    assert sorted(index for kind, asked in source.asked for index in (asked if kind == "many" else [asked])) == [
        0,
        2,
        4,
        6,
        7,
        8,
        9,
    ]
    assert view.stats().examples == 10


def test_rows_are_kept_as_columns_have_them(cache: Cache) -> None:
    """A batch reads what is missing in one go, and puts it together with what is there; of several batches each its own."""
    source = Asked([{"x": k, "v": np.full(2, k, np.float32), "t": f"t{k}"} for k in range(10)])
    view = cache(source)
    wanted = stack(source[[1, 4, 1]])
    source.asked  # noqa: B018

    assert not difference(view.read_batch([1, 4, 1]), wanted)
    assert source.asked == [("columns", [1, 4, 1])]
    assert not difference(view.read_batch([1, 4, 1]), wanted)
    assert source.asked == []
    assert view.read_batch([4, 7, 1, 8])["x"].tolist() == [4, 7, 1, 8]
    assert source.asked == [("columns", [7, 8])]
    batches = view.read_batches([8, 1, 4, 7], [0, 1, 1, 4])
    assert [batch["t"].tolist() for batch in batches] == [["t8"], [], ["t1", "t4", "t7"]]
    assert [asked for _, asked in source.asked] in ([], [[]])
    view[1]
    assert source.asked == [("one", 1)]  # in the form of an example it was not there yet


def test_what_it_did_is_told(cache: Cache) -> None:
    """Hits and misses of this process; what there is, in which form, in how many bytes."""
    view = cache(SequenceSource([np.zeros(100, np.uint8)] * 20))
    view[[1, 2, 1]], view[1], view.read_batch([5, 6])
    stats = view.stats()

    assert (stats.hits, stats.misses, stats.examples, stats.rows) == (1, 5, 2, 2)
    assert 400 < stats.used_bytes < 2000
    assert stats.max_bytes == 1 << 30


def test_what_is_handed_out_is_the_callers_own(cache: Cache) -> None:
    """Changing an element or a batch changes nothing that is read later, nor the source."""
    view = cache(SequenceSource([mixed(3)]))
    for _ in range(3):
        element = view[0]
        element["image"][:] = 9
        element["list"][2][0] = 9
        del element["label"]
    rows = cache(ArraySource({"x": np.zeros((4, 2))}), name="rows")
    for _ in range(3):
        batch = rows.read_batch([0, 1])
        batch["x"] += 1

    assert not difference(view[0], mixed(3))
    assert not rows.read_batch([0, 1])["x"].any()


def test_named_tuples_and_data_classes_stay_what_they_are(cache: Cache) -> None:
    """As elements and as rows, from the first read on and after it."""
    boxes = [Box(Point(k, np.arange(2) * k), ["a", str(k)]) for k in range(3)]
    view = cache(SequenceSource(boxes))
    for _ in range(2):
        for found, expected in zip(view, boxes, strict=True):
            assert type(found) is Box and type(found.corner) is Point
            assert not difference(
                [found.corner.x, found.corner.y, found.names], [expected.corner.x, expected.corner.y, expected.names]
            )
        batch = view.map(lambda box: box.corner).cache().read_batch([0, 2])
        assert type(batch) is Point and batch.y.tolist() == [[0, 0], [0, 2]]


def test_elements_of_many_forms_lie_side_by_side(cache: Cache) -> None:
    """Other shapes, other keys, other types; rows of shapes that differ make no batch, and the error names both."""
    elements = [{"a": np.zeros(k % 3)} if k % 2 else {"b": k, "c": "x"} for k in range(12)]
    view = cache(SequenceSource(elements))
    for _ in range(2):
        assert not difference(list(view), elements)
        assert view.read_batch([1, 7])["a"].shape == (2, 1)
        assert view.read_batch([5])["a"].shape == (1, 2)
        with pytest.raises(StructureError, match=r"field 'a': example.* shape"):
            view.read_batch([1, 5])


def test_an_error_is_not_kept(cache: Cache) -> None:
    """It is raised every time, with the note of the map below; its neighbours are read and kept."""
    view = cache(SequenceSource([5, 0, 2]).map(divide))
    for _ in range(2):
        with pytest.raises(ZeroDivisionError) as caught:
            view[1]
        assert caught.value.__notes__ == [
            "raised by support.sources.divide on element 1 of SequenceSource(3 elements of a list)"
        ]
        assert [view[0], view[2]] == [20, 50]
    assert view.stats().examples == 2


@pytest.mark.parametrize(
    ("element", "message"),
    [
        ({"a": {"b": object()}}, "field 'a/b' cannot be cached, it holds a builtins.object"),
        ({1, 2}, "the element cannot be cached, it holds a builtins.set"),
        ({"a": [np.datetime64, 1]}, "field 'a' cannot be cached"),
        (np.zeros(2, [("x", "i4")]), "values of dtype"),
    ],
    ids=str,
)
def test_what_has_no_form_in_bytes_is_refused_by_name(cache: Cache, element: Any, message: str) -> None:
    """Not pickled: a file of pickles would run whatever code somebody put there."""
    view = cache(SequenceSource([element]))
    for _ in range(2):
        with pytest.raises(TypeError, match=message):
            view[0]


# -- the bound ------------------------------------------------------------------------------------------------------------


def test_no_more_is_kept_than_it_may_and_it_says_so_once(cache: Cache) -> None:
    """What is in stays in; the rest is right too, read from the source every time."""
    source = Asked([np.full(1000, k, np.uint8) for k in range(100)])
    view = cache(source, 20_000)
    with pytest.warns(RuntimeWarning, match=r"the cache is full: max_bytes=20000 hold 1\d of 100 elements") as warned:
        first = list(view)
    assert len(warned) == 1
    kept = view.stats().examples
    source.asked  # noqa: B018
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = [view[k] for k in range(100)]

    assert not difference(first, list(source.elements)) and not difference(second, first)
    assert 15 < kept < 20 and len(source.asked) == 100 - kept
    assert view.stats().used_bytes <= 20_000


@pytest.mark.parametrize("max_bytes", [-1, 1.5, True, "1"])
def test_an_impossible_bound_is_refused(max_bytes: Any) -> None:
    """When the view is made."""
    with pytest.raises(ValueError, match="max_bytes must be an integer >= 0"):
        SequenceSource([1]).cache(max_bytes)


def test_a_cache_of_no_bytes_keeps_nothing(cache: Cache) -> None:
    """And reads all the same."""
    view = cache(SequenceSource([1, 2]), 0)
    with pytest.warns(RuntimeWarning, match="hold 0 of 2 elements"):
        assert [*view, *view] == [1, 2, 1, 2]


# -- processes ------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_begins_with_what_its_parent_had(cache: Cache) -> None:
    """And goes on by itself: neither disturbs the other."""
    source = Asked([mixed(k) for k in range(10)])
    view = cache(source)
    view[[1, 2]]
    source.asked  # noqa: B018
    child = os.fork()
    if not child:
        try:
            right = not difference(view[[1, 2, 3]], [mixed(k) for k in (1, 2, 3)]) and source.asked == [("one", 3)]
            right = right and not difference(list(view), [mixed(k) for k in range(10)])
        finally:
            os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert not difference(list(view), [mixed(k) for k in range(10)])


def test_an_unpickled_cache_in_memory_is_empty() -> None:
    """What is kept does not travel."""
    view = SequenceSource([np.zeros(1000)] * 100).map(np.negative).cache()
    copy = pickle.loads(pickle.dumps(view[:50]))

    assert isinstance(view, CacheView) and len(copy) == 50
    assert view.stats().examples == 0


# -- values as bytes ------------------------------------------------------------------------------------------------------

DTYPES = hnp.scalar_dtypes() | hnp.datetime64_dtypes() | hnp.byte_string_dtypes() | hnp.unicode_string_dtypes()
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.binary(max_size=20)
    | st.text(max_size=20)
    | hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, min_side=0, max_side=3)),
    lambda inner: (
        st.lists(inner, max_size=6) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(VALUES)
def test_every_value_comes_back_from_its_bytes(value: Any) -> None:
    """Types, dtypes, and every bit."""
    assert not difference(decode_value(encode_value(value)), value)


@given(VALUES, st.data())
def test_damaged_bytes_are_a_value_or_a_value_error(value: Any, data: st.DataObject) -> None:
    """Cut, changed, or made up: they cannot run, hang or take more memory than they have."""
    whole = bytearray(encode_value(value))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(whole) - 1))
        whole[place] = data.draw(st.integers(0, 255))
    damaged = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    for each in (damaged, data.draw(st.binary(max_size=30))):
        try:
            decode_value(each)
        except ValueError:
            pass


def test_nesting_without_end_is_refused() -> None:
    """On both sides."""
    value: Any = 1
    for _ in range(100):
        value = [value]
    with pytest.raises(TypeError, match="nesting deeper than 64"):
        encode_value(value)
    with pytest.raises(ValueError, match="nesting deeper than 64"):
        decode_value(b"l\1\0\0\0\0\0\0\0" * 1000 + b"N")
