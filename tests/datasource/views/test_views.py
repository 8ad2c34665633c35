"""What each view does besides being a list: what it asks of its sources, what it refuses, what its errors say."""

from __future__ import annotations

import functools
import pickle
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import arrayfeed
from arrayfeed import ArraySource, SequenceSource, concatenate, zip_sources
from arrayfeed.datasource import BaseSource
from arrayfeed.datasource.columns import StructureError
from support.equal import difference
from support.sources import Asked, divide, negate

# -- what is asked --------------------------------------------------------------------------------------------------------


def test_making_views_reads_nothing() -> None:
    """Of any kind; only unbatch counts rows."""
    source = Asked(range(1, 101))
    view = concatenate(source[3:], source.select([4, 2]).map(divide)).enumerate().batch(4)[1:].window(2)
    zip_sources(a=view, b=view).cache().split({"a": 0.5, "b": 0.5}, seed=0)

    assert source.asked == []


def test_a_batch_asks_each_source_once() -> None:
    """Through slices, selections, concatenations and zips, in whatever order; columns, not elements."""
    one, other = Asked(range(10), "one"), Asked(range(100, 110), "other")
    joined = concatenate(one[::2], other.select([9, 8, 7]))
    batch = zip_sources(joined[::-1], joined).read_batch([0, 7, 3, 7, -1])

    assert batch[0].tolist() == [107, 0, 8, 0, 0]
    assert batch[1].tolist() == [0, 107, 6, 107, 107]
    assert one.asked == [("columns", [0, 8, 0, 0]), ("columns", [0, 6])]
    assert other.asked == [("columns", [7]), ("columns", [7, 7, 7])]


def test_several_batches_ask_each_source_once() -> None:
    """Each makes its share of every batch in one go; shares of nothing are left out."""
    one, other = Asked(range(10), "one"), Asked(range(100, 110), "other")
    batches = concatenate(one, other).read_batches([1, 12, 2, 13, 14, 3, 4], [0, 3, 5, 5, 7])

    assert [batch.tolist() for batch in batches] == [[1, 102, 2], [103, 104], [], [3, 4]]
    assert one.asked == [("batches", ([1, 2, 3, 4], [0, 2, 2, 2, 4])), ("columns", [])]
    assert other.asked == [("batches", ([2, 3, 4], [0, 1, 3, 3, 3]))]


def test_what_lies_in_one_part_is_passed_on_as_it_is() -> None:
    """A concatenation adds nothing where a batch needs one part only."""
    one, other = Asked(range(10), "one"), Asked(range(10), "other")
    concatenate(one, other).read_batches([12, 13, 11], [0, 1, 3])

    assert one.asked == []
    assert other.asked == [("batches", ([2, 3, 1], [0, 1, 3]))]


def test_batches_are_read_in_one_go() -> None:
    """Many elements of a batch view are one call to its source, as columns too."""
    source = Asked(range(10))
    view = source.batch(3)

    assert [batch.tolist() for batch in view[[1, 3, 1]]] == [[3, 4, 5], [9], [3, 4, 5]]
    assert source.asked == [("batches", ([3, 4, 5, 9, 3, 4, 5], [0, 3, 4, 7]))]
    assert view.read_batch([2, 0]).tolist() == [[6, 7, 8], [0, 1, 2]]
    assert source.asked == [("columns", [6, 7, 8, 0, 1, 2])]


def test_closing_a_view_closes_its_sources() -> None:
    """All of them, however deep."""
    one, other = Asked(range(4), "one"), Asked(range(4), "other")
    with zip_sources(one[1:].map(negate).cache(), concatenate(other, other)[1:4]).batch(2):
        pass

    assert one.closed and other.closed


# -- map ------------------------------------------------------------------------------------------------------------------


def double(element: Any) -> Any:
    return element * 2


def test_an_error_in_a_mapped_function_keeps_its_type_and_says_where() -> None:
    """Which function, which element of which source, by whatever way it is read and however deep the views are."""
    source = Asked([*range(5, 0, -1), 0])
    view = concatenate(Asked([1]), source[1:]).map(double).map(divide)[2:]
    expected = "raised by support.sources.divide on element 5 of Asked(asked)"
    ways: list[Callable[[], Any]] = [
        lambda: view[-1],
        lambda: view[[0, 3]],
        lambda: view.read_batch([0, 3]),
        lambda: view.read_batches([0, 3], [0, 1, 2]),
        lambda: list(view),
        lambda: view.batch(2)[1],
        lambda: view.cache()[3],
        lambda: view.map(double)[3],
    ]
    for way in ways:
        with pytest.raises(ZeroDivisionError) as caught:
            way()
        assert caught.value.__notes__ == [expected]


def test_an_error_below_a_map_is_no_error_of_its_function() -> None:
    """It gets no note that blames the function."""
    view = SequenceSource([0]).map(divide).batch(1).map(double)
    with pytest.raises(ZeroDivisionError) as caught:
        view[0]
    assert caught.value.__notes__ == ["raised by support.sources.divide on element 0 of SequenceSource(1 elements of a list)"]


def test_a_map_pickles_where_its_function_does() -> None:
    """A function of a module does, a lambda says that it does not."""
    view = SequenceSource([1, 2, 4]).map(functools.partial(pow, 2)).map(negate)

    assert list(pickle.loads(pickle.dumps(view))) == [-2, -4, -16]
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(view.map(lambda element: element))


def test_what_is_no_function_is_refused() -> None:
    """When the view is made."""
    with pytest.raises(TypeError, match="map needs a function, got int"):
        SequenceSource([1]).map(3)  # type: ignore[arg-type]


# -- concatenate ----------------------------------------------------------------------------------------------------------


def test_columns_of_several_sources_are_joined_as_stack_would() -> None:
    """Dtypes are promoted, large integers stay exact, texts become objects, structures stay."""
    small, large = SequenceSource([{"n": 1, "t": "a"}]), SequenceSource([{"n": (1 << 64) - 1, "t": b"b"}])
    batch = concatenate(small, large).read_batch([1, 0])

    assert not difference(batch["n"], np.array([(1 << 64) - 1, 1], np.uint64))
    assert batch["t"].tolist() == [b"b", "a"]
    assert not difference((small + SequenceSource([{"n": 0.5, "t": "c"}])).read_batch([0, 1])["n"], np.array([1, 0.5]))
    negative = concatenate(large, SequenceSource([{"n": -1, "t": ""}])).read_batch([0, 1])
    assert not difference(negative["n"].tolist(), [(1 << 64) - 1, -1])


Point = namedtuple("Point", "x y")


@dataclass(frozen=True)
class Box:
    corner: Point
    size: int

    def __post_init__(self) -> None:
        if np.ndim(self.size) == 0 and self.size < 0:
            raise ValueError("a box of negative size")


def test_named_tuples_and_data_classes_stay_what_they_are() -> None:
    """In columns that were joined, cut and batched."""
    boxes = [Box(Point(n, -n), n) for n in range(4)]
    view = concatenate(SequenceSource(boxes[:2]), SequenceSource(boxes[2:]))
    batch = view.batch(4)[0]

    assert type(batch) is Box and type(batch.corner) is Point
    assert batch.corner.y.tolist() == [0, -1, -2, -3]
    assert [element.corner for element in view.batch(2).unbatch()] == [box.corner for box in boxes]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"a": np.zeros(3), "b": 1}, r"field 'a': example 0 of the batch has shape \(2,\), example 1 has shape \(3,\)"),
        ({"a": np.zeros(2)}, r"the examples: example 0 of the batch has keys \['a', 'b'\], example 1 has keys \['a'\]"),
        ((np.zeros(2), 1), "example 1 has a tuple of 2"),
        (np.zeros(2), "example 1 has no fields"),
        ({"a": np.zeros(2), "b": {"c": 1}}, "field 'b': example 0 of the batch has no fields, example 1 has keys"),
    ],
)
def test_sources_of_different_structure_make_no_batch(other: Any, message: str) -> None:
    """The error names the field, what both have, and where in the batch they are. Single elements can still be read."""
    view = concatenate(SequenceSource([{"a": np.zeros(2), "b": 1}] * 3), SequenceSource([other] * 3))
    with pytest.raises(StructureError, match=message) as caught:
        view.read_batch([2, 4, 0])

    assert caught.value.places == (0, 1)
    assert len(view[[2, 4, 0]]) == 3


def test_a_list_is_no_source() -> None:
    """Whether its elements are meant, or are sources, cannot be told; the error says how to write either."""
    source = SequenceSource([1])
    takers: tuple[Any, ...] = (concatenate, zip_sources)
    for make in takers:
        name = make.__name__
        with pytest.raises(TypeError, match=rf"{name} takes sources, got a list; write {name}\(\*sources\)"):
            make([source, source])
        with pytest.raises(ValueError, match="needs at least one source"):
            make()
    with pytest.raises(TypeError, match="unsupported operand"):
        source + [1]  # noqa: RUF005


def test_a_concatenation_of_one_source_is_that_source() -> None:
    """And of no elements at all it is empty."""
    source = SequenceSource([1])

    assert concatenate(source) is source
    assert list(concatenate(source[:0], source[:0])) == []


# -- as_tuple -------------------------------------------------------------------------------------------------------------


def test_fields_are_tuples_in_the_order_asked_for() -> None:
    """One by one, and as columns, which ask the source for columns; fields of fields, and names that have a "/"."""
    source = Asked([{"a": k, "b": {"c": -k, "d": "x"}, "b/d": 2 * k} for k in range(5)])
    view = source.as_tuple("b/c", "a", "b/d")

    assert view[2] == (-2, 2, 4)
    assert view[::-1][[0, 1]] == [(-4, 4, 8), (-3, 3, 6)]
    assert source.asked == [("one", 2), ("many", [4, 3])]
    assert [column.tolist() for column in view.read_batch([3, 1])] == [[-3, -1], [3, 1], [6, 2]]
    assert [batch[1].tolist() for batch in view.read_batches([3, 1, 0], [0, 1, 3])] == [[3], [1, 0]]
    assert source.asked == [("columns", [3, 1]), ("batches", ([3, 1, 0], [0, 1, 3]))]


def test_fields_that_are_not_there_are_told_with_those_that_are() -> None:
    """When read; names that are none when the view is made."""
    source = SequenceSource([{"a": 1, "b": {"c": 2}}])
    for name in ("x", "b/x", "a/c"):
        with pytest.raises(ValueError, match=rf"no field is called '{name}'; there are \['a', 'b'\]"):
            source.as_tuple(name)[0]
    with pytest.raises(ValueError, match="no field is called 'a'; got a ndarray"):
        SequenceSource([1]).as_tuple("a").read_batch([0])
    for names in ((), (1,), (("a", "b"),)):
        with pytest.raises(TypeError, match="as_tuple takes names of fields"):
            source.as_tuple(*names)


# -- zip ------------------------------------------------------------------------------------------------------------------


def test_sources_side_by_side_are_tuples_or_dicts() -> None:
    """Columns are the tuple or dict of the sources' columns."""
    images, labels = ArraySource(np.arange(12).reshape(3, 2, 2)), SequenceSource(["a", "b", "c"])

    assert zip_sources(images, labels)[-1][1] == "c"
    assert zip_sources(labels, labels).read_batch([2, 0])[1].tolist() == ["c", "a"]
    named = zip_sources(image=images, label=labels)
    assert list(named[0]) == ["image", "label"]
    assert named.read_batch([2, 1])["image"].tolist() == [[[8, 9], [10, 11]], [[4, 5], [6, 7]]]


def test_lengths_that_differ_are_refused() -> None:
    """With all of them in the error, and what to do."""
    short, long = SequenceSource([1]), SequenceSource([1, 2])
    with pytest.raises(ValueError, match=r"differ in length \(0: 2, 1: 1\); cut the longer ones, as in source\[:1\]"):
        zip_sources(long, short)
    with pytest.raises(ValueError, match=r"\(image: 1, label: 2\)"):
        zip_sources(image=short, label=long)
    with pytest.raises(TypeError, match="name all of the sources or none"):
        zip_sources(short, label=short)  # type: ignore[call-overload]


def test_numbers_stay_with_their_elements() -> None:
    """However the enumeration is cut and ordered afterwards."""
    view = SequenceSource("abcdef").enumerate(10)

    assert view[3] == (13, "d")
    assert list(view[::-2]) == [(15, "f"), (13, "d"), (11, "b")]
    assert view.select([2, 0]).read_batch([0, 1])[0].tolist() == [12, 10]


# -- batch, window, unbatch -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", range(12))
@pytest.mark.parametrize("size", [1, 2, 3, 5, 12])
def test_batches_and_windows_are_slices_of_the_source(length: int, size: int) -> None:
    """All of them, the short last one with and without ``drop_last``; windows at every stride."""
    elements = [*range(length)]
    source = SequenceSource(elements)
    chunks = [elements[start : start + size] for start in range(0, length, size)]

    assert [batch.tolist() for batch in source.batch(size)] == chunks
    assert [batch.tolist() for batch in source.batch(size, drop_last=True)] == [c for c in chunks if len(c) == size]
    for stride in (1, 2, 7):
        windows = [elements[start : start + size] for start in range(0, max(0, length - size + 1), stride)]
        assert [window.tolist() for window in source.window(size, stride)] == windows


@pytest.mark.parametrize("size", [0, -1, True, 2.0])
def test_an_impossible_batch_size_is_refused(size: Any) -> None:
    """When the view is made."""
    with pytest.raises(ValueError, match="size must be an integer >= 1"):
        SequenceSource([1]).batch(size)
    with pytest.raises(ValueError, match="stride must be an integer >= 1"):
        SequenceSource([1]).window(1, size)


def test_a_short_batch_stacks_with_no_full_one() -> None:
    """Batches of batches are arrays of one more axis, as long as they are equally long."""
    view = SequenceSource([*range(5)]).batch(2)

    assert view.read_batch([1, 0]).tolist() == [[2, 3], [0, 1]]
    assert view.read_batch([2, 2]).tolist() == [[4], [4]]
    with pytest.raises(StructureError, match=r"shape \(2,\), example 1 has shape \(1,\)"):
        view.read_batch([0, 2])
    assert view.batch(2)[0].tolist() == [[0, 1], [2, 3]]


def test_a_batch_that_does_not_stack_names_its_elements() -> None:
    """The field, both shapes, and which elements of which source they are."""
    view = SequenceSource([{"x": np.zeros(k // 4)} for k in range(8)])[2:].batch(3)
    with pytest.raises(
        StructureError, match=r"field 'x': example 0 of the batch has shape \(0,\), example 2 has shape"
    ) as caught:
        view[0]
    origin = "of SequenceSource(8 elements of a list)"
    assert caught.value.__notes__ == [f"in batch 0: element 2 {origin}, and element 4 {origin}"]


def test_rows_of_batches_ask_for_each_batch_once() -> None:
    """Whatever rows are wanted, and in whatever order."""
    source = Asked([{"x": np.arange(3) + 10 * n} for n in range(4)])
    rows = source.unbatch()
    source.asked  # noqa: B018

    assert len(rows) == 12
    assert [row["x"] for row in rows[[11, 0, 10, 1]]] == [32, 0, 31, 1]
    assert source.asked == [("many", [0, 3])]
    assert rows.read_batch([11, 0, 10, 1])["x"].tolist() == [32, 0, 31, 1]
    assert source.asked == [("many", [0, 3])]


def test_what_cannot_be_unbatched_says_why() -> None:
    """No columns, columns of unequal length, a last batch that is longer, a batch in the middle that is shorter."""
    with pytest.raises(TypeError, match=r"unbatch needs columns, arrays with a leading axis; got int 1"):
        SequenceSource([1]).unbatch()
    with pytest.raises(ValueError, match=r"the columns of a batch must be equally long, got \[1, 2\]"):
        SequenceSource([{"a": np.zeros(1), "b": np.zeros(2)}]).unbatch()
    with pytest.raises(ValueError, match="the last batch has 3 rows, the first has 2"):
        SequenceSource([np.zeros(2), np.zeros(3)]).unbatch()
    rows = SequenceSource([np.zeros(2), np.zeros(1), np.zeros(2)]).unbatch()
    with pytest.raises(ValueError, match=r"element 1 of SequenceSource.* has 1 rows, 2 were expected"):
        rows[2]
    assert len(SequenceSource([]).unbatch()) == 0


def test_a_row_does_not_keep_its_batch_alive() -> None:
    """It is a copy, and the caller's own."""
    batches = SequenceSource([np.zeros((4, 2))])
    row = batches.unbatch()[1]
    row += 1

    assert row.base is None
    assert batches[0].sum() == 0


# -- identity -------------------------------------------------------------------------------------------------------------


def views_of(source: BaseSource[Any]) -> list[BaseSource[Any]]:
    """Return views that are all different, made anew."""
    named = {"a": source, "b": source[::-1]}
    return [
        source,
        source[:-1],
        source[1:],
        source[::-1],
        source.select([0, 1, 3]),
        source.select([3, 1, 0]),
        source.as_tuple("a", "b"),
        source.as_tuple("b", "a"),
        source.map(negate),
        source.map(divide),
        source.map(negate).map(divide),
        source.map(functools.partial(pow, 2)),
        source.map(functools.partial(pow, 3)),
        source + source,
        source + source[1:],
        source[1:] + source,
        zip_sources(source, source[::-1]),
        zip_sources(source[::-1], source),
        zip_sources(**named),
        zip_sources(**dict(zip(("c", "d"), named.values(), strict=True))),
        source.enumerate(),
        source.enumerate(1),
        source.batch(2),
        source.batch(3),
        source.batch(3, drop_last=True),
        source.window(3),
        source.window(3, 2),
        source.batch(2).unbatch(),
        *source.split(2),
        *source.split(2, seed=None)[0].split([0.5, 0.5], seed=1),
    ]


def test_fingerprints_tell_views_apart_and_are_the_same_for_the_same() -> None:
    """Made twice, or pickled, a view has one fingerprint; another view has another."""
    source = ArraySource(np.arange(10))
    prints = [view.fingerprint for view in views_of(source)]

    assert len(set(prints)) == len(prints)
    assert [view.fingerprint for view in views_of(ArraySource(np.arange(10)))] == prints
    assert [pickle.loads(pickle.dumps(view)).fingerprint for view in views_of(source)] == prints
    assert source.cache().fingerprint == source.fingerprint


def test_lists_are_told_apart_by_what_is_in_them() -> None:
    """As far as it can be seen, so that a cache in a file is not taken for that of another list; equal ones are the same."""
    lists: list[Any] = [[1, 2], [1, 3], (1, 2), range(2), range(1, 3), "ab", "ac", [1.0, 2], [[1], 2], [b"1", "2"], []]
    lists += [[np.zeros(3)], [np.ones(3)], [{"a": np.zeros(3)}], [{"a": np.zeros(3, np.int8)}]]
    prints = [SequenceSource(each).fingerprint for each in lists]

    assert len({*prints}) == len(lists)
    assert [SequenceSource(pickle.loads(pickle.dumps(each))).fingerprint for each in lists] == prints
    assert SequenceSource([Box(Point(1, 2), 3)]).fingerprint == SequenceSource([Box(Point(1, 2), 3)]).fingerprint


def test_every_view_says_what_it_is() -> None:
    """As one would write it, or nearly."""
    source = Asked(range(10))
    shown = {repr(view) for view in views_of(source)}

    assert "<9 of Asked(asked)[1:10:1]>" in shown
    assert "<10 of Asked(asked)[9::-1]>" in shown
    assert "<3 of Asked(asked).select(...)>" in shown
    assert "Asked(asked).map(support.sources.negate).map(support.sources.divide)" in shown
    assert "Asked(asked).as_tuple('a', 'b')" in shown
    assert "<20 of concatenate(Asked(asked), Asked(asked))>" in shown
    assert "zip_sources(a=Asked(asked), b=<10 of Asked(asked)[9::-1]>)" in shown
    assert "<3 of Asked(asked).batch(3, drop_last=True)>" in shown
    assert "<4 of Asked(asked).window(3, 2)>" in shown
    assert "<10 of <5 of Asked(asked).batch(2)>.unbatch()>" in shown
    assert repr(concatenate(*[source] * 1000)).endswith("Asked(asked), and 997 more)>")
    deep: BaseSource[Any] = source
    for _ in range(8):
        deep = zip_sources(deep.batch(1), deep.batch(1))
    assert len(repr(deep)) < 600


def test_a_view_goes_wherever_a_source_goes() -> None:
    """To a loader: every element once, and a state that a loader over another view refuses."""
    source = ArraySource(np.arange(40))
    loader = arrayfeed.DataLoader(source[10:].map(negate), batch_size=10, shuffle=True)

    assert sorted(np.concatenate(list(loader)).tolist()) == list(range(-39, -9))
    other = arrayfeed.DataLoader(source[:30].map(negate), batch_size=10, shuffle=True)
    with pytest.raises(arrayfeed.StateError, match="another stream"):
        other.load_state_dict(loader.state_dict())


def test_selections_at_a_regular_step_cost_no_memory() -> None:
    """A million neighbours pickle in a few bytes, given as an array or a range; other indices take what they take."""
    source = ArraySource(np.zeros(1, np.uint8)).select(np.zeros(1_000_000, np.int64))
    base = len(pickle.dumps(source))
    for indices in (np.arange(1_000_000), range(999_999, -1, -3)):
        view = SequenceSource(range(1_000_000)).select(indices)
        assert len(pickle.dumps(view)) < 500 < base
        assert view[[0, -1]] == [indices[0], indices[-1]]


def test_a_selection_is_not_changed_by_whoever_gave_the_indices() -> None:
    """It has a copy."""
    indices = np.array([3, 1, 2])
    view = SequenceSource("abcd").select(indices)
    indices[:] = 0

    assert list(view) == ["d", "b", "c"]
