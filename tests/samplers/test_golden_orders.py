"""Orders as they were when their versions were given: a run that is resumed next year must go on in the same order.

A failure here means that saved states of users would go on in another order. If that is wanted, raise the version that
states carry (`ORDER_VERSION`, or the sampler's own `_VERSION`), so that old states are refused, and only then change a
value.
"""

from __future__ import annotations

import numpy as np
import pytest

from arrayfeed.samplers import IndexSampler, RecordRandom
from arrayfeed.samplers.permutation import ORDER_VERSION
from support.sampler_cases import CASES

GOLDEN_INDEX: dict[tuple[int, int, int], list[int]] = {
    (10, 0, 0): [8, 7, 4, 9, 0, 5, 1, 3],
    (10, 0, 1): [3, 6, 9, 0, 1, 4, 5, 7],
    (10, 1, 0): [0, 4, 3, 8, 6, 5, 1, 2],
    (10, -1, 0): [0, 8, 5, 9, 4, 3, 2, 7],
    (1_000, 7, 3): [892, 445, 910, 614, 418, 25, 99, 98],
    (65_536, 0, 0): [24707, 34472, 11874, 1388, 20740, 21452, 19675, 38775],
    (65_537, 0, 0): [18642, 19379, 25704, 39314, 3477, 35697, 50167, 2416],
    (65_537, 2**200, 5): [39621, 2768, 4282, 62667, 41066, 40489, 25106, 41183],
    (1_000_000, 0, 0): [748159, 444016, 158765, 30639, 611850, 235201, 224467, 428656],
    (1_000_000_000_000, 0, 0): [
        355186015664,
        159633250444,
        549219255696,
        670856005945,
        341089528094,
        140393596609,
        288579834705,
        13724944573,
    ],
    (1_000_000_000_000, 7, 1_000_000_000): [
        705740363632,
        426995498365,
        494570506878,
        486737814530,
        142724512808,
        698778996650,
        633471845020,
        444457816678,
    ],
    (9_223_372_036_854_775_807, 0, 0): [
        736906962390048984,
        5785204228087614318,
        1794352790793584569,
        9218800102186566455,
        6607526710527414589,
        4338571124149381249,
        1529952604795901879,
        5169640994143175064,
    ],
}

GOLDEN_CASES: dict[str, tuple[list[int], str]] = {
    "index": ([59, 3, 90, 6, 55, 65, 51, 88], "2090198b56184af1ff550a142cd8b301"),
    "index_in_order": ([0, 1, 2, 3, 4, 5, 6, 7], "263b3befa626b1f54a74e5a366de6e91"),
    "index_long": ([16086, 41462, 49941, 18422, 60457, 69070, 31606, 66422], "f17cc06e696d02c44bb69c06e2991de7"),
    "sequential": ([0, 1, 2, 3, 4, 5, 6, 7], "263b3befa626b1f54a74e5a366de6e91"),
    "subset": ([118, 6, 180, 12, 110, 130, 102, 176], "1aed00a7b7b4ddcfffb3cbe0f50d6e03"),
    "subset_in_order": ([5, 3, 3, 0, 1, 2, 3, 4], "61d45406293f11bd85880b120b4b034d"),
    "block_shuffle": ([33, 60, 56, 43, 38, 32, 42, 63], "3af5f61d848eb908b027522b84b2d64a"),
    "block_shuffle_long": ([17795, 15543, 15368, 15019, 4035, 1264, 15045, 1607], "61b8f5a815b46634c07b9e553096a422"),
    "interleave": ([24, 25, 26, 16, 17, 18, 55, 56], "131e141a0488deab3036627c0c958b33"),
    "interleave_in_order": ([0, 40, 1, 41, 2, 42, 3, 43], "eb14dabef7a21f2c79146cd93c650be9"),
    "weighted": ([19, 36, 38, 41, 48, 37, 43, 85], "86418a32f8a73dda3f4db68e5c29f8f8"),
    "weighted_once": ([31, 11, 95, 67, 41, 14, 10, 9], "9e8731c1ac397a029cd12f1682b3a69e"),
    "mixture": ([44, 18, 54, 72, 13, 24, 93, 84], "444674ef175d18c0c304326d54bf682f"),
    "mixture_weighted": ([54, 93, 44, 72, 52, 84, 50, 18], "1c2658645e06ea1bff9b062fa3f78191"),
    "mixture_shortest": ([44, 75, 18, 13, 55, 24, 10, 64], "226e62742e094b4dd38b377ba6e7c90b"),
    "mixture_longest": ([19, 21, 46, 42, 36, 11, 52, 50], "55e5fee5d22983051b9f36c8bfd7fffc"),
    "stratified": ([67, 88, 45, 64, 85, 24, 63, 93], "83d9672224c5fdcfba18025b8a1d5bbb"),
    "stratified_natural": ([45, 24, 67, 64, 13, 55, 4, 3], "a0cc276fa55ebd9c47aaa14016d1e8dd"),
    "bucket": ([87, 90, 26, 27, 21, 20, 54, 28], "8550dcb519dac25636c3382a9751262d"),
    "bucket_in_order": ([2, 3, 4, 10, 11, 13, 14, 15], "edb2091ac9d3ac163ef96dbbd097a037"),
    "repeated": ([59, 3, 90, 6, 55, 65, 51, 88], "0bbf93c25a8c90aed7c086b92fc35c60"),
}

GOLDEN_WORDS: dict[int, list[int]] = {
    0: [2258370863161892697, 426878318183481935, 12024898720602190421],
    1: [8142066135356404832, 15426919185833627133, 5097108511745828128],
    -1: [11621007814298733567, 12228931339439293677, 9956058720737045320],
    2**125: [17373277515615610651, 10885352063011961342, 13123806173269653256],
    2**200: [14880502908021365106, 11665975631176474511, 9333216386874186687],
}


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
