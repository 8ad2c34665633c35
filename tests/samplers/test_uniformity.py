"""Shuffles are as random as NumPy's own, by every measure, at every length; measures that would notice if they were
not.

All seeds are fixed, so each test gives the same figures in every run. The bound of 5 standard deviations is passed by
chance once in 1.7 million; these tests look at about 60 figures.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import numpy as np
import numpy.typing as npt
import pytest

from arrayfeed.samplers import IndexSampler, cipher
from arrayfeed.samplers.keys import epoch_keys, root_words
from support.uniformity import chi_square, deviations

BOUND = 5.0
# How many orders of each length: about three million records each, at most 20,000 orders.
LENGTHS = {10: 20_000, 11: 20_000, 100: 20_000, 1000: 3000, 65_536: 46, 65_537: 46, 100_000: 30, 1_000_000: 3}

Orders = npt.NDArray[np.int64]


def ours(length: int, count: int, seed: int) -> Orders:
    """Return consecutive epochs of one seed."""
    return IndexSampler(length, shuffle=True, seed=seed, num_epochs=count).block(0, length * count).reshape(count, length)


def of_many_seeds(length: int, count: int, seed: int) -> Orders:
    """Return the first epochs of consecutive seeds."""
    return np.stack([IndexSampler(length, shuffle=True, seed=seed + i).block(0, length) for i in range(count)])


def of_numpy(length: int, count: int, seed: int) -> Orders:
    rng = np.random.default_rng(seed)
    return np.stack([rng.permutation(length) for _ in range(count)])


@pytest.mark.parametrize("seed", [0, 1, -12345])
@pytest.mark.parametrize("length", LENGTHS)
def test_epochs_are_as_random_as_numpys_permutations(length: int, seed: int) -> None:
    """Places, neighbourhoods, successors, displacements, likeness of epochs: all within chance, as NumPy's are."""
    for source in (ours, of_numpy):
        figures = deviations(source(length, LENGTHS[length], seed % 1000))
        assert all(abs(figure) < BOUND for figure in figures.values()), (source.__name__, figures)


@pytest.mark.parametrize("length", [10, 1000, 70_000])
def test_neighbouring_seeds_have_unrelated_orders(length: int) -> None:
    """Seeds 0, 1, 2 ... are as good as random ones."""
    figures = deviations(of_many_seeds(length, min(2000, 3_000_000 // length), 0))

    assert all(abs(figure) < BOUND for figure in figures.values()), figures


@pytest.mark.parametrize("across", ["epochs", "seeds"])
def test_all_120_orders_of_five_records_come_equally_often(across: str) -> None:
    """Short data sets are shuffled as uniformly as long ones."""
    orders = ours(5, 60_000, 3) if across == "epochs" else of_many_seeds(5, 6000, 0)
    codes = orders @ np.array([625, 125, 25, 5, 1])
    known = [np.dot(order, [625, 125, 25, 5, 1]) for order in permutations(range(5))]
    counts = np.array([np.count_nonzero(codes == code) for code in known])

    assert counts.sum() == len(orders)
    assert abs(chi_square(counts, len(orders) / 120, 119)) < BOUND


@pytest.mark.parametrize("length", [2, 3, 4])
def test_the_orders_of_very_few_records_come_equally_often(length: int) -> None:
    """Two records are as often swapped as not."""
    codes = ours(length, 60_000, 9) @ (length ** np.arange(length))
    counts = np.unique(codes, return_counts=True)[1]

    assert len(counts) == [2, 6, 24][length - 2]
    assert abs(chi_square(counts, 60_000 / len(counts), len(counts) - 1)) < BOUND


@pytest.mark.parametrize("rounds", [6, 4])
def test_the_cipher_hides_its_two_halves(rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs of numbers that share a half, where a network of few rounds would show, have unrelated images.

    At the shortest ciphered length, over 200 keys, the differences of images of numbers one row, one column and both
    apart are equally likely; with four rounds in place of six they would not be.
    """
    monkeypatch.setattr(cipher, "_ROUNDS", rounds)
    length = 65_537
    columns = cipher.Cipher(length, (0, 0))._columns
    first, second = epoch_keys(root_words(5, "test"), np.arange(200))
    strides = (1, columns, 2 * columns, columns + 1)
    counts = {stride: np.zeros(length, np.int64) for stride in strides}
    for key in zip(first.tolist(), second.tolist(), strict=True):
        images = cipher.Cipher(length, key).forward(np.arange(length, dtype=np.uint64)).astype(np.int64)
        for stride in strides:
            counts[stride] += np.bincount((images[stride:] - images[:-stride]) % length, minlength=length)
    figures = [chi_square(found[1:], found[1:].sum() / (length - 1), length - 2) for found in (counts[s] for s in strides)]

    if rounds == 6:
        assert max(map(abs, figures)) < BOUND
    else:
        assert max(map(abs, figures)) > 20 * BOUND


def _buffer_shuffle(length: int, count: int, seed: int) -> Orders:
    """The shuffle of a pipeline that draws from a buffer of a tenth of the data set."""
    rng = np.random.default_rng(seed)
    orders = []
    for _ in range(count):
        buffer, order = list(range(length // 10)), []
        for following in range(length // 10, length):
            chosen = int(rng.integers(len(buffer)))
            order.append(buffer[chosen])
            buffer[chosen] = following
        orders.append(np.array(order + [buffer[i] for i in rng.permutation(len(buffer))]))
    return np.stack(orders)


def _affine(length: int, count: int, seed: int) -> Orders:
    """The cheapest bijection there is: multiply and add."""
    rng = np.random.default_rng(seed)
    factors = [int(factor) for factor in rng.integers(1, length, 10 * count) if np.gcd(factor, length) == 1][:count]
    return np.stack([(np.arange(length) * factor + rng.integers(length)) % length for factor in factors])


def _rotated(length: int, count: int, seed: int) -> Orders:
    rng = np.random.default_rng(seed)
    return np.stack([np.roll(np.arange(length), rng.integers(length)) for _ in range(count)])


def _same_epoch(length: int, count: int, seed: int) -> Orders:
    """The trainer that forgot to set the epoch."""
    return np.repeat(of_numpy(length, 1, seed), count, axis=0)


def _in_shards(length: int, count: int, seed: int) -> Orders:
    """Shards in random order, records in their own."""
    rng = np.random.default_rng(seed)
    shards = np.split(np.arange(length), 20)
    return np.stack([np.concatenate([shards[i] for i in rng.permutation(20)]) for _ in range(count)])


@pytest.mark.parametrize("bad", [_buffer_shuffle, _affine, _rotated, _same_epoch, _in_shards])
def test_the_measures_notice_bad_shuffles(bad: Callable[[int, int, int], Orders]) -> None:
    """Each kind of shuffle that a loader can get wrong is far outside of chance."""
    assert max(abs(figure) for figure in deviations(bad(1000, 200, 0)).values()) > 2 * BOUND
