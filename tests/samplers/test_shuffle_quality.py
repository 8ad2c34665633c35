"""What a batch looks like when the data set is sorted by class: a mix of everything, on every rank."""

from __future__ import annotations

import re

import numpy as np
import pytest

from arrayfeed.samplers import BlockShuffleSampler, IndexSampler, RepeatedAugmentation, ShardOptions
from support.shuffle_quality import BATCH, CLASSES, GROUP, MODELS, RECORDS, mixing

UNIFORM_SHARE, UNIFORM_GROUPS = 0.1449, 98.82  # means over 20 of NumPy's permutations


@pytest.mark.parametrize("world", [1, 2, 4, 8])
def test_batches_are_mixed_on_any_number_of_ranks(world: int) -> None:
    """The largest class has 0.14 of a batch and 99 of 235 groups are in it, as in a uniform permutation; on each rank.

    However many files the records lie in does not matter: the shuffle is one of indices.
    """
    for rank in range(world):
        sampler = IndexSampler(RECORDS, shuffle=True, seed=world, shard=ShardOptions(rank, world))
        share, groups = mixing(sampler.block(0, sampler.epoch_length))
        assert share == pytest.approx(UNIFORM_SHARE, abs=0.004)
        assert groups == pytest.approx(UNIFORM_GROUPS, abs=1.2)


def test_the_measure_is_that_of_numpys_permutation() -> None:
    """The figures that the others are held to are those of NumPy's own shuffle."""
    found = [mixing(np.random.default_rng(seed).permutation(RECORDS)) for seed in range(20)]
    share, groups = np.mean(found, axis=0)

    assert share == pytest.approx(UNIFORM_SHARE, abs=0.0002)
    assert groups == pytest.approx(UNIFORM_GROUPS, abs=0.02)


def test_every_pass_of_repeated_augmentation_is_as_mixed() -> None:
    """The reshuffled halves of later passes are no worse than the first."""
    for order in RepeatedAugmentation(RECORDS, repeats=3).block(0, 3 * RECORDS).reshape(3, RECORDS):
        share, groups = mixing(order)
        assert share == pytest.approx(UNIFORM_SHARE, abs=0.004)
        assert groups == pytest.approx(UNIFORM_GROUPS, abs=1.2)


@pytest.mark.parametrize("name", MODELS)
def test_shuffles_in_sequence_are_not(name: str) -> None:
    """The measure notices each of the shuffles that pipelines make of shards and buffers."""
    share, groups = mixing(MODELS[name](np.random.default_rng(0)))

    assert share > 2 * UNIFORM_SHARE
    assert groups < UNIFORM_GROUPS


def stated_windows() -> list[tuple[int, float, float]]:
    """Return the rows of the table in BlockShuffleSampler's docstring."""
    rows = re.findall(r"^\s+([\d,]+)\s+([\d.]+)\s+([\d.]+)$", BlockShuffleSampler.__doc__ or "", re.MULTILINE)
    return [(int(window.replace(",", "")), float(share), float(groups)) for window, share, groups in rows]


@pytest.mark.parametrize(("window", "share", "groups"), stated_windows())
def test_block_shuffles_mix_as_well_as_they_say(window: int, share: float, groups: float) -> None:
    """The figures in the docstring, for each window size, are what the sampler does."""
    found = [
        mixing(BlockShuffleSampler(RECORDS, block_size=GROUP, window_blocks=window, seed=seed).block(0, RECORDS))
        for seed in range(3)
    ]
    means = np.mean(found, axis=0)

    assert means[0] == pytest.approx(share, abs=0.03)
    assert means[1] == pytest.approx(groups, rel=0.03, abs=0.15)


def test_the_table_has_windows_of_all_sizes() -> None:
    """From one block to all of them: the last row is a uniform shuffle."""
    windows = stated_windows()

    assert len(windows) >= 5
    assert windows[0][0] == 1
    assert windows[-1][0] * GROUP >= RECORDS
    assert (BATCH, CLASSES) == (128, 10)
