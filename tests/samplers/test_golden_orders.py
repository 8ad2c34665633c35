"""Orders as they were when their versions were given: a run that is resumed next year must go on in the same order.

A failure here means that saved states of users would go on in another order. If that is wanted, raise the version that
states carry (`ORDER_VERSION`, `_DRAW_VERSION`, `_MIX_VERSION`), so that old states are refused, and only then change a
value.
"""

from __future__ import annotations

import numpy as np
import pytest
from arrayfeed.samplers import IndexSampler, RecordRandom
from arrayfeed.samplers.permutation import ORDER_VERSION
from support.sampler_cases import CASES

GOLDEN_INDEX: dict[tuple[int, int, int], list[int]] = {}

GOLDEN_CASES: dict[str, tuple[list[int], str]] = {}

GOLDEN_WORDS: dict[int, list[int]] = {}


@pytest.mark.parametrize(("num_records", "seed", "epoch"), GOLDEN_INDEX)
def test_a_shuffle_never_changes(num_records: int, seed: int, epoch: int) -> None:
    """The first indices of an epoch, for lengths on both sides of the change from tables to the cipher."""
    sampler = IndexSampler(num_records, shuffle=True, seed=seed)
    sampler.set_epoch(epoch)

    assert ORDER_VERSION == 1
    assert sampler.block(0, 8).tolist() == GOLDEN_INDEX[num_records, seed, epoch]


@pytest.mark.parametrize("name", CASES)
def test_no_order_ever_changes(name: str) -> None:
    """The second epoch of every kind of sampler begins as it always did, and has the identity it always had."""
    sampler = CASES[name](num_epochs=2)
    start = sampler.epoch_length

    assert (sampler.block(start, start + 8).tolist(), sampler.fingerprint) == GOLDEN_CASES[name]


@pytest.mark.parametrize("seed", GOLDEN_WORDS)
def test_the_numbers_of_a_record_never_change(seed: int) -> None:
    """What transforms draw for a record is pinned, too."""
    assert RecordRandom(seed).words(2, np.array([5]), 3).tolist() == [GOLDEN_WORDS[seed]]
