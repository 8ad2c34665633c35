"""What unequal ranks leave of an epoch is numbered as a plain list of it would be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from arrayfeed.loaders.state.leftover import Leftover, Span


def plain(order: list[int], used: list[int], ahead: Sequence[Span] = ()) -> list[int]:
    """Return what is left of a list once each rank has taken the first so many of its stripe, and some beyond."""
    ranks = len(used)
    beyond = {position * ranks + rank for rank, start, stop in ahead for position in range(start, stop)}
    return [place for number, place in enumerate(order) if number // ranks >= used[number % ranks] and number not in beyond]


@st.composite
def loose_merges(draw: st.DrawFn) -> tuple[list[int], list[Span]]:
    """Return what ranks that deliver batches as they come have used: up to a place, and some spans beyond."""
    used, ahead = [], []
    for rank in range(draw(st.integers(1, 5))):
        bounds = sorted(draw(st.sets(st.integers(0, 14), max_size=7)))
        used.append(bounds[0] if bounds else 0)
        ahead += [(rank, start, stop) for start, stop in zip(bounds[1::2], bounds[2::2], strict=False)]
    return used, ahead


levels = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=5), max_size=4)


@given(length=st.integers(0, 60), base=st.integers(0, 8), merges=levels)
def test_places_are_those_of_a_plain_list(length: int, base: int, merges: list[list[int]]) -> None:
    """After any chain of merges, by any numbers of ranks; levels that are filled up leave no trace."""
    order, leftover = list(range(base, max(length, base))), Leftover(base)
    for used in merges:
        order, leftover = plain(order, used), leftover.merge(used, {})

    assert leftover.count(length) == len(order)
    assert leftover.places(np.arange(len(order))).tolist() == order


@given(length=st.integers(0, 60), merges=st.lists(loose_merges(), max_size=3))
def test_places_are_those_of_a_plain_list_whatever_was_used_ahead(
    length: int, merges: list[tuple[list[int], list[Span]]]
) -> None:
    """After any chain of merges; spans leave with the holes before them."""
    order, leftover = list(range(length)), Leftover()
    for used, ahead in merges:
        order, leftover = plain(order, used, ahead), leftover.merge(used, {}, ahead)

    assert leftover.count(length) == len(order)
    assert leftover.places(np.arange(len(order))).tolist() == order


@given(length=st.integers(1, 60), merges=levels, data=st.data())
def test_records_that_were_begun_keep_their_outputs_under_new_numbers(
    length: int, merges: list[list[int]], data: st.DataObject
) -> None:
    """Until somebody has used them up; a rank that goes on within one says the new count."""
    order, leftover, begun = list(range(length)), Leftover(), dict[int, int]()
    for used in merges:
        outputs = data.draw(st.dictionaries(st.integers(0, len(used) - 1), st.integers(1, 3)))
        fresh = {used[rank] * len(used) + rank: count for rank, count in outputs.items()}
        begun |= {order[number]: count for number, count in fresh.items() if number < len(order)}
        leftover = leftover.merge(used, outputs)
        order = plain(order, used)
        begun = {place: count for place, count in begun.items() if place in order}

    numbers = np.array([number for number in leftover.begun if number < len(order)], np.int64)
    found = dict(zip(leftover.places(numbers).tolist(), (leftover.begun[int(number)] for number in numbers), strict=True))
    assert found == begun


def test_ranks_in_step_leave_a_plain_rest() -> None:
    """Levels come only of ranks that stand apart, and go once their holes are filled."""
    assert Leftover(7).merge([5, 5, 5], {}) == Leftover(22)
    apart = Leftover().merge([5, 2, 3], {})

    assert (apart.base, apart.levels) == (6, ((3, 0, 1),))
    assert apart.advance(5) == Leftover(15)
    assert apart.merge([3, 3], {}) == Leftover(16)

    loose = Leftover().merge([4], {}, [(0, 6, 9)])
    assert (loose.base, loose.levels, loose.ahead) == (4, ((0,),), ((0, 0, 2, 5),))
    assert loose.advance(2) == Leftover(9)


def test_the_arithmetic_does_not_depend_on_the_distance() -> None:
    """A million ranks' rows apart, and as many places, it takes no longer than for ten."""
    far = Leftover().merge([10**15, 3], {})

    assert far.places(np.array([0, 1, 10**15 - 3, 10**15 - 2])).tolist() == [7, 9, 2 * 10**15, 2 * 10**15 + 1]
    assert far.count(10**17) == 10**17 - 10**15 - 3
