"""WeightedSampler and its alias table: exact chances, pure draws."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as hnp

from arrayfeed.samplers import WeightedSampler
from arrayfeed.samplers.alias import AliasTable, _round_to_sum
from arrayfeed.samplers.weighted_sampler import _minus_log
from support.uniformity import chi_square

weight_arrays = hnp.arrays(np.float64, st.integers(1, 40), elements=st.floats(0, 1e6) | st.integers(0, 4).map(float))


@given(weights=weight_arrays.filter(lambda weights: bool(weights.any())))
def test_an_alias_table_holds_each_weight_exactly(weights: np.ndarray) -> None:
    """What its cells give each number sums to that number's rounded weight, to the unit; zero stays zero."""
    table = AliasTable(weights)
    cell = 1 << 32
    mass = _round_to_sum(weights, len(weights) * cell)
    given_mass = table.threshold.copy()
    np.add.at(given_mass, table.alias, cell - table.threshold)

    assert given_mass.tolist() == mass.tolist()
    assert 0 <= table.threshold.min() <= table.threshold.max() <= cell
    assert mass[weights == 0].sum() == 0
    assert mass.sum() == len(weights) * cell
    assert np.abs(mass / mass.sum() - weights / weights.sum()).max() < 1e-9


def test_a_table_of_a_million_weights_is_exact_too() -> None:
    """Built without a loop, with heavy and light weights over many orders of magnitude."""
    weights = np.random.default_rng(0).random(1_000_000) ** 20
    table = AliasTable(weights)
    given_mass = table.threshold.copy()
    np.add.at(given_mass, table.alias, (1 << 32) - table.threshold)

    assert np.array_equal(given_mass, _round_to_sum(weights, len(weights) << 32))


@pytest.mark.parametrize("weights", [[1, 2, 3, 4, 0, 10], [1] * 7, [1e-9, 1, 1e-9], [5]])
def test_draws_follow_the_weights(weights: list[float]) -> None:
    """A hundred thousand draws over ten epochs: chi square within chance, and weight zero never."""
    sampler = WeightedSampler(weights, num_samples=10_000, num_epochs=10, seed=4)
    counts = np.bincount(sampler.block(0, 100_000), minlength=len(weights))
    shares = np.array(weights) / sum(weights)
    likely = shares * 100_000 > 1

    assert counts[shares == 0].sum() == 0
    assert counts[~likely].sum() <= 5
    if likely.sum() > 1:
        assert abs(chi_square(counts[likely], shares[likely] * 100_000, int(likely.sum()) - 1)) < 5


def test_draws_are_independent_of_their_neighbours() -> None:
    """Pairs of following draws are as likely as their product says; epochs are unrelated."""
    sampler = WeightedSampler([1, 2, 3], num_samples=60_000, num_epochs=2)
    first, second = sampler.block(0, 120_000).reshape(2, 60_000)
    expected = 60_000 * np.outer([1, 2, 3], [1, 2, 3]) / 36
    for left, right in ((first[:-1], first[1:]), (first, second)):
        pairs = np.bincount(left * 3 + right, minlength=9)
        assert abs(chi_square(pairs, expected.ravel(), 8)) < 5


def test_without_replacement_each_draw_is_among_the_rest() -> None:
    """Sequences of three records of weights 1, 2 and 4 come as often as drawing from what is left makes them."""
    orders = WeightedSampler([1, 2, 4], replacement=False, num_epochs=20_000).block(0, 60_000).reshape(-1, 3)
    weights = np.array([1.0, 2.0, 4.0])
    for a in range(3):
        for b in range(3):
            if a != b:
                c = 3 - a - b
                chance = weights[a] / 7 * weights[b] / (7 - weights[a])
                count = int((orders == [a, b, c]).all(axis=1).sum())
                assert abs(count - 20_000 * chance) < 5 * math.sqrt(20_000 * chance * (1 - chance))


def test_without_replacement_nothing_comes_twice() -> None:
    """An epoch is as many different records as were asked for; those without a weight never come."""
    weights = np.arange(100) % 10
    sampler = WeightedSampler(weights, num_samples=60, replacement=False, num_epochs=20)
    for epoch in sampler.block(0, 1200).reshape(20, 60):
        assert len(set(epoch.tolist())) == 60
        assert (weights[epoch] > 0).all()
    assert len(WeightedSampler(weights, replacement=False)) == 90
    with pytest.raises(ValueError, match="num_samples is 91, but only 90 records have a positive weight"):
        WeightedSampler(weights, num_samples=91, replacement=False)


def test_the_own_logarithm_is_a_logarithm() -> None:
    """Within four units in the last place of NumPy's, from the smallest to the largest number that is drawn."""
    numbers = np.concatenate([np.random.default_rng(0).random(100_000), [2.0**-54, 0.5, 1 - 2.0**-53, 0.7071067811865476]])
    expected = -np.log(numbers)

    assert np.abs(_minus_log(numbers) / expected - 1).max() < 1e-15


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, -1], r"weights\[1\] is -1\.0; weights must be finite and not negative"),
        ([1, float("nan")], r"weights\[1\] is nan"),
        ([float("inf")], r"weights\[0\] is inf"),
        ([0, 0, 0], "weights holds no positive weight, of 3"),
        ([], "weights holds no positive weight, of 0"),
        ([[1, 2]], r"weights has shape \(1, 2\); it must have one dimension"),
    ],
)
def test_unfit_weights_are_refused(weights: list[float], message: str) -> None:
    """By place and value."""
    for replacement in (True, False):
        with pytest.raises(ValueError, match=message):
            WeightedSampler(weights, replacement=replacement)


def test_the_users_weights_are_copied() -> None:
    """Changing the array afterwards changes nothing."""
    weights = np.ones(50)
    for replacement in (True, False):
        sampler = WeightedSampler(weights, replacement=replacement)
        before = list(sampler)
        weights[:] = 0
        sampler.set_epoch(1)
        sampler.set_epoch(0)
        assert list(sampler) == before
        weights[:] = 1
