"""A batch sampler's batches, of sizes of their own: the same ones for any workers, with exact state."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arrayfeed import DataLoader, Filter, IndexSampler, ShardOptions, StateError, collate, merge_states, pad
from arrayfeed.samplers import BatchSampler, BucketBatchSampler
from support.loading import Listed, numbers_in
from support.sampler_cases import BATCH_CASES
from support.texts import read_tokens

LENGTHS = np.random.default_rng(3).integers(1, 60, 97)
SMALL = [name for name in BATCH_CASES if name != "large_batches"]


def buckets(rank: int = 0, ranks: int = 1, **options: Any) -> BucketBatchSampler:
    given: dict[str, Any] = {"boundaries": [10, 30], "batch_sizes": [8, 4, 2], "shard": ShardOptions(rank, ranks)} | options
    return BucketBatchSampler(LENGTHS, **given)


def load(batches: BatchSampler, **options: Any) -> DataLoader:
    return DataLoader(Listed(batches.sampler.num_records), batch_sampler=batches, **({"prefetch_factor": 0} | options))


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize(
    "workers", [{}, {"prefetch_factor": 2}, {"num_workers": 2, "prefetch_factor": 2, "worker_type": "thread"}], ids=str
)
def test_batches_are_the_samplers(name: str, workers: dict[str, Any]) -> None:
    """One by one, over two epochs; ``len`` counts them."""
    loader = load(BATCH_CASES[name](), num_epochs=2, **workers)
    expected = list(BATCH_CASES[name](num_epochs=2))

    assert [batch["x"].tolist() for batch in loader] == expected
    assert len(loader) == len(expected)
    loader.close()


def test_worker_processes_make_the_same_batches() -> None:
    """Sizes change from batch to batch, padded to the longest of each."""
    tokens = read_tokens()
    sampler = BucketBatchSampler([len(text) for text in tokens], boundaries=[100, 400], batch_sizes=[16, 8, 4], seed=2)
    found = []
    for num_workers in (0, 2):
        loader = DataLoader(tokens, batch_sampler=sampler, collate_fn=collate(pad()), num_workers=num_workers)
        found.append([batch.tolist() for batch in loader])
        loader.close()
    expected = [
        [[*tokens[index].tolist(), *[0] * (max(len(tokens[i]) for i in batch) - len(tokens[index]))] for index in batch]
        for batch in sampler
    ]

    assert found == [expected, expected]


@pytest.mark.parametrize("name", SMALL)
@settings(max_examples=15)
@given(steps=st.integers(0, 40), again=st.integers(0, 9))
def test_states_are_exact_to_the_batch(name: str, steps: int, again: int) -> None:
    """Stopped, resumed, stopped and resumed: the batches that would have come, over two epochs."""
    whole = [batch["x"].tolist() for batch in load(BATCH_CASES[name](), num_epochs=2)]
    found: list[Any] = []
    state: dict[str, Any] | None = None
    for count in (steps, again, 1000):
        loader = load(BATCH_CASES[name](), num_epochs=2)
        if state is not None:
            loader.load_state_dict(json.loads(json.dumps(state)))
        iterator = iter(loader)
        found += [next(iterator)["x"].tolist() for _ in range(min(count, len(whole) - len(found)))]
        state = loader.state_dict()
        assert len(json.dumps(state)) < 2000

    assert found == whole


@pytest.mark.parametrize("drop_last", [False, True])
def test_ranks_of_a_step_say_the_same_and_others_go_on(drop_last: bool) -> None:
    """Four ranks, whose batches are of one bucket at each step; three go on in their order; every record once."""
    for steps in range(5):
        loaders = [load(buckets(rank, 4, drop_last=drop_last)) for rank in range(4)]
        batches = []
        for loader in loaders:
            iterator = iter(loader)
            batches += [next(iterator) for _ in range(steps)]
        (state,) = {json.dumps(loader.state_dict()) for loader in loaders}
        for rank in range(3):
            resumed = load(buckets(rank, 3, drop_last=drop_last))
            resumed.load_state_dict(json.loads(state))
            batches += resumed

        assert Counter(numbers_in(batches)) == Counter(
            buckets(0, 1, lanes=4, drop_last=drop_last)
            .sampler.block(0, len(buckets(0, 1, lanes=4, drop_last=drop_last).sampler))
            .tolist()
        )
        assert drop_last or Counter(numbers_in(batches)) == Counter(range(97))


def test_ranks_that_batches_were_not_laid_out_for_keep_their_own_states() -> None:
    """Three ranks of an order for four: each goes on where it was; merging is refused where they stand apart."""
    for steps in range(1, 6):
        states, rest = [], []
        for rank in range(3):
            loader = load(buckets(rank, 3, lanes=4))
            iterator = iter(loader)
            for _ in range(steps):
                next(iterator)
            states.append(json.loads(json.dumps(loader.state_dict())))
            rest.append([batch["x"].tolist() for batch in iterator])
        for rank in range(3):
            resumed = load(buckets(rank, 3, lanes=4))
            resumed.load_state_dict(states[rank])
            assert [batch["x"].tolist() for batch in resumed] == rest[rank]
            if rank:
                with pytest.raises(StateError, match=r"merge_states"):
                    load(buckets(0, 3, lanes=4)).load_state_dict(states[rank])
        merged = merge_states(states)
        left = sorted(number for batches in rest for batch in batches for number in batch)
        if merged["levels"]:
            with pytest.raises(StateError, match="batches of like length cannot be cut from what ranks"):
                load(buckets(0, 2, lanes=4)).load_state_dict(merged)
        else:
            found = []
            for rank in range(2):
                resumed = load(buckets(rank, 2, lanes=4))
                resumed.load_state_dict(merged)
                found += numbers_in(list(resumed))
            assert sorted(found) == left


def test_a_substitute_stands_in_the_very_batch() -> None:
    """Sizes stay what they are; to skip is refused, as no batch could be kept full."""

    def refuse(example: dict[str, Any]) -> dict[str, Any]:
        if example["x"] == 42:
            raise ValueError
        return example

    whole = [batch["x"].tolist() for batch in load(buckets())]
    found = [batch["x"].tolist() for batch in load(buckets(), transforms=refuse, on_error="substitute")]

    assert [len(batch) for batch in found] == [len(batch) for batch in whole]
    assert sum(a != b for one, other in zip(found, whole, strict=True) for a, b in zip(one, other, strict=True)) == 1
    for options in ({"on_error": "skip"}, {"transforms": Filter(bool)}):
        with pytest.raises(ValueError, match="batches of like length cannot be kept full"):
            load(buckets(), **options)


def test_what_a_batch_sampler_decides_is_not_given_beside_it() -> None:
    """Two answers to one question are refused; so is somebody else's batch sampler."""
    options: list[dict[str, Any]] = [{"batch_size": 2}, {"shuffle": True}, {"drop_last": True}, {"sampler": IndexSampler(97)}]
    for option in options:
        with pytest.raises(ValueError, match="batch_sampler decides itself"):
            load(buckets(), **option)
    with pytest.raises(TypeError, match="batch_sampler must be one of arrayfeed's, got list"):
        DataLoader(Listed(4), batch_sampler=[[0, 1], [2, 3]])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the sampler is made for 97 records, the source has 4"):
        DataLoader(Listed(4), batch_sampler=buckets())
