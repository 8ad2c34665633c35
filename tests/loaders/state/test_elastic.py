"""Many ranks are one stream: the same state on all of them, and any other number of ranks goes on from it."""

from __future__ import annotations

import json
from itertools import zip_longest
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arrayfeed import DataLoader, IndexSampler, SequentialSampler, ShardOptions, StateError
from arrayfeed.samplers import MixtureSampler
from support.loading import Listed, numbers_in

Change = tuple[int, int, int, int]  # ranks, batch size, prefetch factor, steps until the next change


def make(length: int, rank: int, ranks: int, batch_size: int, *, prefetch_factor: int = 0, **options: Any) -> DataLoader:
    sampling = {name: options.pop(name) for name in ("tail", "seed", "num_epochs") if name in options}
    sampler_batch = batch_size if sampling.get("tail") in ("drop", "pad") else None
    sampler = IndexSampler(length, shuffle=True, shard=ShardOptions(rank, ranks), batch_size=sampler_batch, **sampling)
    return DataLoader(
        Listed(length),
        sampler=sampler,
        batch_size=batch_size,
        num_epochs=sampler.num_epochs,
        prefetch_factor=prefetch_factor,
        **options,
    )


changes = st.tuples(st.integers(1, 5), st.integers(1, 7), st.integers(0, 1), st.integers(0, 6))


@given(length=st.integers(5, 80), plan=st.lists(changes, min_size=2, max_size=6), epochs=st.integers(1, 2))
@example(length=9, plan=[(2, 4, 0, 1), (1, 1, 0, 9)], epochs=1)  # rank 1 has nothing left, rank 0 one record
@example(length=8, plan=[(3, 3, 0, 1), (2, 5, 0, 9)], epochs=2)  # the last batches of three ranks differ in size
def test_every_record_comes_once_an_epoch_over_any_changes_of_ranks_and_batch_size(
    length: int, plan: list[Change], epochs: int
) -> None:
    """All ranks save the same state at the same step; the next number of ranks goes on; and so on to the end of the epoch."""
    state: str | None = None
    for epoch in range(epochs):
        found: list[int] = []
        # Whatever is left of the epoch after all changes, two ranks deliver; and the second epoch begins with them.
        for ranks, batch_size, prefetch_factor, steps in [*plan, (2, 3, 0, 1000)]:
            loaders = [make(length, rank, ranks, batch_size, prefetch_factor=prefetch_factor) for rank in range(ranks)]
            if state is not None:
                for loader in loaders:
                    loader.load_state_dict(json.loads(state))
            iterators = [iter(loader) for loader in loaders]
            over = False
            for _ in range(steps):
                batches = [next(iterator, None) for iterator in iterators]
                found += numbers_in([batch for batch in batches if batch is not None])
                # A rank that has had its last batch waits for the others; the loop is over when all are.
                told = {
                    json.dumps(loader.state_dict(), sort_keys=True)
                    for loader, batch in zip(loaders, batches, strict=True)
                    if batch is not None
                }
                over = not told
                if over:
                    told = {json.dumps(loader.state_dict(), sort_keys=True) for loader in loaders}
                assert len(told) == 1
                (state,) = told
                if over:
                    break
            if over:
                break

        assert sorted(found) == list(range(length))
        assert state is not None
        assert (json.loads(state)["epoch"], json.loads(state)["position"]) == (epoch + 1, 0)


@given(
    length=st.integers(1, 60),
    ranks=st.integers(1, 4),
    batch_size=st.integers(1, 7),
    steps=st.integers(0, 8),
    tail=st.sampled_from(["uneven", "drop", "pad"]),
    num_epochs=st.integers(1, 3),
)
def test_ranks_that_stop_and_go_on_deliver_what_they_would_have(
    length: int, ranks: int, batch_size: int, steps: int, tail: str, num_epochs: int
) -> None:
    """Batch by batch the same, on each rank, padding included, over several epochs in a pass."""
    if (tail == "drop" and length < ranks * batch_size) or (tail == "uneven" and length < ranks):
        return
    for rank in range(ranks):
        options: dict[str, Any] = {"tail": tail, "num_epochs": num_epochs}
        loader = make(length, rank, ranks, batch_size, **options)
        iterator = iter(loader)
        for _ in range(min(steps, len(loader))):
            next(iterator)
        resumed = make(length, rank, ranks, batch_size, **options)
        resumed.load_state_dict(loader.state_dict())

        assert [numbers_in([batch]) for batch in resumed] == [numbers_in([batch]) for batch in iterator]


@given(length=st.integers(1, 60), ranks=st.integers(1, 5), batch_size=st.integers(1, 7), tail=st.sampled_from(["drop", "pad"]))
def test_equal_tails_keep_states_equal_over_epochs(length: int, ranks: int, batch_size: int, tail: str) -> None:
    """With ``drop`` and ``pad`` all ranks make the same steps, and say the same after each, epoch after epoch."""
    if tail == "drop" and length < ranks * batch_size:
        return
    loaders = [make(length, rank, ranks, batch_size, tail=tail, num_epochs=3) for rank in range(ranks)]
    for batches in zip_longest(*loaders):
        assert len({len(batch["x"]) for batch in batches}) == 1
        assert len({json.dumps(loader.state_dict()) for loader in loaders}) == 1


@given(length=st.integers(1, 60), ranks=st.integers(1, 5), batch_size=st.integers(1, 7))
def test_ranks_stripe_the_order_of_one(length: int, ranks: int, batch_size: int) -> None:
    """Step by step, they deliver what a single rank with as large a batch does; only the last step may be short."""
    if length < ranks:
        return
    single = [numbers_in([batch]) for batch in make(length, 0, 1, batch_size * ranks)]
    steps = zip_longest(*(make(length, rank, ranks, batch_size) for rank in range(ranks)))
    together = [numbers_in([batch for batch in step if batch is not None]) for step in steps]

    assert [sorted(step) for step in together] == [sorted(step) for step in single]


def test_a_rank_reads_its_own_records_only() -> None:
    """Each of them once: nothing is read to be dropped."""
    for rank in range(3):
        sampler = IndexSampler(50, shuffle=True, shard=ShardOptions(rank, 3))
        loader = DataLoader(source := Listed(50), sampler=sampler, batch_size=4)
        list(loader)

        assert source.reads == list(sampler)


@pytest.mark.parametrize("tail", ["drop", "pad"])
def test_ranks_that_promise_equal_steps_refuse_a_place_between(tail: str) -> None:
    """Six records delivered by two ranks, four go on: two of them would have a step more. At an epoch's end it is no matter."""
    loader = make(48, 0, 2, 3, tail=tail)
    iterator = iter(loader)
    next(iterator)
    with pytest.raises(StateError, match=r"position 6 .* 4 ranks do not reach in equal steps, as tail='.*' promises"):
        make(48, 1, 4, 3, tail=tail).load_state_dict(loader.state_dict())

    make(48, 1, 3, 4, tail=tail).load_state_dict(loader.state_dict())
    list(iterator)
    make(48, 1, 5, 2, tail=tail).load_state_dict(loader.state_dict())


def test_tails_may_change_with_the_ranks() -> None:
    """What ranks of equal steps left over, uneven ones deliver."""
    loader = make(50, 0, 4, 3, tail="drop")
    found = {number for rank in range(4) for number in numbers_in(list(make(50, rank, 4, 3, tail="drop")))}
    iterator = iter(loader)
    for _ in range(len(loader)):
        next(iterator)
    single = make(50, 0, 1, 8)
    single.load_state_dict(loader.state_dict())

    rest = numbers_in(list(single))
    assert sorted([*found, *rest]) == list(range(50))


def test_evaluation_in_order_is_shared_evenly() -> None:
    """Two ranks of a sequential sampler: every record once, each rank's in order."""
    source = Listed(7)
    shards = [SequentialSampler(7, shard=ShardOptions(rank, 2)) for rank in range(2)]
    found = [numbers_in(list(DataLoader(source, sampler=sampler, batch_size=2))) for sampler in shards]

    assert found == [[0, 2, 4, 6], [1, 3, 5]]


@pytest.mark.parametrize("mixed", [False, True], ids=["shuffle", "mixture"])
def test_four_ranks_with_worker_processes_are_taken_over_by_three_without(mixed: bool, no_leaks: None) -> None:
    """Saved by 4 ranks, each with 3 processes and batches of 32; loaded by 3 in process with batches of 48."""

    def open_ranks(ranks: int, **options: Any) -> list[DataLoader]:
        shards = [ShardOptions(rank, ranks) for rank in range(ranks)]
        if mixed:
            orders: list[Any] = [MixtureSampler([700, 300, 1000], seed=5, shard=shard) for shard in shards]
        else:
            orders = [IndexSampler(2000, shuffle=True, seed=5, shard=shard) for shard in shards]
        return [DataLoader(Listed(2000), sampler=order, **options) for order in orders]

    four = open_ranks(4, batch_size=32, num_workers=3)
    passes = [iter(loader) for loader in four]
    found = [number for _ in range(7) for each in passes for number in numbers_in([next(each)])]
    (state,) = {json.dumps(loader.state_dict()) for loader in four}
    for loader in four:
        loader.close()
    del passes

    three = open_ranks(3, batch_size=48)
    for loader in three:
        loader.load_state_dict(json.loads(state))
    found += [number for loader in three for number in numbers_in(list(loader))]

    assert sorted(found) == list(range(2000))
