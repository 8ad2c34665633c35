"""Disjoint parts: complete, of the sizes asked for, and the same for ever."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrayfeed import SequenceSource
from arrayfeed.datasource.views.split import _random_order

LENGTHS = st.integers(0, 300)
SEEDS = st.none() | st.integers()


def assert_parts(parts: list[Any], length: int) -> None:
    """Fail unless every element is in one part, each part in order."""
    elements = [list(part) for part in parts]
    assert sorted(element for part in elements for element in part) == list(range(length))
    assert all(part == sorted(part) for part in elements)


@given(LENGTHS, st.integers(1, 20), SEEDS)
def test_equal_parts_differ_by_one_at_most(length: int, count: int, seed: int | None) -> None:
    """For any length and number of parts, in order or at random."""
    parts = SequenceSource(range(length)).split(count, seed=seed)

    assert_parts(parts, length)
    assert len(parts) == count
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@given(LENGTHS, st.lists(st.integers(0, 20), min_size=1, max_size=8).filter(any), SEEDS)
def test_shares_are_within_one_element_of_what_was_asked(length: int, weights: list[int], seed: int | None) -> None:
    """However the shares are rounded, all elements are in."""
    shares = [weight / sum(weights) for weight in weights]
    parts = SequenceSource(range(length)).split(shares, seed=seed)

    assert_parts(parts, length)
    assert all(abs(len(part) - share * length) <= 1 for part, share in zip(parts, shares, strict=True))


@given(st.lists(st.integers(0, 20), min_size=1, max_size=8), SEEDS)
def test_counts_are_met(counts: list[int], seed: int | None) -> None:
    """To the element."""
    parts = SequenceSource(range(sum(counts))).split(counts, seed=seed)

    assert_parts(parts, sum(counts))
    assert [len(part) for part in parts] == counts


def test_parts_have_names_where_they_were_given() -> None:
    """In the same order, and with the same elements as without."""
    source = SequenceSource(range(100))
    named = source.split({"train": 0.7, "val": 0.2, "test": 0.1}, seed=3)

    assert {name: len(part) for name, part in named.items()} == {"train": 70, "val": 20, "test": 10}
    assert [list(part) for part in named.values()] == [list(part) for part in source.split([0.7, 0.2, 0.1], seed=3)]
    assert list(source.split([0.5, 0.5])[0]) == list(range(50))


GOLDEN = [[4, 5, 8, 9, 11], [1, 2, 6, 14, 18], [1, 4, 5, 7, 14]]


def test_a_seeds_parts_never_change() -> None:
    """Pinned: an example that changed sides would be trained on and tested with."""
    source = SequenceSource(range(20))

    assert list(source.split([0.25, 0.75], seed=0)[0]) == GOLDEN[0]
    assert list(source.split([0.25, 0.75], seed=1)[0]) == GOLDEN[1]
    assert list(source.split([0.25, 0.75], seed=-(1 << 100))[0]) == GOLDEN[2]


def test_the_hash_is_splitmix64() -> None:
    """The order is that of SplitMix64's finaliser, in plain integers."""

    def splitmix64(state: int) -> int:
        state &= 2**64 - 1
        state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & 2**64 - 1
        state = (state ^ state >> 27) * 0x94D049BB133111EB & 2**64 - 1
        return state ^ state >> 31

    from hashlib import blake2b

    key = int.from_bytes(blake2b(b"7", digest_size=8).digest(), "little")
    hashes = [splitmix64(index * 0x9E3779B97F4A7C15 + key) for index in range(500)]

    assert _random_order(500, 7).tolist() == sorted(range(500), key=hashes.__getitem__)


def test_elements_are_drawn_evenly() -> None:
    """Over many seeds each element is in the first part as often as it should, and so is each pair."""
    length, seeds = 12, 3000
    hits = np.zeros((length, length))
    for seed in range(seeds):
        chosen = _random_order(length, seed)[: length // 3]
        hits[np.ix_(chosen, chosen)] += 1
    single, pair = hits.diagonal() / seeds, hits[~np.eye(length, dtype=bool)] / seeds

    # Five standard deviations of a binomial count.
    assert np.abs(single - 4 / 12).max() < 5 * np.sqrt(4 / 12 * 8 / 12 / seeds)
    assert np.abs(pair - 4 * 3 / (12 * 11)).max() < 5 * np.sqrt(1 / 11 * 10 / 11 / seeds)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (0, "split needs 1 part or more, got 0"),
        (-1, "got -1"),
        ([], r"numbers of 0 or more, got \[\]"),
        ([0.5, 0.6], "must sum up to 1, these sum up to 1.1"),
        ([0.5, -0.5, 1.0], "numbers of 0 or more"),
        ([float("nan"), 1.0], "numbers of 0 or more"),
        ([3, 4], "the counts sum up to 7, the source has 10 elements"),
        ({"a": 0.5}, "sum up to 0.5"),
    ],
    ids=str,
)
def test_impossible_parts_are_refused(parts: Any, message: str) -> None:
    """With what they sum up to."""
    with pytest.raises(ValueError, match=message):
        SequenceSource(range(10)).split(parts)


def test_a_seed_is_an_integer() -> None:
    """NumPy's too, but no float."""
    source: Any = SequenceSource(range(10))
    assert list(source.split(np.int64(2), seed=np.int64(5))[0]) == list(source.split(2, seed=5)[0])
    with pytest.raises(TypeError):
        source.split(2, seed=0.5)
