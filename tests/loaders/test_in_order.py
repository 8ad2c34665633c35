"""``in_order=False``: batches come as they are done, the same ones, and the state is exact all the same."""

from __future__ import annotations

import json
import time
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arrayfeed import DataLoader, Filter, IndexSampler, RandomMap, ShardOptions, StateError, merge_states
from arrayfeed.loaders.plan import BatchPlan, Cursor
from arrayfeed.samplers import BucketBatchSampler
from support.loading import Listed
from support.worker_cases import Numbers, Stall

pytestmark = pytest.mark.usefixtures("no_leaks")


def dawdle(example: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Add a random number, and take a while that has nothing to do with the order."""
    time.sleep(0.004 * rng.random() ** 4)
    return {**example, "r": rng.random()}


def open_rank(length: int, rank: int = 0, ranks: int = 1, batch_size: int = 3, **options: Any) -> DataLoader:
    sampler = IndexSampler(length, shuffle=True, shard=ShardOptions(rank, ranks))
    usual: dict[str, Any] = {"num_workers": 3, "worker_type": "thread", "in_order": False, "transforms": RandomMap(dawdle)}
    return DataLoader(Listed(length), sampler=sampler, batch_size=batch_size, **usual | options)


def tell(batches: Any) -> list[tuple[Any, ...]]:
    """Return each batch as something to compare and count."""
    return [tuple(zip(batch["x"].tolist(), batch["r"].tolist(), strict=True)) for batch in batches]


def rows(batches: Any) -> Counter[Any]:
    return Counter(row for batch in tell(batches) for row in batch)


def plain(length: int, **options: Any) -> DataLoader:
    return open_rank(length, **{"num_workers": 0, "in_order": True} | options)


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_a_slow_record_is_overtaken_by_the_rest_of_its_epoch(kind: Any, tmp_path: Path) -> None:
    """All other batches of the epoch are delivered while a worker is stuck with the first; those of the next epoch are not."""
    release = tmp_path / "release"
    loader = DataLoader(
        Numbers(48, width=1 << 17),
        batch_size=2,
        num_workers=2,
        worker_type=kind,
        prefetch_factor=2,
        in_order=False,
        num_epochs=2,
        transforms=Stall(1, release),
    )
    iterator = iter(loader)
    overtaking = [int(batch["x"][0, 0]) for batch in islice(iterator, 23)]
    state = loader.state_dict()
    release.touch()
    rest = [int(batch["x"][0, 0]) for batch in iterator]
    resumed = DataLoader(Numbers(48, width=1 << 17), batch_size=2, num_epochs=2)
    resumed.load_state_dict(json.loads(json.dumps(state)))

    assert sorted(overtaking) == [*range(2, 48, 2)]
    assert rest[0] == 0
    assert sorted(rest[1:]) == [*range(0, 48, 2)]
    assert state["ahead"] == [[0, 0, 2, 48]]
    assert [int(batch["x"][0, 0]) for batch in resumed] == [0, *range(0, 48, 2)]
    loader.close()


@pytest.mark.parametrize("options", [{}, {"worker_type": "process"}, {"num_workers": 0}, {"num_workers": "auto"}], ids=str)
def test_batches_are_those_of_a_loader_in_order(options: dict[str, Any]) -> None:
    """Values and random numbers too, epoch for epoch, whoever makes them; without workers they come in order."""
    loader, expected = open_rank(60, num_epochs=2, **options), tell(plain(60, num_epochs=2))
    for _ in range(2):
        found = tell(loader)
        assert [sorted(found[:20]), sorted(found[20:])] == [sorted(expected[:20]), sorted(expected[20:])]
        assert found == expected or options.get("num_workers") != 0
        loader.set_epoch(0)
    loader.close()


changes = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 6), st.integers(1, 5), st.booleans()), min_size=1, max_size=4)


@settings(max_examples=25)
@given(length=st.integers(4, 70), plan=changes)
def test_every_record_comes_once_over_any_changes(length: int, plan: list[tuple[int, int, int, bool]]) -> None:
    """Ranks, batch sizes and whether in order change at any step: what ranks have left is merged, or it is one rank's own."""
    found, state = Counter[Any](), plain(length).state_dict()
    for ranks, steps, batch_size, in_order in plan:
        states = []
        for rank in range(ranks):
            loader = open_rank(length, rank, ranks, batch_size, in_order=in_order)
            loader.load_state_dict(state)
            iterator = iter(loader)
            found += rows(islice(iterator, steps))
            states.append(json.loads(json.dumps(loader.state_dict())))
            assert len(json.dumps(states[-1])) < 2000
        if not any(state["rank"] or state["levels"] for state in states) and len({state["epoch"] for state in states}) == 2:
            break  # ranks in step would have stopped with the first that came to the epoch's end; now all have
        state = merge_states(states)
        if state["epoch"]:
            break
    else:
        last = plain(length, batch_size=4)
        last.load_state_dict(state)
        found += rows(last)

    assert found == rows(plain(length))


def test_a_ranks_own_state_loads_where_it_was_saved() -> None:
    """With another number of workers, again and again; its batches are the very ones that were left."""
    for rank in range(3):
        expected = sorted(tell(plain(200, rank=rank, ranks=3, num_epochs=2)))
        found: list[Any] = []
        loader = open_rank(200, rank, 3, num_epochs=2)
        while True:
            iterator = iter(loader)
            taken = tell(islice(iterator, 7))
            found += taken
            state = json.loads(json.dumps(loader.state_dict()))
            if len(taken) < 7:
                break
            loader = open_rank(200, rank, 3, num_epochs=2, num_workers=2 + len(found) % 3)
            loader.load_state_dict(state)
            assert loader.state_dict() == state
        assert sorted(found) == expected


def test_an_error_comes_as_soon_as_it_is_known_and_loses_nothing() -> None:
    """The loop may go on with the next ``next``: the failed batch is tried again, and those delivered do not come again."""
    failed: list[int] = []

    def fail_once(example: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        if example["x"] % 9 == 4 and example["x"] not in failed:
            failed.append(example["x"])
            raise ValueError(f"record {example['x']}")
        return dawdle(example, rng)

    iterator = iter(open_rank(60, transforms=RandomMap(fail_once)))
    found, errors = [], 0
    while True:
        try:
            found.append(next(iterator))
        except ValueError:
            errors += 1
        except StopIteration:
            break

    assert 1 <= errors <= len(failed)
    assert sorted(tell(found)) == sorted(tell(plain(60)))


def test_masks_and_short_ends_stay_where_they_belong() -> None:
    """What pads is masked; a short last batch comes at any time, or not at all."""
    sampler = IndexSampler(20, shuffle=True, shard=ShardOptions(2, 3), tail="pad", batch_size=4)
    options: dict[str, Any] = {"sampler": sampler, "batch_size": 4, "mask": "counts", "transforms": RandomMap(dawdle)}
    ordered = [(*batch["x"].tolist(), *batch["counts"].tolist()) for batch in DataLoader(Listed(20), **options)]
    loose = DataLoader(Listed(20), **options, in_order=False, num_workers=3, worker_type="thread")
    assert sorted((*batch["x"].tolist(), *batch["counts"].tolist()) for batch in loose) == sorted(ordered)

    for drop_last in (False, True):
        assert sorted(tell(open_rank(50, batch_size=8, drop_last=drop_last))) == sorted(
            tell(plain(50, batch_size=8, drop_last=drop_last))
        )


@given(length=st.integers(1, 40), batch_size=st.integers(1, 6), drop_last=st.booleans(), data=st.data())
def test_a_plan_cuts_what_was_not_delivered(length: int, batch_size: int, drop_last: bool, data: st.DataObject) -> None:
    """Batch for batch as it would have from the start, whichever have come, in runs of any length."""
    plan = BatchPlan(length, batch_size, drop_last)
    spans = [(run.bounds[0], run.bounds[1]) for run in plan.cut(Cursor(0, 0), 1, lambda: 1)]
    chosen = data.draw(st.lists(st.sampled_from(spans), unique=True)) if spans else []
    place = Cursor(0, 0)
    for start, stop in chosen:
        place = place.and_then(0, start, stop)
    runs = [*plan.cut(place, 1, lambda: 3)] if plan.normalise(place).epoch == 0 else []

    assert [pair for run in runs for pair in zip(run.bounds, run.bounds[1:], strict=False)] == sorted({*spans} - {*chosen})
    assert [run.ends_epoch for run in runs] == [False] * (len(runs) - 1) + [True] * bool(runs)


def test_a_gap_of_no_whole_batches_is_refused() -> None:
    """By ranks of several; merged or alone, any batch size goes on."""
    state = open_rank(60, 0, 2).state_dict() | {"rank": [0, 2, 3, 0, 30], "ahead": [[9, 12]]}
    open_rank(60, 0, 2, batch_size=2).load_state_dict(state)
    with pytest.raises(StateError, match=r"6 positions still to come .* no whole batches of 4"):
        open_rank(60, 0, 2, batch_size=4).load_state_dict(state)
    with pytest.raises(StateError, match=r"merge_states"):
        open_rank(60, 0, 2, in_order=True).load_state_dict(state)
    with pytest.raises(StateError, match=r"in_order=False.*merge_states"):
        open_rank(60, 0, 2, in_order=True, transforms=Filter(bool)).load_state_dict(state)


@pytest.mark.parametrize(
    "ahead", [3, [[1]], [[3, 5]], [[9, 9]], [[9, 12], [11, 14]], [[5, 0, 9, 12]], [[0, 0, 9, 12]]], ids=str
)
def test_a_damaged_state_is_refused(ahead: Any) -> None:
    """Naming the field."""
    state = open_rank(60, 0, 2).state_dict() | {"rank": [0, 2, 3, 0, 30], "ahead": ahead}
    with pytest.raises(StateError, match=r"the state's 'ahead' is "):
        open_rank(60, 0, 2).load_state_dict(state)


def test_what_cannot_come_out_of_order_is_refused() -> None:
    """Batches that depend on those before, that have sizes of their own, or that are asked for by number."""
    with pytest.raises(ValueError, match="in_order=False delivers batches as they are made; with Filter"):
        DataLoader(range(5), transforms=Filter(bool), in_order=False)
    with pytest.raises(ValueError, match="batches of one size"):
        batches = BucketBatchSampler([1, 2, 3], boundaries=[2], batch_sizes=[1, 2])
        DataLoader(range(3), batch_sampler=batches, in_order=False)
    pytest.importorskip("keras")
    from arrayfeed.loaders.keras import as_keras

    with pytest.raises(ValueError, match="in_order=True"):
        as_keras(DataLoader(range(5), in_order=False))
