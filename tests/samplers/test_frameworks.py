"""Our samplers where others look for theirs: torch's DataLoader, Lightning, Accelerate, torchdata and Grain."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from arrayfeed.samplers import (
    BatchSampler,
    BucketBatchSampler,
    IndexSampler,
    MixtureSampler,
    RecordRandom,
    ShardOptions,
    WeightedSampler,
)
from support.sampler_cases import BATCH_CASES, CASES, Build, BuildBatches


class Squares(Dataset[int]):
    """A map-style data set that insists on plain integers, as lists and many files do."""

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> int:
        assert type(index) is int
        return index * index


def squares(loader: Any) -> list[list[int]]:
    return [batch.tolist() for batch in loader]


@pytest.mark.parametrize("build", CASES.values(), ids=CASES)
def test_torch_takes_every_sampler(build: Build) -> None:
    """As `sampler=`: batches in our order, a length, other epochs after `set_epoch`."""
    sampler = build()
    loader: DataLoader[int] = DataLoader(Squares(), batch_size=10, sampler=sampler)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        batches = squares(loader)
        assert [i for batch in batches for i in batch] == [
            index * index
            for index in build(num_epochs=2).block(epoch * sampler.epoch_length, (epoch + 1) * sampler.epoch_length).tolist()
        ]
        assert len(loader) == len(batches)


@pytest.mark.parametrize("build", BATCH_CASES.values(), ids=BATCH_CASES)
def test_torch_takes_every_batch_sampler(build: BuildBatches) -> None:
    """As `batch_sampler=`: our batches, as many as the loader's length says."""
    loader: DataLoader[int] = DataLoader(Squares(), batch_sampler=build())
    batches = squares(loader)

    assert batches == [[index * index for index in batch] for batch in build()]
    assert len(loader) == len(batches)


@pytest.mark.parametrize(("start", "batched"), [("fork", False), ("fork", True), ("spawn", True)])
def test_torch_workers_get_the_order_of_one_process(start: str, batched: bool) -> None:
    """With two workers, for a sampler and a batch sampler."""
    sampler = IndexSampler(500, shuffle=True)
    order: dict[str, Any] = {"batch_sampler": BatchSampler(sampler, 64)} if batched else {"sampler": sampler, "batch_size": 64}
    loader: DataLoader[int] = DataLoader(Squares(), num_workers=2, multiprocessing_context=start, **order)

    assert [i for batch in squares(loader) for i in batch] == [index * index for index in sampler]


def test_torch_goes_through_several_epochs_or_for_ever() -> None:
    """A sampler of three epochs is one pass of three, each shuffled anew; an endless one has no length."""
    loader: DataLoader[int] = DataLoader(Squares(), batch_size=7, sampler=IndexSampler(20, shuffle=True, num_epochs=3))
    assert len(loader) == 9
    assert sorted(i for batch in squares(loader) for i in batch) == sorted(i * i for i in list(range(20)) * 3)
    endless: DataLoader[int] = DataLoader(Squares(), batch_size=7, sampler=IndexSampler(20, num_epochs=None))
    assert len(list(itertools.islice(endless, 50))) == 50
    with pytest.raises(TypeError, match="for ever"):
        len(endless)


def test_ranks_of_torch_see_each_record_once() -> None:
    """Where torch's DistributedSampler repeats records, ours do not: 103 records over 2 ranks are 103."""
    dataset = Squares()
    theirs: list[torch.utils.data.DistributedSampler[int]] = [
        torch.utils.data.DistributedSampler(range(103), num_replicas=2, rank=rank)  # type: ignore[arg-type]
        for rank in range(2)
    ]
    ours = [IndexSampler(103, shuffle=True, shard=ShardOptions(rank, 2)) for rank in range(2)]

    assert sum(len(list(sampler)) for sampler in theirs) == 104
    seen = [i for sampler in ours for batch in squares(DataLoader(dataset, batch_size=8, sampler=sampler)) for i in batch]
    assert sorted(seen) == [i * i for i in range(103)]


def objects_that_lightning_asks(loader: DataLoader[Any]) -> Iterator[Any]:
    """Yield where Lightning 2 looks for `set_epoch`: the loader's sampler, and its batch sampler's."""
    yield getattr(loader, "sampler", None)
    yield getattr(getattr(loader, "batch_sampler", None), "sampler", None)


def objects_that_accelerate_asks(loader: DataLoader[Any]) -> Iterator[Any]:
    """Yield where Accelerate 1 looks for `set_epoch`: the batch sampler, and its sampler."""
    yield loader.batch_sampler
    yield getattr(loader.batch_sampler, "sampler", None)


@pytest.mark.parametrize("asks", [objects_that_lightning_asks, objects_that_accelerate_asks])
def test_trainers_find_set_epoch(asks: Any) -> None:
    """Whichever way a sampler is handed to torch's loader, the trainer's epoch reaches it."""
    lengths = np.arange(1, 101)
    loaders: list[DataLoader[int]] = [
        DataLoader(Squares(), batch_size=10, sampler=IndexSampler(100, shuffle=True)),
        DataLoader(Squares(), batch_size=10, sampler=WeightedSampler(lengths)),
        DataLoader(Squares(), batch_sampler=BatchSampler(MixtureSampler([50, 50], shuffle=True), 10)),
        DataLoader(Squares(), batch_sampler=BucketBatchSampler(lengths, boundaries=[50], batch_size=10)),
    ]
    for loader in loaders:
        epochs = []
        for epoch in range(2):
            found = {id(each): each for each in asks(loader) if callable(getattr(each, "set_epoch", None))}
            assert found
            for each in found.values():
                each.set_epoch(epoch)
            epochs.append(squares(loader))
        assert epochs[0] != epochs[1]


def test_accelerate_can_split_our_batches() -> None:
    """It reads `batch_size` and `drop_last` of a batch sampler, and deals its batches out."""
    batches = BatchSampler(IndexSampler(100, shuffle=True), 8)
    assert (batches.batch_size, batches.drop_last) == (8, False)
    unlike = BucketBatchSampler(np.arange(100), boundaries=[50], batch_sizes=[8, 4])
    assert unlike.batch_size is None, "unlike batches have no one size; None is how Accelerate is told"


@pytest.mark.parametrize("batched", [False, True])
def test_an_iterator_has_a_state_of_its_own(batched: bool) -> None:
    """torchdata's StatefulDataLoader saves sampler and iterator, and loads both: no index is lost, none comes twice."""

    def build() -> Any:
        sampler = IndexSampler(5000, shuffle=True, num_epochs=2)
        return BatchSampler(sampler, 7) if batched else sampler

    everything = list(build())
    for given in (0, 1, 5, 700, len(everything) - 1, len(everything)):
        saved = build()
        iterator = iter(saved)
        assert list(itertools.islice(iterator, given)) == everything[:given]
        states = json.loads(json.dumps([saved.state_dict(), iterator.state_dict()]))
        assert list(iterator) == everything[given:]

        resumed = build()
        resumed.load_state_dict(states[0])
        following = iter(resumed)
        following.load_state_dict(states[1])
        assert list(following) == everything[given:]
        assert list(resumed) == everything, "the sampler itself stays at its start"


def test_an_iterator_under_way_is_left_alone() -> None:
    """`set_epoch` and loading a state act on the next iteration, not on one that has begun."""
    sampler = IndexSampler(10_000, shuffle=True)
    expected = list(sampler)
    single, batched = iter(sampler), iter(BatchSampler(sampler, 9))
    first, first_batch = next(single), next(batched)
    sampler.set_epoch(5)

    assert [first, *single] == expected
    assert [*first_batch, *itertools.chain(*batched)] == expected


class TestGrain:
    """With the real Grain: its DataLoader asks for `RecordMetadata` by index."""

    def test_grain_loads_in_our_order(self) -> None:
        """Over several epochs, with a generator for each record that depends on its epoch and place."""
        grain = pytest.importorskip("grain.python")
        from arrayfeed.samplers.grain import GrainSampler

        sampler = GrainSampler(IndexSampler(30, shuffle=True, num_epochs=2), seed=5)
        whole = grain.NoSharding()
        loader = grain.DataLoader(data_source=np.arange(100) * 3, sampler=sampler, shard_options=whole, worker_count=0)

        assert [int(value) for value in loader] == [3 * index for index in IndexSampler(30, shuffle=True, num_epochs=2)]
        metadata = sampler[33]
        assert isinstance(metadata, grain.RecordMetadata)
        assert (metadata.index, metadata.record_key) == (33, IndexSampler(30, shuffle=True, num_epochs=2)[33])
        assert metadata.rng.random() == RecordRandom(5).uniform(1, np.array([3]), 1)[0, 0]
        assert GrainSampler(IndexSampler(30))[3].rng is None

    def test_grains_shards_take_turns_as_ours(self) -> None:
        """Its `shard_options` stripe the same global order."""
        grain = pytest.importorskip("grain.python")
        from arrayfeed.samplers.grain import GrainSampler

        for rank in range(2):
            loader = grain.DataLoader(
                data_source=np.arange(40),
                sampler=GrainSampler(IndexSampler(40, shuffle=True)),
                shard_options=grain.ShardOptions(shard_index=rank, shard_count=2),
                worker_count=0,
            )
            assert [int(v) for v in loader] == list(IndexSampler(40, shuffle=True, shard=ShardOptions(rank, 2)))

    def test_grains_checkpoints_go_on_and_know_the_order(self) -> None:
        """A state of its iterator resumes; with another seed it is refused, by the sampler's repr."""
        grain = pytest.importorskip("grain.python")
        from arrayfeed.samplers.grain import GrainSampler

        def load(seed: int) -> Any:
            sampler = GrainSampler(IndexSampler(50, shuffle=True, seed=seed))
            whole = grain.NoSharding()
            loader = grain.DataLoader(data_source=np.arange(50), sampler=sampler, shard_options=whole, worker_count=0)
            return iter(loader)

        iterator = load(1)
        for _ in range(20):
            next(iterator)
        state, rest = iterator.get_state(), list(iterator)
        resumed = load(1)
        resumed.set_state(state)
        assert list(resumed) == rest
        with pytest.raises(ValueError, match="sampler"):
            load(2).set_state(state)

    def test_ends_are_index_errors_and_shards_are_refused(self) -> None:
        """Grain finds the end by the length; an endless sampler has the one that Grain's own report."""
        pytest.importorskip("grain.python")
        from arrayfeed.samplers.grain import GrainSampler

        sampler = GrainSampler(IndexSampler(5))
        assert len(sampler) == 5
        assert len(GrainSampler(IndexSampler(5, num_epochs=None))) == 2**63 - 1
        for wrong in (-1, 5):
            with pytest.raises(IndexError):
                sampler[wrong]
        with pytest.raises(ValueError, match="give Grain the whole order"):
            GrainSampler(IndexSampler(5, shard=ShardOptions(0, 2)))
