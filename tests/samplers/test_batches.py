"""BatchSampler and BucketBatchSampler: the sampler's promises with a batch for each item, and what buckets add."""

from __future__ import annotations

import copy
import itertools
import json
import pickle
from typing import Any

import numpy as np
import pytest

from arrayfeed.samplers import BatchSampler, BucketBatchSampler, IndexSampler, MixtureSampler, ShardOptions, StateError
from support.sampler_cases import BATCH_CASES, BuildBatches

every_batch_sampler = pytest.mark.parametrize("build", BATCH_CASES.values(), ids=BATCH_CASES)
LENGTHS = np.random.default_rng(1).integers(1, 100, 1000)
BOUNDARIES = [10, 30, 60]
SIZES = [16, 8, 4, 2]


@every_batch_sampler
class TestEveryBatchSampler:
    def test_a_block_is_its_batches_one_by_one(self, build: BuildBatches) -> None:
        """Iteration, `block`, numbers from the front and from the end all give the same lists of plain integers."""
        for shard in (ShardOptions(), ShardOptions(1, 3)):
            sampler = build(num_epochs=3, shard=shard)
            batches = list(sampler)
            end = len(sampler)
            assert len(batches) == end == 3 * sampler.epoch_length
            assert batches == [sampler[number] for number in range(end)]
            assert batches == [block.tolist() for block in sampler.block(0, end)]
            assert sampler[-1] == batches[-1]
            assert sampler[-end] == batches[0]
            assert {type(index) for batch in batches for index in batch} == {int}
            assert all(batches)

    def test_batches_are_stretches_of_the_samplers_positions(self, build: BuildBatches) -> None:
        """`bounds` says which; they follow each other, and none crosses an epoch's end."""
        batches = build(num_epochs=2, shard=ShardOptions(0, 2))
        length, ends = batches.sampler.epoch_length, list[int]()
        for number in range(len(batches)):
            start, stop = batches.bounds(number)
            assert start < stop
            assert start // length == (stop - 1) // length == batches.epoch_of(number)
            assert batches.sampler.block(start, stop).tolist() == batches[number]
            assert not ends or start == ends[-1] or start == length
            ends.append(stop)

    def test_epochs_can_be_set_and_never_end(self, build: BuildBatches) -> None:
        """An endless one has no length but every batch of every epoch."""
        endless, single = build(num_epochs=None), build()
        per_epoch = endless.epoch_length
        for epoch in (0, 1, 5):
            single.set_epoch(epoch)
            expected = [batch.tolist() for batch in endless.block(epoch * per_epoch, (epoch + 1) * per_epoch)]
            assert list(single) == expected
        assert list(itertools.islice(endless, 2 * per_epoch)) == [endless[number] for number in range(2 * per_epoch)]
        with pytest.raises(TypeError, match="for ever"):
            len(endless)

    def test_numbers_beyond_the_ends_are_index_errors(self, build: BuildBatches) -> None:
        """As for lists."""
        batches = build()
        end = len(batches)
        for call in (lambda n: batches[n], batches.bounds, batches.epoch_of):
            with pytest.raises(IndexError, match=f"batch {end} is out of range for {end} batches"):
                call(end)
        with pytest.raises(IndexError, match="ends before it starts"):
            batches.block(2, 1)
        with pytest.raises(IndexError, match="out of range"):
            batches.block(0, end + 1)
        with pytest.raises(IndexError):
            build(num_epochs=None)[-1]
        assert batches.block(end, end) == []

    def test_a_state_goes_on_with_the_next_batch(self, build: BuildBatches) -> None:
        """After any number of batches; into the bare sampler as well."""
        saved = build(num_epochs=2)
        everything = list(saved)
        for number in range(len(saved) + 1):
            state = json.loads(json.dumps(saved.state_dict(number)))
            resumed = build(num_epochs=2)
            resumed.load_state_dict(state)
            assert list(resumed) == everything[number:]
            assert resumed.state_dict() == state
            bare = build(num_epochs=2).sampler
            bare.load_state_dict(state)
        with pytest.raises(IndexError):
            saved.state_dict(len(saved) + 1)
        with pytest.raises(StateError):
            saved.load_state_dict({})

    def test_copies_go_on_alike(self, build: BuildBatches) -> None:
        """Pickled, copied, for another rank and back."""
        batches = build(num_epochs=2)
        for other in (pickle.loads(pickle.dumps(batches)), copy.deepcopy(batches)):
            assert list(other) == list(batches)
        there = batches.with_shard(ShardOptions(1, 2))
        assert there.shard == ShardOptions(1, 2)
        assert list(there) == list(build(num_epochs=2, shard=ShardOptions(1, 2)))
        assert there.fingerprint == batches.fingerprint
        assert there.identity() == batches.identity()
        assert type(batches).__name__ in repr(batches)

    def test_trainers_find_what_they_look_for(self, build: BuildBatches) -> None:
        """`sampler` with `set_epoch`, `batch_size`, `drop_last`: where torch's own BatchSampler has them."""
        batches = build()
        assert callable(batches.sampler.set_epoch)
        assert isinstance(batches.drop_last, bool)
        assert batches.batch_size is None or batches.batch_size == max(map(len, batches.with_shard(ShardOptions(0, 2))))


class TestBatchSampler:
    def test_an_epochs_last_batch_is_short_or_left_out(self) -> None:
        """10 records in batches of 4, two epochs: 4 4 2 4 4 2, or 4 4 4 4."""
        assert [len(batch) for batch in BatchSampler(IndexSampler(10, num_epochs=2), 4)] == [4, 4, 2, 4, 4, 2]
        assert [len(batch) for batch in BatchSampler(IndexSampler(10, num_epochs=2), 4, drop_last=True)] == [4, 4, 4, 4]
        assert list(BatchSampler(IndexSampler(0), 4)) == []
        assert list(BatchSampler(IndexSampler(3, num_epochs=None), 4, drop_last=True)) == []

    def test_another_batch_size_goes_on_where_the_state_was_taken(self) -> None:
        """The epoch's remaining positions are cut anew; the next epoch begins at its start."""
        saved = BatchSampler(IndexSampler(50, shuffle=True, num_epochs=2), 8)
        resumed = BatchSampler(IndexSampler(50, shuffle=True, num_epochs=2), 5)
        resumed.load_state_dict(saved.state_dict(3))
        batches = list(resumed)
        assert [len(batch) for batch in batches] == [5, 5, 5, 5, 5, 1] + [5] * 10
        assert list(itertools.chain(*batches)) == list(saved.sampler)[24:]

    def test_it_takes_our_samplers_and_whole_sizes(self) -> None:
        """Anything else is refused by name."""
        with pytest.raises(TypeError, match="sampler is a list"):
            BatchSampler([1, 2], 2)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="batch_size is 0"):
            BatchSampler(IndexSampler(3), 0)
        with pytest.raises(TypeError, match=r"batch_size is 2\.0"):
            BatchSampler(IndexSampler(3), 2.0)  # type: ignore[arg-type]

    def test_batches_of_a_mixture_have_its_quotas(self) -> None:
        """Whole weights that sum to the batch size, in each batch of each rank."""
        for rank in range(3):
            mixture = MixtureSampler([60, 60], [3, 1], stop="shortest", shard=ShardOptions(rank, 3), num_epochs=2)
            for batch in BatchSampler(mixture, 4, drop_last=True):
                assert sum(index < 60 for index in batch) == 3


def buckets(**options: Any) -> BucketBatchSampler:
    return BucketBatchSampler(LENGTHS, boundaries=BOUNDARIES, batch_sizes=SIZES, **options)


def bucket_of(indices: list[int]) -> list[int]:
    return [int(bucket) for bucket in np.searchsorted(BOUNDARIES, LENGTHS[indices], side="right")]


class TestBucketBatchSampler:
    @pytest.mark.parametrize("world", [1, 2, 3])
    @pytest.mark.parametrize("tail", ["uneven", "drop", "pad"])
    def test_batches_are_of_one_bucket_and_every_record_comes_once(self, world: int, tail: str) -> None:
        """All but the last few batches of an epoch are full and of one bucket, on all ranks of a step the same one."""
        samplers = [buckets(shard=ShardOptions(rank, world), tail=tail, num_epochs=2) for rank in range(world)]
        for epoch in range(2):
            per_rank = []
            for sampler in samplers:
                sampler.set_epoch(epoch)
                per_rank.append([sampler[number] for number in range(sampler.epoch_length)])
            seen = sorted(itertools.chain(*itertools.chain(*per_rank)))
            if tail == "uneven":
                assert seen == list(range(1000))
            elif tail == "pad":
                assert set(seen) == set(range(1000))
            else:
                assert len(set(seen)) == len(seen) > 1000 - world
            if tail != "uneven":
                assert len({len(batches) for batches in per_rank}) == 1
            whole = 0
            for step in itertools.zip_longest(*per_rank, fillvalue=[]):
                in_step = {bucket for batch in step for bucket in bucket_of(batch)}
                assert max(map(len, step)) <= min(SIZES[bucket] for bucket in in_step) + (tail == "pad")
                whole += len(in_step) == 1 and all(len(batch) == SIZES[min(in_step)] for batch in step)
            assert whole >= len(per_rank[0]) - 2 * len(SIZES)

    def test_batches_come_in_random_order_of_buckets(self) -> None:
        """Short and long examples alternate; with shuffle off they come bucket by bucket, in order of index."""
        firsts = [bucket_of(batch)[0] for batch in buckets()]
        assert sum(a != b for a, b in itertools.pairwise(firsts)) > len(firsts) / 4
        plain = buckets(shuffle=False)
        firsts = [bucket_of(batch)[0] for batch in plain][: -2 * len(SIZES)]
        assert firsts == sorted(firsts)
        assert next(iter(plain)) == np.flatnonzero(LENGTHS < 10)[:16].tolist()

    def test_epochs_batch_other_records_together(self) -> None:
        """No batch of one epoch comes again in the next."""
        sampler = buckets(num_epochs=2)
        half = sampler.epoch_length
        first, second = ({tuple(sorted(batch)) for batch in list(sampler)[part]} for part in (slice(half), slice(half, None)))
        assert not {batch for batch in first if len(batch) > 2} & second

    def test_padding_repeats_records_of_like_length(self) -> None:
        """A padded batch is no longer than it would have been: what fills it up is its neighbour in the order."""
        lengths = np.array([1] * 10 + [50] * 7)
        for rank in range(2):
            sampler = BucketBatchSampler(
                lengths, boundaries=[10], batch_size=4, shuffle=False, shard=ShardOptions(rank, 2), tail="pad"
            )
            assert lengths[list(sampler)[-1]].tolist()[-1] == 50

    def test_drop_last_gives_full_batches_only(self) -> None:
        """Every batch is of one bucket and has that bucket's size, on every rank; other records miss out each epoch."""
        missed = []
        for rank in range(2):
            sampler = buckets(drop_last=True, shard=ShardOptions(rank, 2), num_epochs=2)
            for batch in sampler:
                assert len(set(bucket_of(batch))) == 1
                assert len(batch) == SIZES[bucket_of(batch)[0]]
            missed.append([set(range(1000)) - set(sampler.sampler.with_shard(ShardOptions()).block(0, 5))])
        with pytest.raises(ValueError, match="drop_last=True would leave out all 5 records"):
            BucketBatchSampler([1, 2, 30, 40, 50], boundaries=[10], batch_size=4, drop_last=True)

    def test_the_example_of_bucket_by_sequence_length(self) -> None:
        """Lengths 1 4 3 5 6 2, boundaries 3 and 5, batches of 2: 1 and 2, 4 and 3, 5 and 6, as tf.data does."""
        lengths = np.array([1, 4, 3, 5, 6, 2])
        batches = list(BucketBatchSampler(lengths, boundaries=[3, 5], batch_sizes=[2, 2, 2], shuffle=False))

        assert [sorted(lengths[batch].tolist()) for batch in batches] == [[1, 2], [3, 4], [5, 6]]

    def test_waste_by_padding_is_small(self) -> None:
        """What buckets are for: of padded elements 7 in 100 are padding, where random batches have 45."""
        lengths = np.random.default_rng(0).integers(1, 500, 20_000)

        def waste(batches: BatchSampler) -> float:
            padded = sum(int(lengths[batch].max()) * len(batch) for batch in batches)
            return 1 - float(lengths.sum()) / padded

        plain = BatchSampler(IndexSampler(20_000, shuffle=True), 32)
        bucketed = BucketBatchSampler(lengths, boundaries=range(50, 500, 50), batch_size=32)
        assert waste(plain) > 0.45
        assert waste(bucketed) < 0.1

    def test_unfit_arguments_are_refused(self) -> None:
        """By what is wrong with them."""
        for options, error, message in [
            ({"boundaries": [30, 10], "batch_size": 4}, ValueError, r"boundaries are \[30, 10\]; they must ascend"),
            (
                {"boundaries": [10], "batch_sizes": [4]},
                ValueError,
                "1 boundaries make 2 buckets, but there are 1 batch sizes",
            ),
            (
                {"boundaries": [10], "batch_sizes": [4, 0]},
                ValueError,
                r"batch_sizes are \[4, 0\]; each must be at least 1",
            ),
            ({"boundaries": [10]}, ValueError, "give either batch_size or batch_sizes"),
            ({"boundaries": [10], "batch_size": 4, "batch_sizes": [4, 4]}, ValueError, "give either"),
            ({"boundaries": [0.5], "batch_size": 4}, TypeError, "boundaries has dtype float64"),
        ]:
            with pytest.raises(error, match=message):
                BucketBatchSampler(LENGTHS, **options)  # type: ignore[arg-type]

    @pytest.mark.parametrize(("before", "after"), [(4, 3), (1, 4), (3, 1), (2, 8)])
    def test_other_ranks_go_on_with_batches_that_fit(self, before: int, after: int) -> None:
        """After a change of ranks each record comes once, no batch is longer than its buckets allow, and the ranks take
        equally many steps, to within one."""
        saved = [buckets(shard=ShardOptions(rank, before)) for rank in range(before)]
        delivered = [index for sampler in saved for number in range(20) for index in sampler[number]]
        state = saved[0].state_dict(20)
        steps = []
        for rank in range(after):
            sampler = buckets(shard=ShardOptions(rank, after))
            sampler.load_state_dict(state)
            batches = list(sampler)
            delivered += itertools.chain(*batches)
            steps.append(len(batches))
            for batch in batches:
                assert 0 < len(batch) <= min(SIZES[bucket] for bucket in bucket_of(batch))
        assert sorted(delivered) == list(range(1000))
        assert max(steps) - min(steps) <= 1
