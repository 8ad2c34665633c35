"""Masks: which examples of a batch count, so that evaluation over ranks is exact."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from arrayfeed import DataLoader, IndexSampler, ShardOptions
from support.loading import Listed, numbers_in


def load(length: int, count: int, batch_size: int, **options: Any) -> list[list[Any]]:
    """Return every rank's batches of two epochs."""
    ranks = []
    for rank in range(count):
        shard = ShardOptions(rank, count)
        sampler = IndexSampler(length, shuffle=True, seed=3, shard=shard, tail="pad", batch_size=batch_size)
        loader = DataLoader(Listed(length), batch_size=batch_size, sampler=sampler, mask="counts", **options)
        ranks.append([batch for _ in range(2) for batch in loader])
        loader.close()
    return ranks


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("length", [1, 7, 10, 11, 24])
def test_what_counts_is_every_record_once(length: int, count: int) -> None:
    """Over all ranks and each of two epochs, in batches of one shape, as many on every rank."""
    ranks = load(length, count, 2)

    assert len({len(batches) for batches in ranks}) == 1
    assert {batch["x"].shape for batches in ranks for batch in batches} == {(2,)}
    assert {(batch["counts"].shape, batch["counts"].dtype.name) for batches in ranks for batch in batches} == {((2,), "bool")}
    middle = len(ranks[0]) // 2
    for half in (slice(None, middle), slice(middle, None)):
        counted = [int(x) for batches in ranks for batch in batches[half] for x in batch["x"][batch["counts"]]]
        assert sorted(counted) == list(range(length))


@pytest.mark.parametrize("options", [{"num_workers": 2, "worker_type": "thread"}, {"num_workers": 2}, {"prefetch_factor": 0}])
def test_masks_are_the_same_from_any_worker(options: Any, no_leaks: None) -> None:
    """As the batches are."""
    for found, expected in zip(load(11, 2, 2, **options), load(11, 2, 2), strict=True):
        for batch, plain in zip(found, expected, strict=True):
            assert batch["counts"].tolist() == plain["counts"].tolist()


@pytest.mark.parametrize("tail", ["uneven", "drop"])
def test_without_padding_everything_counts(tail: Any) -> None:
    """The mask is there all the same, so that code need not ask."""
    sampler = IndexSampler(11, shard=ShardOptions(0, 2), tail=tail)
    batches = list(DataLoader(Listed(11), batch_size=4, sampler=sampler, mask="counts"))

    assert all(batch["counts"].all() and batch["counts"].shape == batch["x"].shape for batch in batches)


def test_a_mask_becomes_what_the_batch_becomes() -> None:
    """A tensor in a batch of tensors."""
    torch = pytest.importorskip("torch")
    (batch,) = DataLoader(Listed(3), batch_size=4, mask="counts", output="torch")

    assert batch["counts"].dtype is torch.bool


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"mask": "x"}, ValueError, "a field of this name"),
        ({"mask": "m", "transforms": lambda example: (example["x"], example["y"])}, TypeError, "no dicts, but tuple"),
        ({"mask": "m", "collate_fn": lambda examples: {"x": np.zeros(1)}}, ValueError, "one example for each record"),
    ],
)
def test_what_cannot_be_masked_is_refused(options: Any, error: type[Exception], message: str) -> None:
    """With what to do about it; again at every try, and the loader stays where it is."""
    loader = DataLoader(Listed(4), batch_size=2, **options)
    iterator = iter(loader)
    for _ in range(2):
        with pytest.raises(error, match=message):
            next(iterator)
    assert loader.state_dict()["position"] == 0


@pytest.mark.parametrize(("tail", "steps"), [("drop", [2, 2, 2]), ("pad", [3, 3, 3]), ("uneven", [3, 2, 2])])
def test_ranks_make_equal_steps_unless_told_not_to(tail: Any, steps: list[int]) -> None:
    """13 records, 3 ranks, batches of 2."""
    for rank in range(3):
        batch_size = None if tail == "uneven" else 2
        sampler = IndexSampler(13, shard=ShardOptions(rank, 3), tail=tail, batch_size=batch_size)
        loader = DataLoader(Listed(13), batch_size=2, sampler=sampler)

        assert len(loader) == len(list(loader)) == steps[rank]


@pytest.mark.parametrize("drop_last", [False, True])
def test_unequal_steps_are_told_when_the_loader_is_made(drop_last: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Once, on rank 0, where they are unequal: for every length, number of ranks and batch size, as it turns out."""
    for length, ranks, batch_size in product(range(1, 20), range(1, 5), range(1, 4)):
        if length < ranks:
            continue
        caplog.clear()
        loaders = [
            DataLoader(
                range(length),
                batch_size=batch_size,
                drop_last=drop_last,
                sampler=IndexSampler(length, shard=ShardOptions(rank, ranks)),
            )
            for rank in range(ranks)
        ]
        steps = [len(loader) for loader in loaders]
        told = [record.getMessage() for record in caplog.records]

        assert len(told) == (max(steps) != min(steps))
        assert all(f"rank 0 makes {steps[0]} steps an epoch and rank {ranks - 1} makes {steps[-1]}." in text for text in told)


def test_padding_repeats_records_that_are_there() -> None:
    """So that a model sees nothing that the data do not hold."""
    assert {number for batches in load(7, 2, 4) for number in numbers_in(batches)} == set(range(7))
