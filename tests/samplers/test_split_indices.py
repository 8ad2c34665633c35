"""split_indices: disjoint, complete, as large as asked, and the same for ever."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrayfeed import split_indices


@given(st.integers(0, 2000), st.lists(st.integers(0, 10), min_size=1, max_size=6).filter(any), st.integers())
def test_splits_are_disjoint_complete_sorted_and_of_their_size(length: int, weights: list[int], seed: int) -> None:
    """Whatever the fractions, those that no float holds exactly too."""
    fractions = {str(number): weight / sum(weights) for number, weight in enumerate(weights)}

    parts = split_indices(length, fractions, seed=seed)

    assert list(parts) == list(fractions)
    assert sorted(index for part in parts.values() for index in part.tolist()) == list(range(length))
    for name, part in parts.items():
        assert part.dtype == np.int64
        assert (np.diff(part) > 0).all()
        assert abs(part.size - fractions[name] * length) < 1 + 1e-6


def test_a_hundred_thousand_indices_are_shared_out_too() -> None:
    """Past 65,536 the permutation is another algorithm."""
    parts = split_indices(100_003, {"train": 0.8, "val": 0.1, "test": 0.1}, seed=3)

    assert [part.size for part in parts.values()] == [80_002, 10_001, 10_000]
    assert np.array_equal(np.sort(np.concatenate([*parts.values()])), np.arange(100_003))
    # Of every tenth of the indices, about a tenth.
    counts, _ = np.histogram(parts["val"], 10, (0, 100_003))
    assert 850 < counts.min() <= counts.max() < 1150


@pytest.mark.parametrize(("length", "digest"), [(1000, "60e001bdbe046ce3"), (100_000, "414264bd8a868796")])
def test_a_division_never_changes(length: int, digest: str) -> None:
    """Papers name a seed; another version, machine or NumPy must not move a record to another split."""
    parts = split_indices(length, {"train": 0.9, "val": 0.1}, seed=42)

    assert hashlib.sha256(parts["val"].astype("<i8").tobytes()).hexdigest()[:16] == digest


def test_another_seed_is_another_division() -> None:
    """And so is the seed's negative, and a seed past 64 bits."""
    divisions = {tuple(split_indices(100, {"a": 0.5, "b": 0.5}, seed=seed)["a"]) for seed in (0, 1, -1, 1 << 64, 1 << 200)}

    assert len(divisions) == 5


@pytest.mark.parametrize(
    ("length", "fractions", "error", "message"),
    [
        (10, {"a": 0.5, "b": 0.4}, ValueError, "make 0.9 in all, not 1; name a split for what is to be left over"),
        (10, {"a": 0.5, "b": 0.6}, ValueError, "make 1.1 in all"),
        (10, {}, ValueError, "make 0 in all"),
        (10, {"a": -0.5, "b": 1.5}, ValueError, "split 'a' cannot have the fraction -0.5"),
        (10, {"a": float("nan")}, ValueError, "split 'a' cannot have the fraction nan"),
        (-1, {"a": 1}, ValueError, "length is -1"),
        (1.5, {"a": 1}, TypeError, "integer"),
    ],
)
def test_what_makes_no_sense_is_refused(length: Any, fractions: dict[str, float], error: type[Exception], message: str) -> None:
    """With the numbers that were given."""
    with pytest.raises(error, match=message):
        split_indices(length, fractions)
