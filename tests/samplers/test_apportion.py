"""Turns in exact proportion, against counting them out; and the epochs that are made of them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from arrayfeed.samplers.apportion import Apportionment, whole_weights
from arrayfeed.samplers.schedule import Schedule

weights_of_sources = st.lists(st.integers(1, 60), min_size=1, max_size=12)


@given(weights=weights_of_sources, start=st.integers(0, 2**61))
def test_turns_can_be_asked_in_any_direction(weights: list[int], start: int) -> None:
    """`split`, `counts` and `turn_of` tell the same story, from the first turn on or from any far one."""
    turns = Apportionment(weights)
    for first in (0, start):
        sources, draws = turns.split(np.arange(first, first + 150))
        counts = turns.counts(first)
        assert sum(counts) == first
        for turn, (source, draw) in enumerate(zip(sources.tolist(), draws.tolist(), strict=True), first):
            assert counts[source] == draw
            assert turns.turn_of(source, draw) == turn
            counts[source] += 1
        assert turns.counts(first + 150) == counts


@given(weights=weights_of_sources)
def test_every_source_keeps_its_share_at_every_prefix(weights: list[int]) -> None:
    """Draws differ from turns x share by no more than `drift`, and that bound is reached; a period ends at zero."""
    turns = Apportionment(weights)
    sources, _ = turns.split(np.arange(turns.period))
    counts = np.cumsum(sources[:, None] == np.arange(len(weights)), axis=0)
    shares = np.arange(1, turns.period + 1)[:, None] * np.array(weights) / turns.period
    worst = float(np.abs(counts - shares).max())

    assert worst == pytest.approx(turns.drift)
    assert turns.drift < (1 if len(weights) <= 4 else 1.5)
    assert counts[-1].tolist() == weights


@pytest.mark.parametrize("sources", range(1, 33))
def test_equal_sources_never_drift_by_a_whole_turn(sources: int) -> None:
    """For any number of equal weights."""
    assert Apportionment([1] * sources).drift < 1


def test_weights_in_percent_hardly_ever_drift_by_a_whole_turn() -> None:
    """Of random whole percents for five to ten sources, at most 1 in 20 drift by more than 1, and none by 1.2."""
    rng = np.random.default_rng(7)
    drifts = []
    for sources in range(5, 11):
        for _ in range(40):
            cuts = np.sort(rng.choice(np.arange(1, 100), sources - 1, replace=False))
            drifts.append(Apportionment(whole_weights(np.diff([0, *cuts, 100]).tolist())).drift)

    assert max(drifts) < 1.2
    assert np.mean(np.array(drifts) > 1) <= 0.05


def test_the_bound_holds_where_it_is_not_measured() -> None:
    """With a long period `drift` is a bound from the tree: looked at over the first 200,000 turns, it holds."""
    rng = np.random.default_rng(2)
    for sources in (3, 8, 20):
        weights = rng.integers(1, 2**24, sources).tolist()
        turns = Apportionment(weights)
        found, draws = turns.split(np.arange(200_000))
        shares = np.array(weights)[found] / turns.period
        assert turns.period > 1 << 14
        assert np.abs(draws - np.arange(200_000) * shares).max() <= turns.drift < 2
        assert np.abs(draws + 1 - np.arange(1, 200_001) * shares).max() <= turns.drift


def test_hundreds_of_sources_are_laid_out_at_once() -> None:
    """A thousand classes take a fraction of a second, and still keep their shares."""
    turns = Apportionment(list(range(1, 1001)))
    sources, _ = turns.split(np.arange(turns.period))

    assert np.bincount(sources).tolist() == list(range(1, 1001))
    assert turns.drift < 2


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([0.7, 0.2, 0.1], (7, 2, 1)),
        ([1 / 3, 2 / 3], (1, 2)),
        ([22, 6, 4], (11, 3, 2)),
        ([Fraction(1, 6), Fraction(1, 3), Fraction(1, 2)], (1, 2, 3)),
        ([1e-3, 1e3], (1, 1_000_000)),
        ([5], (1,)),
        ([np.float64(0.5), 0.25], (2, 1)),
        ([np.int64(4), np.int32(2)], (2, 1)),
    ],
)
def test_weights_become_the_smallest_whole_numbers(weights: Sequence[float | Fraction], expected: tuple[int, ...]) -> None:
    """A float is the decimal that it shows."""
    assert whole_weights(weights) == expected


def test_weights_of_any_size_fit() -> None:
    """Where exact whole numbers are too large, they are rounded to 2**30 in all, and none to zero."""
    weights = [1e-300, 3.141592653589793, 1e300, 2.0]
    whole = whole_weights(weights)
    assert min(whole) == 1
    assert 2**29 < sum(whole) <= 2**30
    close = whole_weights([0.123456789012345, 0.876543210987655])
    assert close[0] / sum(close) == pytest.approx(0.123456789012345, abs=2**-29)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([], "there are no weights"),
        ([1, 0], r"weights\[1\] is 0; it must be positive. Leave a source out"),
        ([1, -0.5], r"weights\[1\] is -0.5"),
        ([float("nan")], r"weights\[0\] is nan; it must be positive and finite"),
        ([1, float("inf")], r"weights\[1\] is inf"),
    ],
)
def test_weights_that_are_none_are_refused(weights: list[float], message: str) -> None:
    """By place and value."""
    with pytest.raises(ValueError, match=message):
        whole_weights(weights)


@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    weights=st.none() | st.lists(st.integers(1, 9), min_size=6, max_size=6),
    lanes=st.integers(1, 3),
)
def test_an_epoch_counts_out_its_sources(lengths: list[int], weights: list[int] | None, lanes: int) -> None:
    """Against counting: draws go up one by one, `counts` agrees at every place, and each stop ends where it says."""
    lengths = [length * lanes for length in lengths[:-1]] + [lengths[-1] * lanes + lanes - 1]
    for stop in ("all", "shortest", "longest"):
        schedule = Schedule(weights and weights[: len(lengths)], lengths, stop, lanes)
        sources, draws = schedule.split(np.arange(schedule.length))
        counts = [0] * len(lengths)
        for place, (source, draw) in enumerate(zip(sources.tolist(), draws.tolist(), strict=True)):
            assert schedule.counts(place).tolist() == counts
            assert draw == counts[source]
            counts[source] += 1
        assert schedule.counts(schedule.length).tolist() == counts
        turns = sources[: schedule.length // lanes * lanes].reshape(-1, lanes)
        whole = turns[: len(turns) - len(lengths) * (lanes - 1)]
        assert (whole == whole[:, :1]).all(), "a turn gives all lanes the same source"
        if stop == "all":
            assert counts == lengths
        elif stop == "shortest":
            assert all(count <= length for count, length in zip(counts, lengths, strict=True))
            assert any(length - count < lanes for count, length in zip(counts, lengths, strict=True))
        else:
            assert all(count >= length for count, length in zip(counts, lengths, strict=True))
            assert any(count - length < lanes for count, length in zip(counts, lengths, strict=True))


def test_a_source_that_ends_leaves_its_turns_to_the_others() -> None:
    """With "all", what remains is shared in the remaining weights."""
    schedule = Schedule([1, 1, 2], [2, 8, 8], "all", 1)
    sources, _ = schedule.split(np.arange(18))
    after = int(np.flatnonzero(sources == 0)[-1]) + 1

    assert np.bincount(sources[:8]).tolist() == [2, 2, 4]
    assert set(sources[after:].tolist()) == {1, 2}
    assert np.bincount(sources).tolist() == [2, 8, 8]


def test_schedules_that_cannot_be_are_refused() -> None:
    """Too few records for the lanes, and unknown stops."""
    with pytest.raises(ValueError, match=r"source 1 has 2 records, which cannot give each of 3 ranks one"):
        Schedule(None, [5, 2], "all", 3)
    with pytest.raises(ValueError, match=r"stop is 'never'; it must be one of 'all', 'shortest', 'longest'"):
        Schedule(None, [5, 2], "never", 1)  # type: ignore[arg-type]
