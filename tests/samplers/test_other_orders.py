"""SubsetSampler, RepeatedAugmentation, StratifiedSampler: what each promises of its order."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from arrayfeed.samplers import (
    InterleaveSampler,
    RepeatedAugmentation,
    ShardOptions,
    StateError,
    StratifiedSampler,
    SubsetSampler,
)

LABELS = np.array([3] * 700 + [8] * 200 + [-1] * 100)


class TestSubsetSampler:
    def test_it_gives_the_listed_records_in_their_order_or_shuffled(self) -> None:
        """What is listed twice comes twice; nothing else comes."""
        listed = [9, 2, 2, 7]
        assert list(SubsetSampler(listed)) == listed
        assert sorted(SubsetSampler(np.array(listed, np.uint8), shuffle=True)) == sorted(listed)
        assert SubsetSampler(listed).num_records == 10
        assert SubsetSampler(listed, num_records=50).num_records == 50
        assert list(SubsetSampler([])) == []

    def test_indices_are_checked(self) -> None:
        """Bounds, kind and shape, with the value at fault; a boolean mask is no list of indices."""
        for indices, error, message in [
            ([1, -1], IndexError, "indices holds -1; record indices start at 0"),
            ([1, 10], IndexError, "indices holds 10, which is out of range for 10 records"),
            ([1.0], TypeError, "indices has dtype float64; it must hold integers"),
            ([True, False], TypeError, "indices has dtype bool"),
            ([[1]], ValueError, r"indices has shape \(1, 1\)"),
            (np.array([2**63], np.uint64), ValueError, r"its values must be below 2\*\*63"),
        ]:
            with pytest.raises(error, match=message):
                SubsetSampler(indices, num_records=10)  # type: ignore[arg-type]

    def test_the_users_array_is_copied(self) -> None:
        """Changing it afterwards changes nothing."""
        indices = np.arange(5)
        sampler = SubsetSampler(indices)
        indices[:] = 0
        assert list(sampler) == [0, 1, 2, 3, 4]

    def test_another_list_is_another_order(self) -> None:
        """A state of one fold does not load into another, though both have the same size."""
        with pytest.raises(StateError, match=r"indices was .*, here it is"):
            SubsetSampler([1, 2, 3]).load_state_dict(SubsetSampler([1, 2, 4]).state_dict())


class TestRepeatedAugmentation:
    @pytest.mark.parametrize("num_records", [1, 2, 3, 10, 101])
    @pytest.mark.parametrize("repeats", [1, 2, 5])
    def test_copies_are_more_than_half_a_pass_apart(self, num_records: int, repeats: int) -> None:
        """Each record comes `repeats` times an epoch, never twice within ``num_records // 2`` places."""
        sampler = RepeatedAugmentation(num_records, repeats=repeats, num_epochs=20)
        for epoch in range(20):
            order = sampler.block(epoch * num_records * repeats, (epoch + 1) * num_records * repeats)
            for record in range(num_records):
                places = np.flatnonzero(order == record)
                assert len(places) == repeats
                assert (np.diff(places) >= num_records // 2 + 1).all()
                assert (np.unique(places // num_records) == np.arange(repeats)).all()

    def test_no_two_passes_are_alike(self) -> None:
        """Within an epoch and over epochs."""
        sampler = RepeatedAugmentation(50, repeats=4, num_epochs=10)
        passes = sampler.block(0, 2000).reshape(40, 50)
        assert len({tuple(order) for order in passes}) == 40

    def test_repeats_are_checked(self) -> None:
        """At least one, and all copies together countable."""
        for repeats in (0, 2**60):
            with pytest.raises(ValueError, match=f"repeats is {repeats}"):
                RepeatedAugmentation(100, repeats=repeats)


class TestStratifiedSampler:
    @pytest.mark.parametrize("world", [1, 2, 3])
    def test_batches_are_balanced_on_every_rank(self, world: int) -> None:
        """Equal weights: each batch of 6 has two of each class, on each rank; every prefix is off by less than 1."""
        for rank in range(world):
            sampler = StratifiedSampler(LABELS, shard=ShardOptions(rank, world), num_epochs=2)
            for batch in range(sampler.epoch_length // 6):
                labels = LABELS[sampler.block(6 * batch, 6 * batch + 6)]
                assert sorted(labels) == [-1, -1, 3, 3, 8, 8]
            labels = LABELS[sampler.block(0, sampler.epoch_length)]
            counts = np.cumsum(labels[:, None] == sampler.classes, axis=0)
            assert np.abs(counts - np.arange(1, len(labels) + 1)[:, None] / 3).max() <= sampler.drift + 1e-9 < 1

    def test_natural_batches_mirror_the_data_set(self) -> None:
        """Every record once, and every batch of ten with 7, 2 and 1 of the classes."""
        sampler = StratifiedSampler(LABELS, weights="natural")
        order = sampler.block(0, sampler.epoch_length)
        assert sorted(order) == list(range(1000))
        for batch in order.reshape(100, 10):
            assert np.unique(LABELS[batch], return_counts=True)[1].tolist() == [1, 7, 2]

    def test_small_classes_repeat_only_when_through(self) -> None:
        """Each pass over a class is every record of it once, in another order."""
        sampler = StratifiedSampler(LABELS, num_epochs=2)
        for epoch in range(2):
            order = sampler.block(epoch * sampler.epoch_length, (epoch + 1) * sampler.epoch_length)
            assert set(order.tolist()) == set(range(1000))
            rare = order[LABELS[order] == -1]
            passes = rare[: len(rare) // 100 * 100].reshape(-1, 100)
            assert all(sorted(one) == list(range(900, 1000)) for one in passes)
            assert len({tuple(one) for one in passes}) == len(passes) >= 6

    def test_weights_and_stops_can_be_chosen(self) -> None:
        """By class in ascending order of label; "shortest" ends when a class is due that has no record left."""
        sampler = StratifiedSampler(LABELS, weights=[1, 2, 1], stop="shortest")
        labels = LABELS[list(sampler)]
        assert sampler.classes == [-1, 3, 8]
        assert sampler.weights == (1, 2, 1)
        assert np.unique(labels, return_counts=True)[1].tolist() == [100, 201, 101]
        assert len(set(sampler)) == 402

    def test_many_classes_are_as_good_as_few(self) -> None:
        """A thousand classes of unlike sizes: each batch of a thousand has one record of each."""
        labels = np.random.default_rng(0).integers(0, 1000, 20_000)
        sampler = StratifiedSampler(labels, num_epochs=None)
        for batch in range(3):
            assert sorted(labels[sampler.block(1000 * batch, 1000 * batch + 1000)]) == list(range(1000))

    def test_unfit_labels_and_weights_are_refused(self) -> None:
        """By what is wrong with them."""
        for labels, options, error, message in [
            ([], {}, ValueError, "labels is empty"),
            ([0.5], {}, TypeError, "labels has dtype float64"),
            ([[1]], {}, ValueError, r"labels has shape \(1, 1\)"),
            ([1, 2], {"weights": "even"}, ValueError, "weights is 'even'"),
            ([1, 2], {"weights": [1]}, ValueError, "there are 2 classes but 1 weights"),
            (
                [1, 2, 2],
                {"shard": ShardOptions(0, 2)},
                ValueError,
                "source 0 has 1 records, which cannot give each of 2",
            ),
        ]:
            with pytest.raises(error, match=message):
                StratifiedSampler(labels, **options)  # type: ignore[arg-type]


def interleaved(lengths: list[int], cycle: int, block: int) -> list[int]:
    """Interleave as tf.data does, step by step: a slot that ends passes its turn on, and opens the next shard later."""
    starts = np.cumsum([0, *lengths]).tolist()
    waiting = iter([list(range(start, start + length)) for start, length in zip(starts, lengths, strict=False)])
    slots: list[list[int] | None] = [None] * cycle
    order, turn, given, over = list[int](), 0, 0, False
    while not over or any(slot is not None for slot in slots):
        slot = slots[turn]
        if slot:
            order.append(slot.pop(0))
            given += 1
            if given < block:
                continue
        elif slot is not None:
            slots[turn] = None
        elif not over:
            slots[turn] = next(waiting, None)
            over = slots[turn] is None
            continue
        turn, given = (turn + 1) % cycle, 0
    return order


class TestInterleaveSampler:
    def test_it_gives_the_order_of_tf_data(self) -> None:
        """Two orders that TensorFlow 2.21 gave for three files of three records, read two at a time."""
        names = [0, 1, 2, 10, 11, 12, 20, 21, 22]
        single, double = (InterleaveSampler([3, 3, 3], cycle=2, block=block) for block in (1, 2))
        assert [names[index] for index in single] == [0, 10, 1, 11, 2, 12, 20, 21, 22]
        assert [names[index] for index in double] == [0, 1, 10, 11, 2, 12, 20, 21, 22]

    @given(
        lengths=st.lists(st.integers(0, 12), max_size=8),
        cycle=st.integers(1, 6),
        block=st.integers(1, 5),
    )
    def test_it_is_the_plain_interleaving(self, lengths: list[int], cycle: int, block: int) -> None:
        """For shards of any length, empty ones too, and more slots than shards."""
        assert list(InterleaveSampler(lengths, cycle=cycle, block=block)) == interleaved(lengths, cycle, block)

    def test_shards_open_in_another_order_each_epoch(self) -> None:
        """Shuffled, an epoch is the plain interleaving of its own order of shards."""
        sampler = InterleaveSampler([5] * 20, cycle=1, shuffle=True, num_epochs=5)
        epochs = sampler.block(0, 500).reshape(5, 20, 5)
        assert (np.diff(epochs, axis=2) == 1).all()
        assert len({tuple(epoch[:, 0]) for epoch in epochs}) == 5

    def test_a_thousand_large_shards_take_little(self) -> None:
        """Memory and time are those of the shards, not of their records."""
        sampler = InterleaveSampler([10**9 + i for i in range(1000)], cycle=16, block=64)
        shards = np.unique(sampler.block(10**11, 10**11 + 4096) // (10**9 + 500))
        assert len(shards) == 16

    def test_unfit_arguments_are_refused(self) -> None:
        """By name and value."""
        for lengths, cycle, block, message in [
            ([3, -1], 2, 1, "lengths holds -1"),
            ([3], 0, 1, "cycle is 0 and block is 1; both must be at least 1"),
            ([3], 1, 0, "cycle is 1 and block is 0"),
        ]:
            with pytest.raises(ValueError, match=message):
                InterleaveSampler(lengths, cycle=cycle, block=block)
