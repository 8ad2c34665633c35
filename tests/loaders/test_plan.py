"""The plan cuts epochs into batches as a plain loop would, however it groups them into runs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrayfeed.loaders.plan import BatchPlan, Cursor, Run

Batch = tuple[int, int, int]  # epoch, start, stop


def plain(length: int, batch_size: int, drop_last: bool, start: Cursor, end_epoch: int) -> list[Batch]:
    """Return the batches from ``start`` on, cut one by one."""
    batches = []
    for epoch in range(start.epoch, end_epoch):
        position = start.position if epoch == start.epoch else 0
        while position < length:
            stop = min(position + batch_size, length)
            if stop - position == batch_size or not drop_last:
                batches.append((epoch, position, stop))
            position = stop
    return batches


def flatten(runs: Iterator[Run]) -> Iterator[Batch]:
    for run in runs:
        for start, stop in pairwise(run.bounds):
            yield run.epoch, start, stop


@given(
    length=st.integers(0, 60),
    batch_size=st.integers(1, 70),
    drop_last=st.booleans(),
    epoch=st.integers(0, 3),
    epochs=st.integers(0, 3),
    position=st.integers(0, 80),
    limits=st.lists(st.integers(1, 9), min_size=1),
)
def test_the_batches_of_all_epochs_are_those_of_a_plain_loop(
    length: int, batch_size: int, drop_last: bool, epoch: int, epochs: int, position: int, limits: list[int]
) -> None:
    """From any place, within an epoch or past its end, whatever sizes of runs are allowed while they are made."""
    plan, start = BatchPlan(length, batch_size, drop_last), Cursor(epoch, position)
    asked = iter(limits * 1000)
    runs = list(plan.cut(start, epoch + epochs, lambda: next(asked)))

    assert list(flatten(iter(runs))) == plain(length, batch_size, drop_last, start, epoch + epochs)
    assert all(len(run.bounds) >= 2 for run in runs)


@given(length=st.integers(0, 60), batch_size=st.integers(1, 70), drop_last=st.booleans())
def test_the_number_of_batches_in_an_epoch_is_that_of_its_batches(length: int, batch_size: int, drop_last: bool) -> None:
    """For an epoch from its start."""
    plan = BatchPlan(length, batch_size, drop_last)

    assert plan.batches_per_epoch == len(plain(length, batch_size, drop_last, Cursor(0, 0), 1))


@given(length=st.integers(0, 60), batch_size=st.integers(1, 70), drop_last=st.booleans(), position=st.integers(0, 80))
def test_a_place_without_a_further_batch_is_the_next_epochs_start(
    length: int, batch_size: int, drop_last: bool, position: int
) -> None:
    """And a place with one stays what it is."""
    left = plain(length, batch_size, drop_last, Cursor(5, position), 6)
    expected = Cursor(5, position) if left else Cursor(6, 0)

    assert BatchPlan(length, batch_size, drop_last).normalise(Cursor(5, position)) == expected


def test_ten_records_by_four_keep_the_short_batch_of_every_epoch() -> None:
    """10 records, batch 4, 2 epochs: 4 4 2 4 4 2; with ``drop_last`` 4 4 4 4."""
    kept, dropped = (BatchPlan(10, 4, drop_last).cut(Cursor(0, 0), 2, lambda: 8) for drop_last in (False, True))

    assert [stop - start for _, start, stop in flatten(kept)] == [4, 4, 2, 4, 4, 2]
    assert [stop - start for _, start, stop in flatten(dropped)] == [4, 4, 4, 4]


def test_runs_begin_with_one_batch_and_grow_up_to_the_limit() -> None:
    """The first batch is soon there; a run ends with its epoch."""
    runs = list(BatchPlan(40, 1, False).cut(Cursor(0, 0), 1, lambda: 15))

    assert [len(run.bounds) - 1 for run in runs] == [1, 4, 15, 15, 5]


def test_without_an_end_epochs_go_on() -> None:
    """Each is cut like the first."""
    batches = list(islice(flatten(BatchPlan(5, 3, False).cut(Cursor(7, 3), None, lambda: 2)), 5))

    assert batches == [(7, 3, 5), (8, 0, 3), (8, 3, 5), (9, 0, 3), (9, 3, 5)]


@pytest.mark.parametrize(("length", "batch_size", "drop_last"), [(0, 1, False), (3, 4, True)])
def test_endless_epochs_without_a_batch_are_refused(length: int, batch_size: int, drop_last: bool) -> None:
    """They would never give one; a finite number of them is just empty."""
    plan = BatchPlan(length, batch_size, drop_last)
    with pytest.raises(ValueError, match=f"{length} records make no batch of {batch_size}"):
        next(plan.cut(Cursor(0, 0), None, lambda: 1))

    assert list(plan.cut(Cursor(0, 0), 3, lambda: 1)) == []
