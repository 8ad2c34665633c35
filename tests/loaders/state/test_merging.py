"""An epoch that is told in pieces, by changing numbers of ranks and workers, is the whole epoch, each record once."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arrayfeed import DataLoader, Filter, FlatMap, IndexSampler, RandomMap, ShardOptions, StateError, merge_states
from arrayfeed.loaders.state.leftover import Leftover
from arrayfeed.samplers import MixtureSampler, OrderedSampler, RecordRandom
from support.loading import Listed, numbers_in
from support.sampler_cases import CASES

Change = tuple[int, int, int]  # ranks, batch size, steps until the next change
Build = Callable[[ShardOptions], OrderedSampler]

changes = st.tuples(st.integers(1, 5), st.integers(1, 9), st.integers(0, 5))
plans = st.lists(changes, min_size=1, max_size=5)


def several(example: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**example, "part": part} for part in range(example["x"] * 7919 % 4)]


FLOWS: dict[str, Any] = {
    "plain": (),
    "filter": Filter(lambda example: example["x"] * 2654435761 % 7 > 2),
    "flat map": FlatMap(several),
    "both": [Filter(lambda example: example["x"] % 5), FlatMap(several), RandomMap(lambda e, rng: {**e, "r": rng.random()})],
}


def open_rank(build: Build, rank: int, ranks: int, batch_size: int, flow: str, **options: Any) -> DataLoader:
    sampler = build(ShardOptions(rank, ranks))
    options = {"prefetch_factor": 0, **options}
    transforms = FLOWS[flow]
    return DataLoader(Listed(sampler.num_records), sampler=sampler, batch_size=batch_size, transforms=transforms, **options)


def rows_of(batch: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return what tells rows apart: record, part, random number."""
    keys = [key for key in ("x", "part", "r") if key in batch]
    return list(zip(*(batch[key].tolist() for key in keys), strict=True))


def tell(build: Build, plan: list[Change], flow: str, **options: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return the rows of an epoch that is delivered after ``plan``, the rest of it by two ranks; and the last state.

    At each change all ranks have made equally many steps, or have come to the epoch's end.
    """
    found: list[Any] = []
    state: str | None = None
    for ranks, batch_size, steps in [*plan, (2, 3, 1000)]:
        loaders = [open_rank(build, rank, ranks, batch_size, flow, **options) for rank in range(ranks)]
        if state is not None:
            for loader in loaders:
                loader.load_state_dict(json.loads(state))
        iterators = [iter(loader) for loader in loaders]
        for _ in range(steps):
            batches = [batch for batch in (next(iterator, None) for iterator in iterators) if batch is not None]
            found += [row for batch in batches for row in rows_of(batch)]
            if not batches:
                break
        state = json.dumps(merge_all(loaders))
        for loader in loaders:
            loader.close()
        if json.loads(state)["epoch"] > 0:
            break
    assert state is not None
    return found, json.loads(state)


def merge_all(loaders: list[DataLoader]) -> dict[str, Any]:
    states = [json.loads(json.dumps(loader.state_dict())) for loader in loaders]
    if any(state != states[0] for state in states):
        epochs = {state["epoch"] for state in states}
        if not any(state["rank"] for state in states):  # in step, but for those that have ended
            return max(states, key=lambda state: (state["epoch"] == min(epochs), state["position"]))
        return merge_states(states[::-1])  # in any order
    return merge_states(states)


def expected_rows(sampler: OrderedSampler, flow: str) -> Counter[Any]:
    """Return the rows of a whole epoch, the plain way."""
    rows: Counter[Any] = Counter()
    random = RecordRandom(0)
    for place, record in enumerate(sampler.at_places(np.arange(sampler.global_length)).tolist()):
        draw = random.generator(0, place).random()
        if flow == "plain":
            rows[(record,)] += 1
        elif flow == "filter":
            rows[(record,)] += record * 2654435761 % 7 > 2
        else:
            if flow == "both" and record % 5 == 0:
                continue
            generator = random.generator(0, place)
            for part in range(record * 7919 % 4):
                rows[(record, part, generator.random()) if flow == "both" else (record, part)] += 1
        assert 0 <= draw < 1
    return +rows


# -- every sampler, every flow ----------------------------------------------------------------------------------------


@given(
    length=st.integers(5, 80),
    flow=st.sampled_from(["filter", "flat map", "both"]),
    plan=plans,
    prefetch=st.sampled_from([0, 2]),
)
def test_filtered_epochs_are_whole_over_any_changes(length: int, flow: str, plan: list[Change], prefetch: int) -> None:
    """Every output once, with the random numbers of its place, over any chain of merges, to the epoch's end."""

    def build(shard: ShardOptions) -> OrderedSampler:
        return IndexSampler(length, shuffle=True, shard=shard)

    found, state = tell(build, plan, flow, prefetch_factor=prefetch)

    assert Counter(found) == expected_rows(build(ShardOptions()), flow)
    assert (state["epoch"], state["position"]) == (1, 0)
    assert len(json.dumps(state)) < 2000


SHORT = [name for name in CASES if not name.endswith("_long")]


@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize("flow", ["plain", "filter", "flat map"])
def test_every_sampler_is_told_whole(name: str, flow: str) -> None:
    """By 4 ranks in batches of 3, then 3 of 5, then 5 of 2, and the rest: the places of its order, each once."""

    def build(shard: ShardOptions) -> OrderedSampler:
        return CASES[name](shard=shard)

    found, _ = tell(build, [(4, 3, 2), (3, 5, 1), (5, 2, 3)], flow)

    assert Counter(found) == expected_rows(build(ShardOptions()), flow)


MIXTURES: dict[str, dict[str, Any]] = {
    "all": {},
    "weights": {"weights": [0.2, 0.5, 0.3]},
    "shortest": {"weights": [3, 1, 1], "stop": "shortest"},
    "longest": {"weights": [1, 1, 2], "stop": "longest"},
}


@pytest.mark.parametrize("mixing", MIXTURES)
@pytest.mark.parametrize("flow", ["plain", "filter"])
@settings(max_examples=20)
@given(plan=plans)
def test_mixtures_go_on_in_the_order_they_were_laid_out_in(mixing: str, flow: str, plan: list[Change]) -> None:
    """The first ranks' lanes are the epoch's, whatever ranks come later: each of its places is delivered once."""

    def build(shard: ShardOptions) -> OrderedSampler:
        return MixtureSampler([50, 31, 16], shuffle=True, shard=shard, **MIXTURES[mixing])

    found, _ = tell(build, plan, flow)
    first = MixtureSampler([50, 31, 16], shuffle=True, lanes=plan[0][0], **MIXTURES[mixing])

    assert Counter(found) == expected_rows(first, flow)


@pytest.mark.parametrize("flow", ["plain", "filter"])
@pytest.mark.parametrize("name", ["index", "mixture", "block_shuffle", "stratified"])
def test_four_ranks_with_workers_are_followed_by_three_without(name: str, flow: str) -> None:
    """3 workers and batches of 8 in each of 4 ranks, then 3 ranks without workers and batches of 12."""
    found: list[Any] = []
    loaders = [
        open_rank(
            lambda shard: CASES[name](shard=shard), rank, 4, 8, flow, num_workers=3, worker_type="thread", prefetch_factor=1
        )
        for rank in range(4)
    ]
    for loader in loaders:
        found += rows_of(next(iter(loader)))
    state = json.loads(json.dumps(merge_all(loaders)))
    for rank in range(3):
        resumed = open_rank(lambda shard: CASES[name](shard=shard), rank, 3, 12, flow, num_workers=0)
        resumed.load_state_dict(state)
        found += [row for batch in resumed for row in rows_of(batch)]

    assert Counter(found) == expected_rows(CASES[name](), flow)


def test_a_mixture_of_new_weights_goes_on_in_a_new_epoch() -> None:
    """Each source with the record after its last: over both epochs a source's records come in its own order."""
    old = DataLoader(Listed(97), sampler=MixtureSampler([50, 47], [1, 1], shuffle=True), batch_size=10)
    iterator = iter(old)
    seen = numbers_in([next(iterator) for _ in range(3)])
    new = DataLoader(Listed(97), sampler=MixtureSampler([50, 47], [4, 1], shuffle=True), batch_size=10)
    new.load_state_dict(old.state_dict())
    assert new.state_dict()["epoch"] == 1
    seen += numbers_in([next(iter(new)), *()])

    for source in range(2):
        stream = MixtureSampler([50, 47], [1, 1], shuffle=True, num_epochs=None)
        own = [record for record in stream.block(0, 400).tolist() if (record >= 50) == source]
        ours = [record for record in seen if (record >= 50) == source]
        assert ours == own[: len(ours)]


def take_steps(loaders: list[DataLoader], state: dict[str, Any] | None, steps: int) -> tuple[list[int], dict[str, Any]]:
    """Return what ranks deliver in so many steps from a state on, and their state then."""
    found: list[int] = []
    for loader in loaders:
        if state is not None:
            loader.load_state_dict(state)
        found += numbers_in(list(islice(loader, steps)))
    return found, merge_all(loaders)


@given(length=st.integers(6, 80), plan=plans, after=plans)
def test_ranks_in_step_take_up_what_others_left(length: int, plan: list[Change], after: list[Change]) -> None:
    """A merged state in loaders that filter no more: every record not yet passed comes once, over further changes."""

    def build(shard: ShardOptions) -> OrderedSampler:
        return IndexSampler(length, shuffle=True, shard=shard)

    state: dict[str, Any] | None = None
    filtered: list[int] = []
    for ranks, batch_size, steps in plan:
        found, state = take_steps([open_rank(build, rank, ranks, batch_size, "filter") for rank in range(ranks)], state, steps)
        filtered += found
    assert state is not None
    if state["epoch"]:
        return
    expected = Leftover(state["position"], tuple(map(tuple, state["levels"])))
    places = expected.places(np.arange(expected.count(length)))
    rest: list[int] = []
    for ranks, batch_size, steps in [*after, (1, 10, 100)]:
        found, state = take_steps([open_rank(build, rank, ranks, batch_size, "plain") for rank in range(ranks)], state, steps)
        rest += found
        if state["epoch"]:
            break

    assert sorted(rest) == sorted(build(ShardOptions()).at_places(places).tolist())
    assert not set(rest) & set(filtered)
    assert {*rest, *filtered} >= {number for number in range(length) if number * 2654435761 % 7 > 2}


# -- after the epoch, and within one world ----------------------------------------------------------------------------


def test_after_a_merged_epoch_all_is_as_ever() -> None:
    """The next epochs are whole, in the same order as of a loader that was never stopped; set back, so is the merged one."""

    def build(shard: ShardOptions) -> OrderedSampler:
        return IndexSampler(60, shuffle=True, shard=shard)

    loaders = [open_rank(build, rank, 3, 4, "filter") for rank in range(3)]
    for steps, loader in enumerate(loaders):
        iterator = iter(loader)
        for _ in range(steps + 1):
            next(iterator, None)
    merged = merge_states([loader.state_dict() for loader in loaders])
    for rank in range(2):
        resumed = open_rank(build, rank, 2, 5, "filter")
        resumed.load_state_dict(merged)
        list(resumed)
        fresh = open_rank(build, rank, 2, 5, "filter")
        list(fresh)
        assert numbers_in(list(resumed)) == numbers_in(list(fresh))
        resumed.set_epoch(0)
        fresh.set_epoch(0)
        assert numbers_in(list(resumed)) == numbers_in(list(fresh))


@settings(max_examples=40)
@given(ranks=st.integers(1, 4), batch_size=st.integers(1, 6), steps=st.integers(0, 12), other=st.integers(1, 6))
def test_a_ranks_own_state_loads_where_it_was_saved(ranks: int, batch_size: int, steps: int, other: int) -> None:
    """Without merging, on the same rank of as many, with any batch size: the very rows that would have come."""

    def build(shard: ShardOptions) -> OrderedSampler:
        return IndexSampler(50, shuffle=True, shard=shard)

    for rank in range(ranks):
        loader = open_rank(build, rank, ranks, batch_size, "both", num_epochs=2)
        iterator = iter(loader)
        for _ in range(steps):
            next(iterator, None)
        state = json.loads(json.dumps(loader.state_dict()))
        rest = [row for batch in iterator for row in rows_of(batch)]
        if state["epoch"] == 2:
            continue
        resumed = open_rank(build, rank, ranks, other, "both", num_epochs=2)
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state
        found = [row for batch in resumed for row in rows_of(batch)]
        assert found == rest
        assert len(json.dumps(state)) < 2000


def test_a_single_ranks_state_needs_no_merging() -> None:
    """One rank is all ranks: its state loads on any number of them."""
    loader = open_rank(lambda shard: IndexSampler(60, shuffle=True, shard=shard), 0, 1, 7, "flat map")
    found = rows_of(next(iter(loader)))
    for rank in range(3):
        resumed = open_rank(lambda shard: IndexSampler(60, shuffle=True, shard=shard), rank, 3, 4, "flat map")
        resumed.load_state_dict(loader.state_dict())
        found += [row for batch in resumed for row in rows_of(batch)]

    assert Counter(found) == expected_rows(IndexSampler(60, shuffle=True), "flat map")


class Reversed:
    """A sampler of somebody else's: what the protocol asks for, by way of one of ours, backwards within each epoch."""

    def __init__(self, inner: IndexSampler) -> None:
        self._inner = inner

    num_records = property(lambda self: self._inner.num_records)
    epoch = property(lambda self: self._inner.epoch)
    num_epochs = property(lambda self: self._inner.num_epochs)
    epoch_length = property(lambda self: self._inner.epoch_length)
    global_length = property(lambda self: self._inner.global_length)
    shard = property(lambda self: self._inner.shard)
    fingerprint = "reversed"

    def __copy__(self) -> Reversed:
        return Reversed(copy.copy(self._inner))

    def __len__(self) -> int:
        return len(self._inner)

    def __getitem__(self, position: int) -> int:
        return int(self.num_records - 1 - self._inner[position])

    def __iter__(self) -> Any:
        return (self[position] for position in range(len(self)))

    def block(self, start: int, stop: int, *, with_mask: bool = False) -> Any:
        return self.num_records - 1 - self._inner.block(start, stop)

    def epoch_of(self, position: int) -> int:
        return self._inner.epoch_of(position)

    def set_epoch(self, epoch: int) -> None:
        self._inner.set_epoch(epoch)

    def with_shard(self, shard: ShardOptions) -> Reversed:
        return Reversed(self._inner.with_shard(shard))

    def identity(self) -> dict[str, object]:
        return {"kind": "reversed", **self._inner.identity()}

    def state_dict(self, position: int | None = None) -> dict[str, object]:
        return self._inner.state_dict(position)

    def load_state_dict(self, state: Any) -> None:
        self._inner.load_state_dict(state)


@pytest.mark.parametrize("on_error", ["raise", "substitute"])
def test_a_sampler_of_ones_own_is_merged_too(on_error: Any) -> None:
    """What the protocol promises is enough, to substitute records as well."""

    def fail_at_nine(example: dict[str, Any]) -> dict[str, Any]:
        if example["x"] == 9 and on_error == "substitute":
            raise ValueError
        return example

    def open_reversed(rank: int, ranks: int) -> DataLoader:
        sampler: Any = Reversed(IndexSampler(50, shuffle=True, shard=ShardOptions(rank, ranks)))
        transforms = [fail_at_nine, FLOWS["filter"]]
        return DataLoader(Listed(50), sampler=sampler, batch_size=4, transforms=transforms, on_error=on_error)

    loaders = [open_reversed(rank, 3) for rank in range(3)]
    found, state = take_steps(loaders, None, 2)
    for loader in (open_reversed(rank, 2) for rank in range(2)):
        loader.load_state_dict(json.loads(json.dumps(state)))
        found += numbers_in(list(loader))
        loaders.append(loader)

    kept = {number for number in range(50) if number * 2654435761 % 7 > 2}
    assert 9 in kept
    if on_error == "raise":
        assert sorted(found) == sorted(kept)
    else:
        assert set(found) == kept - {9}
        assert sum(len(loader.skipped) for loader in loaders) == 1


def test_states_stay_small_on_many_ranks() -> None:
    """One rank's under 400 bytes; merged, 64 ranks' that stand apart in the middle of records under 2 kB."""
    loaders = [
        open_rank(lambda s: IndexSampler(10**6, shuffle=True, shard=s), rank, 64, 5, "both", prefetch_factor=0)
        for rank in range(64)
    ]
    for loader in loaders:
        iterator = iter(loader)
        for _ in range(10):
            next(iterator)
    states = [loader.state_dict() for loader in loaders]
    merged = merge_states(states)

    assert max(len(json.dumps(state)) for state in states) < 400
    assert merged["levels"] and len(merged["begun"]) > 10
    assert len(json.dumps(merged)) < 2000


# -- what is refused --------------------------------------------------------------------------------------------------


def two_ranks(steps: tuple[int, int] = (1, 2), num_epochs: int = 1, flow: str = "filter") -> list[dict[str, Any]]:
    states = []
    for rank in range(2):
        loader = open_rank(lambda s: IndexSampler(60, shuffle=True, shard=s), rank, 2, 4, flow, num_epochs=num_epochs)
        iterator = iter(loader)
        for _ in range(steps[rank]):
            next(iterator)
        states.append(loader.state_dict())
    return states


def test_an_unmerged_state_is_refused_by_other_ranks_and_names_the_cure() -> None:
    """By another number of ranks, by another rank, and by a loader whose ranks go in step."""
    one, _ = two_ranks()
    for rank, ranks, flow in ((0, 3, "filter"), (1, 2, "filter"), (0, 2, "plain"), (0, 1, "plain")):
        loader = open_rank(lambda s: IndexSampler(60, shuffle=True, shard=s), rank, ranks, 4, flow)
        before = loader.state_dict()
        with pytest.raises(StateError, match=r"rank 0's of 2 alone.*arrayfeed\.merge_states"):
            loader.load_state_dict(one)
        assert loader.state_dict() == before


def test_states_that_do_not_belong_together_are_not_merged() -> None:
    """Says what is missing, twice, or different."""
    one, two = two_ranks()
    other = {**two, "num_records": 61}
    ahead = two_ranks((1, 7), num_epochs=2)[1]
    assert ahead["epoch"] == 1
    for states, message in [
        ([], "there are no states"),
        ([one], r"one state of each of 2 ranks is needed; there are 1, of the ranks \[0\]"),
        ([one, one], r"there are 2, of the ranks \[0, 0\]"),
        ([one, two, two], "there are 3"),
        ([one, other], "num records was 60, here it is 61"),
        ([one, ahead], r"different steps \(epochs \[0, 1\]\)"),
    ]:
        with pytest.raises(StateError, match=message):
            merge_states(states)


def test_equal_states_are_merged_to_what_they_are() -> None:
    """Calling it is never wrong: of ranks in step, at an epoch's start, of a single rank."""
    plain = two_ranks(flow="plain", steps=(1, 1))
    assert merge_states(plain) == plain[0]
    loader = open_rank(lambda s: IndexSampler(60, shard=s), 0, 1, 4, "filter")
    assert merge_states([loader.state_dict()]) == loader.state_dict()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"levels": 3}, "'levels' is 3"),
        ({"levels": [[]]}, "'levels' is"),
        ({"levels": [[-1, 2]]}, "'levels' is -1"),
        ({"begun": [[1, 2, 3]]}, "a list of pairs"),
        ({"rank": [2, 2, 0, 0, 3]}, "rank is 2 of 2"),
        ({"rank": [0, 2]}, r"'rank' is \[0, 2\]; it must be a list of five or six numbers"),
        ({"rank": [0, 2, -1, 0, 3]}, "'rank' is -1"),
        ({"rank": "0"}, "'rank' is '0'"),
    ],
    ids=str,
)
def test_a_damaged_merged_state_is_refused(change: dict[str, Any], message: str) -> None:
    """Naming the field."""
    merged = merge_states(two_ranks())
    loader = open_rank(lambda s: IndexSampler(60, shuffle=True, shard=s), 0, 2, 4, "filter")
    with pytest.raises(StateError, match=message):
        loader.load_state_dict(merged | change)


def test_a_state_between_two_outputs_needs_the_transforms() -> None:
    """A loader without them would lose the others, or repeat one."""
    loader = open_rank(lambda s: IndexSampler(60, shard=s), 0, 1, 1, "flat map")
    iterator = iter(loader)
    while not loader.state_dict()["begun"]:
        next(iterator)
    plain = open_rank(lambda s: IndexSampler(60, shard=s), 0, 1, 1, "plain")
    with pytest.raises(StateError, match="between two examples that a FlatMap or pack made of one record"):
        plain.load_state_dict(loader.state_dict())


def test_another_seed_of_random_transforms_is_refused() -> None:
    """With a sampler of one's own the loader's seed is that of its random numbers."""
    sampler = IndexSampler(20)
    noisy = RandomMap(lambda example, rng: {**example, "r": rng.random()})
    state = DataLoader(Listed(20), sampler=sampler, seed=1, transforms=noisy).state_dict()

    DataLoader(Listed(20), sampler=sampler, seed=1, transforms=noisy).load_state_dict(state)
    DataLoader(Listed(20), sampler=sampler, seed=2).load_state_dict(state)
    with pytest.raises(StateError, match="seed was 1, here it is 2"):
        DataLoader(Listed(20), sampler=sampler, seed=2, transforms=noisy).load_state_dict(state)
