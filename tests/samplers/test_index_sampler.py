"""IndexSampler and SequentialSampler: all records, any number of them, and their place in an epoch."""

from __future__ import annotations

import pickle
import time
import tracemalloc

import numpy as np
import pytest

from arrayfeed.samplers import IndexSampler, SequentialSampler, ShardOptions, StateError, Tail

LENGTHS = (0, 1, 2, 3, 10, 97, 2048, 2049, 65_536, 65_537)


@pytest.mark.parametrize("length", LENGTHS)
def test_an_epoch_is_a_permutation_of_the_records(length: int) -> None:
    """In order it is ``range``; shuffled it is every record once, another order in each epoch."""
    assert list(IndexSampler(length)) == list(SequentialSampler(length)) == list(range(length))
    orders = IndexSampler(length, shuffle=True, num_epochs=3).block(0, 3 * length).reshape(3, length)
    assert all(np.array_equal(np.sort(order), np.arange(length)) for order in orders)
    if length > 10:
        assert len({tuple(order) for order in orders}) == 3


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_record_knows_its_position(length: int, shuffle: bool) -> None:
    """`position_of` undoes `sampler[position]`: on one rank of three for its own records, None for the others'."""
    cases: list[tuple[int, Tail]] = [(1, "uneven"), (3, "uneven"), (3, "drop"), (3, "pad")]
    for world, tail in cases:
        if length < 3:
            continue
        sampler = IndexSampler(length, shuffle=shuffle, shard=ShardOptions(world - 1, world), tail=tail)
        sampler.set_epoch(4)
        own, mask = sampler.block(0, sampler.epoch_length, with_mask=True)
        place = {index: position for position, index in enumerate(own.tolist()) if mask[position]}
        for index in range(0, length, max(1, length // 50)):
            assert sampler.position_of(index) == place.get(index)
        later = IndexSampler(length, shuffle=shuffle, shard=sampler.shard, tail=tail)
        assert later.position_of(length // 2, epoch=4) == sampler.position_of(length // 2)
    for wrong in (-1, length):
        with pytest.raises(IndexError, match=f"index {wrong} is out of range for {length} records"):
            IndexSampler(length, shuffle=shuffle).position_of(wrong)


@pytest.mark.parametrize("length", [10, 70_000])
def test_a_shuffle_can_stay_the_same(length: int) -> None:
    """With ``reshuffle=False`` all epochs have the first one's order; its states are not another sampler's."""
    fixed = IndexSampler(length, shuffle=True, reshuffle=False, num_epochs=3)
    first = list(IndexSampler(length, shuffle=True))

    assert list(fixed) == first * 3
    fixed.set_epoch(7)
    assert [fixed[position] for position in range(10)] == first[:10]
    assert fixed.position_of(first[3]) == 3
    assert eval(repr(fixed)).identity() == fixed.identity()
    with pytest.raises(StateError, match="reshuffle was False, here it is None"):
        IndexSampler(length, shuffle=True).load_state_dict(fixed.state_dict())


def test_an_empty_source_gives_an_empty_sampler() -> None:
    """For any number of ranks and epochs, endless ones too: no positions, no iteration, a state that loads."""
    for num_epochs in (1, 3, None):
        for tail in ("uneven", "drop", "pad"):
            sampler = IndexSampler(0, shuffle=True, num_epochs=num_epochs, tail=tail, shard=ShardOptions(1, 2))
            assert list(sampler) == []
            assert sampler.block(0, 0).tolist() == []
            assert sampler.epoch_length == sampler.global_length == 0
            sampler.load_state_dict(sampler.state_dict())
            with pytest.raises(IndexError, match="out of range"):
                sampler[0]


@pytest.mark.parametrize("length", [10**12, 2**62, 2**63 - 1])
def test_a_trillion_records_cost_what_a_thousand_do(length: int) -> None:
    """Construction, any position, its inverse and resuming take under a millisecond and no memory to speak of."""
    middle = length // 3
    best = float("inf")
    for _ in range(20):  # the best of 20 runs: other work on the machine is not what is measured
        start = time.perf_counter()
        sampler = IndexSampler(length, shuffle=True, seed=3)
        index = sampler[middle]
        resumed = IndexSampler(length, shuffle=True, seed=3)
        resumed.load_state_dict(sampler.state_dict(middle))
        following = next(iter(resumed.block(resumed.position, resumed.position + 1).tolist()))
        best = min(best, time.perf_counter() - start)
    assert index == following
    assert sampler.position_of(index) == middle
    assert best < 1e-3

    tracemalloc.start()
    sampler = IndexSampler(length, shuffle=True, seed=4)
    sampler.block(middle, middle + 4096)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000
    assert len(pickle.dumps(sampler)) < 1000


@pytest.mark.parametrize("length", [10, 60_000, 65_536])
def test_tables_of_short_epochs_stay_small(length: int) -> None:
    """Under 1 MB beyond the block itself, however many epochs it spans."""
    sampler = IndexSampler(length, shuffle=True, num_epochs=None)
    sampler.block(0, 10)
    tracemalloc.start()
    sampler.block(0, 4096)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()

    assert after < 1_000_000


def test_positions_of_endless_samplers_go_far() -> None:
    """Positions count through epochs up to 2**63, for one record as for many."""
    for length in (1, 7, 100_000):
        sampler = IndexSampler(length, shuffle=True, num_epochs=None)
        far = 2**62
        epoch, place = divmod(far, length)
        there = IndexSampler(length, shuffle=True)
        there.set_epoch(epoch - (length == 1))
        assert sampler.block(far, far + 3)[0] == sampler[far]
        if length > 1:
            assert sampler[far] == there[place]
        with pytest.raises(IndexError, match="out of range for an endless sampler"):
            sampler[2**63]


def test_the_shuffle_is_global_whatever_the_number_of_ranks() -> None:
    """A rank does not shuffle a part of its own: over some epochs every rank sees every record."""
    for rank in range(4):
        sampler = IndexSampler(40, shuffle=True, shard=ShardOptions(rank, 4), num_epochs=60)
        assert set(sampler) == set(range(40))


def test_no_rank_is_left_without_work_silently() -> None:
    """Too few records for the ranks is an error on every rank, with the numbers; padding is the way out."""
    for rank in range(4):
        shard = ShardOptions(rank, 4)
        with pytest.raises(ValueError, match=r"3 records cannot give each of 4 ranks one; .* tail='pad'"):
            IndexSampler(3, shard=shard)
        with pytest.raises(ValueError, match=r"tail='drop' would drop all 3 records: 4 ranks .* need 4; use tail='pad'"):
            IndexSampler(3, shard=shard, tail="drop")
        with pytest.raises(ValueError, match=r"would drop all 31 records: 4 ranks with batches of 8 need 32"):
            IndexSampler(31, shard=shard, tail="drop", batch_size=8)
        indices, mask = IndexSampler(3, shard=shard, tail="pad").block(0, 1, with_mask=True)
        assert mask.tolist() == [rank < 3]
        assert 0 <= indices[0] < 3


@pytest.mark.parametrize(("tail", "batches"), [("drop", 3), ("pad", 4)])
def test_tails_round_to_whole_batches(tail: str, batches: int) -> None:
    """With a batch size, every rank has equally many full batches; padding may go round the data set more than once."""
    for rank in range(2):
        sampler = IndexSampler(53, shuffle=True, shard=ShardOptions(rank, 2), tail=tail, batch_size=8)  # type: ignore[arg-type]
        assert sampler.epoch_length == 8 * batches
    short = [IndexSampler(3, shard=ShardOptions(rank, 2), tail="pad", batch_size=8) for rank in range(2)]
    blocks = [sampler.block(0, 8, with_mask=True) for sampler in short]
    assert [indices[mask].tolist() for indices, mask in blocks] == [[0, 2], [1]]
    with pytest.raises(ValueError, match=r"padded to a multiple of 16 are more than 2\*\*63"):
        IndexSampler(2**63 - 1, shard=ShardOptions(0, 2), tail="pad", batch_size=8)
    with pytest.raises(ValueError, match=r"batch_size is 8, but tail='uneven' rounds nothing"):
        IndexSampler(53, batch_size=8)
    with pytest.raises(ValueError, match="batch_size is 0"):
        IndexSampler(53, batch_size=0, tail="pad")


def test_numpy_integers_are_numbers_too() -> None:
    """What comes out of an array can go in, and does not change the order."""
    plain = IndexSampler(100, shuffle=True, seed=7, num_epochs=2)
    sampler = IndexSampler(np.int64(100), shuffle=True, seed=np.uint8(7), num_epochs=np.int32(2))  # type: ignore[arg-type]

    assert list(sampler) == list(plain)
    assert sampler.fingerprint == plain.fingerprint


def test_wrong_numbers_of_records_are_refused() -> None:
    """By name, with the value."""
    for wrong, error, message in [
        (-1, ValueError, "num_records is -1; it must not be negative"),
        (2**63, ValueError, r"num_records is 9223372036854775808; it must be below 2\*\*63"),
        (10.0, TypeError, r"num_records is 10\.0; it must be a whole number"),
        ("10", TypeError, "num_records is '10'"),
    ]:
        with pytest.raises(error, match=message):
            IndexSampler(wrong)  # type: ignore[arg-type]


def test_it_shows_what_it_is() -> None:
    """`repr` is the call that makes it."""
    sampler = IndexSampler(10, shuffle=True, seed=3, shard=ShardOptions(1, 2), tail="pad")

    assert eval(repr(sampler)).state_dict() == sampler.state_dict()
    assert repr(SequentialSampler(5)).startswith("SequentialSampler(5, shuffle=False")
