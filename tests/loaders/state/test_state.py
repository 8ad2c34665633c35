"""A saved state goes on with the very next batch: at any place, under any change that keeps the order."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import arrayfeed
from arrayfeed import DataLoader, FlatMap, IndexSampler, StateError
from support.loading import Listed, numbers_in, write_small


def make(length: int = 50, *, batch_size: int = 8, **options: Any) -> DataLoader:
    return DataLoader(Listed(length), batch_size=batch_size, **({"shuffle": True, "seed": 4} | options))


def resume(state: dict[str, Any], **options: Any) -> DataLoader:
    """Return another loader that has loaded ``state``, which went through JSON."""
    loader = make(**options)
    loader.load_state_dict(json.loads(json.dumps(state)))
    return loader


# -- anywhere ---------------------------------------------------------------------------------------------------------


@given(
    length=st.integers(1, 60),
    batch_size=st.integers(1, 20),
    other_size=st.integers(1, 20),
    num_epochs=st.integers(1, 3),
    passes=st.integers(0, 2),
    steps=st.integers(0, 100),
    prefetch=st.tuples(st.integers(0, 3), st.integers(0, 3)),
)
def test_what_a_loader_would_have_delivered_another_delivers(
    length: int, batch_size: int, other_size: int, num_epochs: int, passes: int, steps: int, prefetch: tuple[int, int]
) -> None:
    """After any number of passes and steps; the batch size and the prefetching may change. Then the next pass follows."""
    loader = make(length, batch_size=batch_size, num_epochs=num_epochs, prefetch_factor=prefetch[0])
    for _ in range(passes):
        list(loader)
    iterator = iter(loader)
    list(islice(iterator, steps))
    state = loader.state_dict()
    left, following = numbers_in(list(iterator)), numbers_in(list(loader))
    expected = [left, following] if steps <= len(loader) else [following]

    resumed = resume(state, length=length, batch_size=other_size, num_epochs=num_epochs, prefetch_factor=prefetch[1])
    assert [numbers_in(list(resumed)) for _ in expected] == expected


@given(steps=st.integers(0, 30), again=st.integers(0, 30))
def test_a_resumed_loader_is_resumed(steps: int, again: int) -> None:
    """State of a state: what was resumed and stopped again goes on as exactly."""
    whole = numbers_in(list(islice(make(num_epochs=None), 100)))
    loader = make(num_epochs=None)
    found = list(islice(loader, steps))
    resumed = resume(loader.state_dict(), num_epochs=None)
    found += islice(resumed, again)
    last = resume(resumed.state_dict(), num_epochs=None)
    found += islice(last, 5)

    assert numbers_in(found) == whole[: len(numbers_in(found))]


class Life(RuleBasedStateMachine):
    """A training run of many epochs, told in any order of steps, stops, saves, resumes and changes."""

    @initialize(length=st.integers(1, 40), num_epochs=st.integers(1, 3), batch_size=st.integers(1, 9))
    def start(self, length: int, num_epochs: int, batch_size: int) -> None:
        self.length, self.num_epochs = length, num_epochs
        self.expected = self.stream()
        self.open(batch_size, 2)
        self.epoch_of_user = 0

    def stream(self) -> Iterator[int]:
        sampler = IndexSampler(self.length, shuffle=True, seed=4, num_epochs=None)
        return iter(sampler)

    def open(self, batch_size: int, prefetch_factor: int) -> None:
        options = {"batch_size": batch_size, "prefetch_factor": prefetch_factor, "num_epochs": self.num_epochs}
        self.loader = make(self.length, **options)
        self.iterator: Iterator[Any] | None = None

    @rule(count=st.integers(1, 6))
    def step(self, count: int) -> None:
        """Train, going from pass to pass as a loop does, with or without ``set_epoch`` at its head."""
        for _ in range(count):
            if self.iterator is None:
                if self.epoch_of_user % 2:
                    self.loader.set_epoch(self.epoch_of_user)
                self.iterator = iter(self.loader)
            batch = next(self.iterator, None)
            if batch is None:
                self.iterator = None
                self.epoch_of_user += self.num_epochs
            else:
                assert numbers_in([batch]) == list(islice(self.expected, len(batch["x"])))

    @rule(batch_size=st.integers(1, 9), prefetch_factor=st.integers(0, 3), late=st.booleans())
    def stop_and_resume(self, batch_size: int, prefetch_factor: int, late: bool) -> None:
        """A new process: the state before ``iter`` or after it, or after a few batches of something else."""
        state = json.dumps(self.loader.state_dict())
        assert len(state) < 2000
        self.open(batch_size, prefetch_factor)
        if late:
            self.iterator = iter(self.loader)
            list(islice(self.iterator, batch_size % 3))
        self.loader.load_state_dict(json.loads(state))
        assert json.dumps(self.loader.state_dict()) == state

    @precondition(lambda self: self.iterator is not None)
    @rule()
    def go_back(self) -> None:
        """A state loaded into the loader it came from, with its iterator under way."""
        self.loader.load_state_dict(self.loader.state_dict())


TestLife = Life.TestCase


def several(example: dict[str, Any]) -> list[dict[str, Any]]:
    return [example] * (example["x"] * 7919 % 4)


class FilteredLife(Life):
    """The same where records give none, one or several examples each."""

    def stream(self) -> Iterator[int]:
        for number in super().stream():
            yield from [number] * (number * 7919 % 4)

    def open(self, batch_size: int, prefetch_factor: int) -> None:
        super().open(batch_size, prefetch_factor)
        options = {"batch_size": batch_size, "prefetch_factor": prefetch_factor, "num_epochs": self.num_epochs}
        self.loader = make(self.length, transforms=FlatMap(several), **options)


TestFilteredLife = FilteredLife.TestCase


# -- at special moments -----------------------------------------------------------------------------------------------


def test_only_delivered_batches_count() -> None:
    """However many were read ahead."""
    for prefetch_factor in (0, 1, 7):
        loader = make(prefetch_factor=prefetch_factor)
        iterator = iter(loader)
        positions = [loader.state_dict()["position"]]
        for _ in range(3):
            next(iterator)
            positions.append(loader.state_dict()["position"])

        assert positions == [0, 8, 16, 24]


def test_a_state_is_small_and_plain() -> None:
    """JSON and back changes nothing, with the longest seed as well."""
    for seed in (0, -1, 2**255, 2**3000):
        loader = make(seed=seed)
        next(iter(loader))
        text = json.dumps(loader.state_dict())

        assert len(text) < 2000
        assert json.loads(text) == loader.state_dict()


def test_loading_works_before_and_after_iter() -> None:
    """Before: the next pass starts there. After: the one under way goes on there, whatever it had read ahead."""
    loader = make()
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    rest = numbers_in(list(iterator))

    assert numbers_in(list(resume(state))) == rest
    other = make()
    iterator = iter(other)
    other.load_state_dict(state)
    assert numbers_in(list(iterator)) == rest
    other.set_epoch(5)
    iterator = iter(other)
    next(iterator)
    other.load_state_dict(state)
    assert numbers_in(list(iterator)) == rest
    assert numbers_in(list(other)) == numbers_in(list(loader))


def test_loading_revives_an_exhausted_iterator() -> None:
    """And a loop over the loader starts at the state as well."""
    loader = make()
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    rest = numbers_in(list(iterator))
    for _ in range(2):
        loader.load_state_dict(state)
        assert numbers_in(list(iterator)) == rest
    loader.load_state_dict(state)

    assert numbers_in(list(loader)) == rest


def test_the_state_loaded_last_counts() -> None:
    """Loading twice is loading the second."""
    loader = make()
    states = [loader.state_dict() for _ in loader]
    loader.load_state_dict(states[1])
    loader.load_state_dict(states[3])

    assert loader.state_dict() == states[3]
    assert len(list(loader)) == 3


def test_only_the_latest_iterator_is_told_of_and_moved() -> None:
    """An older one goes on as if nothing had happened."""
    loader = make()
    old, new = iter(loader), iter(loader)
    first = numbers_in(list(islice(old, 1)))
    next(new)
    state = loader.state_dict()
    first += numbers_in(list(islice(old, 2)))
    assert loader.state_dict() == state
    list(new)
    loader.load_state_dict(state)

    assert first + numbers_in(list(old)) == numbers_in(list(make()))
    assert len(list(new)) == 6


def test_with_the_last_batch_in_hand_the_pass_is_not_over() -> None:
    """Saved there, a loop that is resumed has nothing left of the epoch; saved behind the loop, it is the next epoch's turn."""
    loader = make()
    iterator = iter(loader)
    for _ in range(len(loader)):
        next(iterator)
    inside = loader.state_dict()
    assert next(iterator, None) is None
    behind = loader.state_dict()
    following = numbers_in(list(loader))

    resumed = resume(inside)
    resumed.set_epoch(0)
    assert numbers_in(list(resumed)) == []
    resumed.set_epoch(1)
    assert numbers_in(list(resumed)) == following
    assert numbers_in(list(resume(behind))) == following


def test_an_epoch_that_is_set_as_it_was_keeps_the_place() -> None:
    """The usual loop, resumed: ``set_epoch`` of the epoch that the pass began with; any other begins anew."""
    loader = make(num_epochs=3)
    list(loader)
    iterator = iter(loader)
    list(islice(iterator, 10))
    state = loader.state_dict()
    rest = numbers_in(list(iterator))
    assert (state["first_epoch"], state["epoch"]) == (3, 4)

    for epoch, expected in ((3, rest), (4, rest), (5, numbers_in(list(islice(make(num_epochs=None), 35, 56))))):
        resumed = resume(state, num_epochs=3)
        resumed.set_epoch(epoch)
        assert numbers_in(list(resumed)) == expected
    resumed = resume(state, num_epochs=3)
    assert numbers_in([next(iter(resumed))]) == rest[:8]
    resumed.set_epoch(3)
    assert len(list(resumed)) == 21


def test_setting_an_epoch_in_a_pass_does_not_falsify_its_state() -> None:
    """What the pass delivers afterwards counts for the pass."""
    loader = make()
    iterator = iter(loader)
    next(iterator)
    loader.set_epoch(9)
    assert (loader.state_dict()["epoch"], loader.state_dict()["position"]) == (9, 0)
    next(iterator)
    state = loader.state_dict()

    assert numbers_in(list(resume(state))) == numbers_in(list(iterator))


def test_a_pass_of_fewer_epochs_takes_up_one_of_more() -> None:
    """Saved in the third of five epochs, a loader of one ends with that one."""
    loader = make(num_epochs=5)
    iterator = iter(loader)
    list(islice(iterator, 16))
    resumed = resume(loader.state_dict())

    assert len(list(resumed)) == 5
    assert resumed.state_dict()["epoch"] == 3


def test_transforms_and_collation_may_change() -> None:
    """They are no part of the order."""
    loader = make()
    next(iter(loader))
    resumed = resume(loader.state_dict(), transforms=lambda example: example["x"], collate_fn=sum)

    assert list(resumed) == [sum(numbers_in([batch])) for batch in islice(make(), 1, None)]


def test_resuming_reads_nothing_of_what_was_delivered() -> None:
    """Two batches before the end of a late epoch of 10**12 records, these two are read and no other."""
    sampler = IndexSampler(10**12, shuffle=True)

    class Vast(Listed):
        fingerprint = "vast"

    def make_vast() -> DataLoader:
        return DataLoader(Vast(10**12), batch_size=4, sampler=sampler, prefetch_factor=0)

    loader = make_vast()
    loader.load_state_dict(loader.state_dict() | {"epoch": 10**9, "position": 10**12 - 8})
    batches = list(iter(loader))

    assert len(batches) == 2
    assert len(loader.dataset.reads) == 8  # type: ignore[attr-defined]


# -- what is refused --------------------------------------------------------------------------------------------------


def test_a_state_of_another_order_is_refused_saying_what_differs(tmp_path: Path) -> None:
    """Another seed, other records, another shuffle, another source; the loader stays as it was."""
    loader = make()
    next(iter(loader))
    state = loader.state_dict()
    small = write_small(tmp_path / "small", 50)
    others: dict[str, DataLoader] = {
        "seed was 4, here it is 5": make(seed=5),
        "num records was 50, here it is 49": make(49),
        "shuffle was True, here it is False": make(shuffle=False),
        f"source was 'Listed', here it is '{small.fingerprint}'": DataLoader(small, shuffle=True, seed=4),
    }
    for message, other in others.items():
        list(islice(other, 2))
        before = other.state_dict()
        with pytest.raises(StateError, match="saved over another stream") as caught:
            other.load_state_dict(state)
        assert message in str(caught.value)
        assert other.state_dict() == before


def test_a_view_of_other_records_is_another_source(tmp_path: Path) -> None:
    """Slices of one length differ by what they hold; the same slice opened again does not."""
    small = write_small(tmp_path / "small", 60)
    state = DataLoader(small[:30]).state_dict()

    DataLoader(arrayfeed.open(tmp_path / "small", split="train")[:30]).load_state_dict(state)
    with pytest.raises(StateError, match="source was"):
        DataLoader(small[30:]).load_state_dict(state)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "no state of a DataLoader of version 1 .its version is 2."),
        ({"epoch": -1}, "'epoch' is -1"),
        ({"position": 1.5}, "'position' is 1.5"),
        ({"position": None}, "'position' is None"),
        ({"first_epoch": True}, "'first_epoch' is True"),
        ({"first_epoch": 2}, "in epoch 0, before its first epoch 2"),
        ({"epoch": 1 << 62}, "'epoch' is 4611686018427387904"),
        ({"order": "none"}, "order was 'none'"),
    ],
    ids=str,
)
def test_a_damaged_state_is_refused(change: dict[str, Any], message: str) -> None:
    """Naming the field."""
    loader = make()
    with pytest.raises(StateError, match=message):
        loader.load_state_dict(loader.state_dict() | change)


@pytest.mark.parametrize("state", [None, [], {}, {"version": 1}, "{}"], ids=str)
def test_what_is_no_state_is_refused(state: Any) -> None:
    """Rather than taken for a start."""
    with pytest.raises(StateError):
        make().load_state_dict(state)


@pytest.mark.soak
def test_a_long_run_with_many_stops_is_the_run_without() -> None:
    """Ten thousand batches, saved and resumed at random, over batches of random size."""
    randomness, whole = random.Random(0), np.array(numbers_in(list(islice(make(97, batch_size=1, num_epochs=None), 60_000))))
    found: list[int] = []
    state = make(97).state_dict()
    while len(found) < 50_000:
        loader = resume(state, length=97, batch_size=randomness.randint(1, 30), prefetch_factor=randomness.randint(0, 3))
        for _ in range(randomness.randint(1, 3)):
            found += numbers_in(list(islice(loader, randomness.randint(0, 9))))
            if loader.state_dict()["position"] < 97:
                break
        state = loader.state_dict()

    assert found == whole[: len(found)].tolist()
