"""Records that fail are left out, replaced or raised: the same ones for any workers, batches full, all of them listed."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import arrayfeed
from arrayfeed import SKIP, BatchMap, DataLoader, RandomMap, ShardOptions, Skipped, TooManyErrors
from arrayfeed.samplers import IndexSampler, SubsetSampler
from support.loading import Listed, numbers_in, write_small

BAD = {3, 10, 11, 29}


class Broken(Listed):
    """A source of 40, some of which cannot be read."""

    def __init__(self, bad: set[int] | frozenset[int] = frozenset({3, 29}), length: int = 40) -> None:
        super().__init__(length)
        self._bad = bad

    def __getitem__(self, index: int) -> dict[str, Any]:
        if index in self._bad:
            raise OSError(f"cannot read {index}")
        return super().__getitem__(index)


class Columnar(Broken):
    """The same with whole columns."""

    def read_batch(self, indices: Any) -> dict[str, Any]:
        rows = [self[int(index)] for index in indices]
        return {"x": np.array([row["x"] for row in rows], np.int32), "y": np.stack([row["y"] for row in rows])}


def check(example: dict[str, Any]) -> dict[str, Any]:
    if example["x"] in (10, 11):
        raise ValueError(f"cannot use {example['x']}")
    return example


def make(on_error: Any, **options: Any) -> DataLoader:
    given: dict[str, Any] = {"transforms": check, "batch_size": 7, "shuffle": True, "seed": 3} | options
    return DataLoader(Broken(), on_error=on_error, **given)


def shuffled() -> list[int]:
    return list(IndexSampler(40, shuffle=True, seed=3))


WORKERS: list[dict[str, Any]] = [
    {"num_workers": 0},
    {"num_workers": 0, "prefetch_factor": 0},
    {"num_workers": 2},
    {"num_workers": 3, "worker_type": "thread"},
]


@pytest.mark.parametrize("workers", WORKERS, ids=str)
def test_skipped_records_are_left_out_and_batches_stay_full(workers: dict[str, Any]) -> None:
    """Unreadable ones and those that a transform refuses; the others in their order."""
    loader = make("skip", **workers)
    batches = list(loader)
    loader.close()

    assert numbers_in(batches) == [x for x in shuffled() if x not in BAD]
    assert [len(batch["x"]) for batch in batches] == [7, 7, 7, 7, 7, 1]
    assert [one.index for one in loader.skipped] == [x for x in shuffled() if x in BAD]
    place = shuffled().index(10)
    assert loader.skipped[[one.index for one in loader.skipped].index(10)] == Skipped(
        10, 0, place, "element 10 of a Broken of 40", "ValueError: cannot use 10", "nothing"
    )
    assert str(loader.skipped[-1]).endswith("nothing came in its place")


@pytest.mark.parametrize("workers", WORKERS, ids=str)
def test_substitutes_are_the_same_for_any_workers_and_ranks(workers: dict[str, Any]) -> None:
    """Another record of the epoch, by a hash of its place, in the very place of the one that failed."""
    loader = make("substitute", **workers)
    found = numbers_in(list(loader))
    assert len(loader) == 6
    loader.close()
    expected = numbers_in(list(make("substitute", batch_size=1)))

    assert found == expected
    assert {x for x, own in zip(found, shuffled(), strict=True) if x != own}.isdisjoint(BAD)
    assert [own for x, own in zip(found, shuffled(), strict=True) if x != own] == [x for x in shuffled() if x in BAD]
    assert [one.instead for one in loader.skipped] == [
        f"record {x}" for x, own in zip(found, shuffled(), strict=True) if x != own
    ]
    for rank in range(3):
        sampler = IndexSampler(40, shuffle=True, seed=3, shard=ShardOptions(rank, 3))
        ranked = make("substitute", sampler=sampler, shuffle=False, num_workers=rank, worker_type="thread")
        assert numbers_in(list(ranked)) == found[rank::3]


def test_substitutes_come_from_the_samplers_own_records() -> None:
    """Never from those that it leaves out: a training split takes nothing from a test split."""
    sampler = SubsetSampler([3, 5, 7, 9, 29], num_records=40)
    batches = list(make("substitute", sampler=sampler, shuffle=False))

    assert set(numbers_in(batches)) <= {5, 7, 9}
    assert len(numbers_in(batches)) == 5


def test_substitutes_keep_random_numbers_and_state() -> None:
    """The record's place names the numbers; the state is that of a loader in which nothing fails."""
    noise = RandomMap(lambda example, rng: {**example, "r": rng.random()})
    loader, whole = (
        make("substitute", transforms=[check, noise]),
        DataLoader(Listed(40), batch_size=7, shuffle=True, seed=3, transforms=noise),
    )
    for batch, other in zip(loader, whole, strict=True):
        assert batch["r"].tolist() == other["r"].tolist()
        assert loader.state_dict()["position"] == whole.state_dict()["position"]


def test_a_function_decides() -> None:
    """It gets the error and the record, and gives an example, which is not transformed any more, or SKIP."""
    seen: list[tuple[str, int]] = []

    def decide(error: Exception, index: int) -> Any:
        seen.append((type(error).__name__, index))
        return SKIP if index % 2 else {"x": -index, "y": np.zeros(3, np.float32)}

    loader = make(decide)
    expected = [-x if x in BAD else x for x in shuffled() if x not in {3, 11, 29}]

    assert numbers_in(list(loader)) == expected
    assert sorted(seen) == [("OSError", 3), ("OSError", 29), ("ValueError", 10), ("ValueError", 11)]
    assert {one.index: one.instead for one in loader.skipped} == {
        3: "nothing",
        10: "a value of on_error",
        11: "nothing",
        29: "nothing",
    }


def test_a_function_that_raises_is_heard() -> None:
    """With its own error, in its turn."""

    def decide(error: Exception, index: int) -> Any:
        raise RuntimeError(f"no way around {index}") from error

    with pytest.raises(RuntimeError, match="no way around 3") as caught:
        list(make(decide, shuffle=False))
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize("on_error", ["skip", "substitute"])
def test_columns_lose_only_what_is_damaged(on_error: str) -> None:
    """A source of columns is read whole where it can be, and gives the dtypes that it declares where it cannot."""
    loader = DataLoader(Columnar(), batch_size=7, on_error=on_error)  # type: ignore[arg-type]
    batches = list(loader)

    assert {batch["x"].dtype for batch in batches} == {np.dtype(np.int32)}
    if on_error == "skip":
        assert numbers_in(batches) == [x for x in range(40) if x not in (3, 29)]
    else:
        assert [x for x, found in enumerate(numbers_in(batches)) if x != found] == [3, 29]
    assert [one.index for one in loader.skipped] == [3, 29]


def test_damaged_shards_are_skipped_by_file_and_record(tmp_path: Path) -> None:
    """The list says which; so does the state resume: rows and list go on."""
    source = write_small(tmp_path / "small", 120, shard_records=50)
    path, record = source.records.locate(77)
    with open(path, "r+b") as shard:
        data = shard.read()
        at = data.index(source.records[77][40:200]) + 100
        shard.seek(at)
        shard.write(bytes([data[at] ^ 1]))
    damaged = arrayfeed.open(tmp_path / "small", split="train", check="hash")
    loader = DataLoader(damaged, batch_size=16, on_error="skip")
    labels = numbers_in(list(loader), "label")

    assert labels == [number * 7 % 1000 for number in range(120) if number != 77]
    (one,) = loader.skipped
    assert (one.index, one.place) == (77, 77)
    assert f"record {record} of {path}" in one.where
    assert one.error.startswith("CorruptShardError")


def test_too_many_errors_stop_the_run_and_name_the_first() -> None:
    """One more than allowed; the loop may go on trying, and is told again."""
    assert numbers_in(list(make("skip", max_errors=4))) == [x for x in shuffled() if x not in BAD]
    loader = make("skip", max_errors=1)
    iterator = iter(loader)
    with pytest.raises(TooManyErrors) as caught:
        list(iterator)
    assert "more than max_errors=1" in str(caught.value)
    first = next(x for x in shuffled() if x in BAD)
    assert f"record {first} (element {first} of a Broken of 40), epoch 0:" in str(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).message == caught.value.message
    with pytest.raises(TooManyErrors):
        next(iterator)


def test_an_epoch_of_nothing_but_damage_ends() -> None:
    """With all of it listed; substitution gives up with the first error, having tried others."""
    everything = frozenset(range(40))
    loader = DataLoader(Broken(everything), batch_size=4, on_error="skip")
    assert list(loader) == []
    assert [one.index for one in loader.skipped] == list(range(40))
    with pytest.raises(OSError, match="cannot read 0") as caught:
        next(iter(DataLoader(Broken(everything), batch_size=4, on_error="substitute")))
    assert "16 records were tried in its place, and failed as well" in caught.value.__notes__


@pytest.mark.parametrize("on_error", ["skip", "substitute"])
def test_a_stopped_run_goes_on_as_if_it_had_not(on_error: str) -> None:
    """At every batch."""
    whole = [batch["x"].tolist() for batch in make(on_error)]
    for steps in range(len(whole)):
        loader = make(on_error)
        iterator = iter(loader)
        for _ in range(steps):
            next(iterator)
        resumed = make(on_error)
        resumed.load_state_dict(loader.state_dict())
        assert [batch["x"].tolist() for batch in resumed] == whole[steps:]


def test_each_failure_is_listed_once_however_often_it_is_read() -> None:
    """After an interruption, what was read ahead is read again."""
    loader = make("skip")
    state = loader.state_dict()
    list(loader)
    loader.load_state_dict(state)
    list(loader)

    assert len(loader.skipped) == 4
    list(loader)
    assert len(loader.skipped) == 8
    assert {one.epoch for one in loader.skipped} == {0, 1}


def test_errors_of_batches_are_raised_whatever_is_done_about_records() -> None:
    """Nobody could say which record to leave out."""

    def fail(batch: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        next(iter(make("skip", transforms=[check, BatchMap(fail)])))


def test_what_is_no_policy_is_refused() -> None:
    """At once."""
    with pytest.raises(ValueError, match="on_error is 'ignore'; it must be 'raise', 'skip', 'substitute' or a function"):
        make("ignore")
    with pytest.raises(ValueError, match="max_errors is -1"):
        make("skip", max_errors=-1)
    assert pickle.loads(pickle.dumps(SKIP)) is SKIP


def test_the_report_tells_how_many_records_failed_and_the_last() -> None:
    """With its error; where none did, nothing."""
    loader = make("skip")
    for _ in loader:
        pass
    assert f"{len(loader.skipped)} records failed, at last {loader.skipped[-1]}" in loader.report()

    sound = DataLoader(Listed(8), batch_size=4)
    for _ in sound:
        pass
    assert "failed" not in sound.report()
