"""Errors arrive in their turn, of their own type, naming the record; and nothing is lost by them."""

from __future__ import annotations

import re
import signal
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import arrayfeed
from arrayfeed import ArrayRecordDataSource, CorruptShardError, DataLoader, DecodeError
from arrayfeed.datasource.source import BaseSource, Indices
from support.loading import Listed, numbers_in, write_small
from support.shards import write_shard

PREFETCH = (0, 1, 3)


class OddityError(Exception):
    """A type that only this test knows, with a constructor that wants two arguments."""

    def __init__(self, left: int, right: int) -> None:
        super().__init__(left, right)


class Flaky:
    """Fails the first ``times`` times that it sees record 13."""

    def __init__(self, make: Callable[[], BaseException], times: int = 1) -> None:
        self.make, self.times = make, times

    def __call__(self, example: Any) -> Any:
        record = example["x"] if isinstance(example, dict) else example
        if record == 13 and self.times:
            self.times -= 1
            raise self.make()
        return example

    def __repr__(self) -> str:
        return "Flaky()"


class FlakySource(Listed):
    """Fails to read record 13, once."""

    def __init__(self, make: Callable[[], BaseException]) -> None:
        super().__init__(30)
        self.flaky = Flaky(make)

    def __getitem__(self, index: int) -> Any:
        return self.flaky(super().__getitem__(index))


def collect(loader: DataLoader) -> tuple[list[Any], list[BaseException]]:
    """Return all batches of a pass and the errors on the way, going on after each."""
    iterator: Iterator[Any] = iter(loader)
    batches: list[Any] = []
    errors: list[BaseException] = []
    while len(errors) < 10:
        try:
            batch = next(iterator, None)
        except BaseException as error:
            errors.append(error)
            continue
        if batch is None:
            break
        batches.append(batch)
    return batches, errors


def notes(error: BaseException) -> str:
    return "\n".join(getattr(error, "__notes__", []))


# -- of user code -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefetch_factor", PREFETCH)
@pytest.mark.parametrize("place", ["source", "many", "transform", "collate_fn"])
@pytest.mark.parametrize("make", [lambda: OddityError(1, 2), lambda: KeyError("absent")], ids=["own", "KeyError"])
def test_an_error_comes_in_its_turn_and_the_batch_is_tried_again(
    place: str, make: Callable[[], Exception], prefetch_factor: int
) -> None:
    """After the batches before it; the same object that was raised, with its traceback; then the batch itself."""
    raised: list[Exception] = []

    def note_and_make() -> Exception:
        raised.append(make())
        return raised[-1]

    source = FlakySource(note_and_make) if place in ("source", "many") else Listed(30)
    if place == "many":
        source.__class__ = type("Many", (FlakySource,), {"__getitems__": lambda self, numbers: [self[n] for n in numbers]})
    flaky = Flaky(note_and_make)
    loader = DataLoader(
        source,
        batch_size=4,
        transforms=flaky if place == "transform" else (),
        collate_fn=(lambda examples: {"x": [flaky(e)["x"] for e in examples]}) if place == "collate_fn" else None,
        prefetch_factor=prefetch_factor,
    )
    iterator = iter(loader)
    before = [next(iterator) for _ in range(3)]
    with pytest.raises(type(make())) as caught:
        next(iterator)

    assert caught.value is raised[0]
    assert "in __call__" in "".join(traceback.format_tb(caught.value.__traceback__))
    listed = "records 12, 13, 14, 15" if place in ("many", "collate_fn") else "record 13"
    assert listed in notes(caught.value)
    assert f"of a {type(source).__name__} of 30" in notes(caught.value)
    assert loader.state_dict()["position"] == 12
    assert numbers_in([*before, *iterator]) == list(range(30))


@pytest.mark.parametrize("prefetch_factor", PREFETCH)
@pytest.mark.parametrize("place", ["source", "transform"])
def test_stop_iteration_of_user_code_does_not_end_the_loop(place: str, prefetch_factor: int) -> None:
    """It would look as if all was read. It arrives as the cause of a RuntimeError."""
    source = FlakySource(StopIteration) if place == "source" else Listed(30)
    transforms = Flaky(StopIteration) if place == "transform" else ()
    batches, errors = collect(DataLoader(source, batch_size=4, transforms=transforms, prefetch_factor=prefetch_factor))

    assert numbers_in(batches) == list(range(30))
    assert [type(error) for error in errors] == [RuntimeError]
    assert isinstance(errors[0].__cause__, StopIteration)
    assert "record 13" in notes(errors[0].__cause__)


@pytest.mark.parametrize("prefetch_factor", PREFETCH)
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_whatever_else_user_code_raises_loses_nothing(kind: type[BaseException], prefetch_factor: int) -> None:
    """Exits and interruptions pass as well, and who catches them may go on."""
    loader = DataLoader(Listed(30), batch_size=4, transforms=Flaky(kind), prefetch_factor=prefetch_factor)
    batches, errors = collect(loader)

    assert numbers_in(batches) == list(range(30))
    assert [type(error) for error in errors] == [kind]


@pytest.mark.parametrize("prefetch_factor", PREFETCH)
def test_an_error_that_stays_is_raised_again_and_again(prefetch_factor: int) -> None:
    """The loader never steps over a record by itself; a loop over it ends with the error, and the next loop goes on."""
    loader = DataLoader(Listed(30), batch_size=4, transforms=Flaky(ValueError, 10), prefetch_factor=prefetch_factor)
    batches, errors = collect(loader)

    assert numbers_in(batches) == list(range(12))
    assert len({id(error) for error in errors}) == 10
    assert numbers_in(list(loader)) == list(range(30))


def test_an_error_of_the_conversion_loses_no_batch() -> None:
    """torch has no dates: the batch that it cannot take is not counted as delivered."""
    loader = DataLoader([np.datetime64(0, "D")] * 3, output="torch")
    iterator = iter(loader)
    for _ in range(2):
        with pytest.raises(TypeError, match="datetime64"):
            next(iterator)

    assert loader.state_dict()["position"] == 0


@pytest.mark.parametrize("prefetch_factor", PREFETCH)
def test_a_transform_that_forgets_to_return_is_told_so(prefetch_factor: int) -> None:
    """None is no example, unless a collate_fn says what to do with it."""

    def forget(example: dict[str, Any]) -> dict[str, Any] | None:
        return None if example["x"] == 2 else example

    loader = DataLoader(Listed(4), batch_size=4, transforms=forget, prefetch_factor=prefetch_factor)
    with pytest.raises(TypeError, match="the transform returned None") as caught:
        next(iter(loader))
    assert "forget" in notes(caught.value)
    assert "record 2 of" in notes(caught.value)

    kept = DataLoader(Listed(4), batch_size=4, transforms=forget, collate_fn=lambda examples: [e for e in examples if e])
    assert [example["x"] for example in next(iter(kept))] == [0, 1, 3]


# -- of sources -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefetch_factor", PREFETCH)
def test_a_source_shorter_than_it_says_raises_behind_its_last_whole_batch(prefetch_factor: int) -> None:
    """An IndexError with the index, not a short epoch."""

    class Liar(Listed):
        def __len__(self) -> int:
            return 40

    batches, errors = collect(DataLoader(Liar(30), batch_size=4, prefetch_factor=prefetch_factor))

    assert numbers_in(batches) == list(range(28))
    assert {type(error) for error in errors} == {IndexError}
    assert "record 30 of a Liar of 40" in notes(errors[0])


def test_a_source_that_gives_fewer_than_asked_is_an_error() -> None:
    """A batch is never short in silence."""

    class Short(Listed):
        def __getitems__(self, indices: list[int]) -> list[Any]:
            return [self[index] for index in indices[:-1]]

    with pytest.raises(ValueError, match="__getitems__ of a Short of 8 gave 3 for 4 indices"):
        next(iter(DataLoader(Short(8), batch_size=4)))


@pytest.mark.parametrize("prefetch_factor", PREFETCH)
def test_a_damaged_record_is_named_and_comes_when_it_is_mended(tmp_path: Path, prefetch_factor: int) -> None:
    """Batches are made many at a time: those before the damage come first, the error has file and record, no batch is lost."""
    source = write_small(tmp_path / "small", 250)
    path, record = source.records.locate(137)
    with open(path, "r+b") as shard:
        data = shard.read()
        at = data.index(source.records[137][40:200]) + 100
        shard.seek(at)
        shard.write(bytes([data[at] ^ 1]))
        shard.flush()
        checked = arrayfeed.open(tmp_path / "small", split="train", check="hash")
        iterator = iter(DataLoader(checked, batch_size=4, prefetch_factor=prefetch_factor))
        found: list[Any] = []
        with pytest.raises(CorruptShardError) as caught:
            found.extend(next(iterator) for _ in range(63))
        with pytest.raises(CorruptShardError):
            next(iterator)
        shard.seek(at)
        shard.write(data[at : at + 1])

    assert (caught.value.path, caught.value.record) == (path, record)
    assert "records 136, 137, 138, 139 of ExampleDataSource('small/train'" in notes(caught.value)
    assert numbers_in(found, "label") == [number * 7 % 1000 for number in range(136)]
    assert numbers_in([*found, *iterator], "label") == [number * 7 % 1000 for number in range(250)]


@pytest.mark.parametrize("kind", ["example", "column"])
def test_a_record_that_is_no_example_is_named(tmp_path: Path, kind: str) -> None:
    """Where its file is whole, too: the error knows file, record and feature; examples and columns say the same."""
    source = write_small(tmp_path / "small", 60)
    features = arrayfeed.features.FeaturesDict({**source.features, "absent": arrayfeed.features.Scalar(np.int64)})
    expecting = arrayfeed.ExampleDataSource(source.records, features)
    transforms = (lambda example: example) if kind == "example" else ()
    with pytest.raises(DecodeError, match="feature 'absent'") as caught:
        next(iter(DataLoader(expecting, batch_size=10, transforms=transforms)))

    assert (caught.value.path, caught.value.record) == source.records.locate(0)


# -- of structure -----------------------------------------------------------------------------------------------------

RAGGED: list[tuple[list[Any], str, str]] = [
    (
        [{"a": {"b": np.zeros((2, 3))}}, {"a": {"b": np.zeros((2, 4))}}],
        r"field 'a/b': example 0 of the batch has shape \(2, 4\), example 1 has shape \(2, 3\)",
        "example 0 is record 1 and example 1 is record 0",
    ),
    ([{"a": 1}, {"c": 1, "a": 1}], r"the examples: example 0 .* has keys \['c', 'a'\], example 1 has keys \['a'\]", "record 0"),
    ([{"a": 5}, {"a": {"b": 1}}], r"field 'a': example 0 of the batch has keys \['b'\], example 1 has int", "record 0"),
    ([(1, 2), (1, 2, 3)], "example 0 of the batch has a tuple of 3, example 1 has a tuple of 2", "record 0"),
    ([[1], (1,)], "example 0 of the batch has a tuple of 1, example 1 has list", "record 0"),
    ([{"a": [[1, 2], [3]]}] * 2, "field 'a': example 0 of the batch is a list of lists of unequal lengths", "record 1"),
    ([{"a": 5}, {"a": np.zeros(3)}], r"field 'a': example 0 of the batch has shape \(3,\), example 1 has shape", "record 0"),
]


@pytest.mark.parametrize(("examples", "message", "note"), RAGGED)
def test_examples_that_do_not_stack_are_named(examples: list[Any], message: str, note: str) -> None:
    """A ValueError with the field, what the two have, and which records they are. Here the order is turned round."""
    loader = DataLoader(examples, batch_size=2, sampler=arrayfeed.samplers.SubsetSampler([1, 0]))
    with pytest.raises(ValueError, match=message) as caught:
        next(iter(loader))

    assert note in notes(caught.value)


def test_dataclasses_of_two_kinds_do_not_stack() -> None:
    """Even where they have the same fields."""

    @dataclass
    class One:
        x: int

    @dataclass
    class Other:
        x: int

    with pytest.raises(ValueError, match="example 0 of the batch has One, example 1 has Other"):
        next(iter(DataLoader([One(1), Other(2)], batch_size=2)))


def test_ragged_columns_name_their_records_too() -> None:
    """A source without transforms stacks for itself; the note still says which records these are."""

    class Ragged(BaseSource[Any]):
        fingerprint = "00"

        def __len__(self) -> int:
            return 100

        def _read_one(self, index: int) -> Any:
            return {"x": np.zeros(2 if index < 77 else 3)}

        def _read_many(self, indices: Indices) -> list[Any]:
            return [self._read_one(index) for index in indices.tolist()]

    loader = DataLoader(Ragged(), batch_size=5)
    with pytest.raises(ValueError, match=r"field 'x': .* example 2 has shape \(3,\)") as caught:
        list(loader)

    assert "example 0 is record 75 and example 2 is record 77" in notes(caught.value)
    assert loader.stats().batches == 15


# -- interruptions ----------------------------------------------------------------------------------------------------


# An interruption inside a callback of a weak reference is reported there, by Python, and goes no further.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("prefetch_factor", [0, 2])
def test_ctrl_c_at_any_moment_neither_hangs_nor_shifts_the_stream(
    prefetch_factor: int, no_leaks: None, rng: np.random.Generator
) -> None:
    """After each of many interruptions the stream goes on exactly where the state says, and comes to its end."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.raise_signal(signal.SIGINT)

    loader = DataLoader(Listed(1000, delay_s=0.0002), batch_size=4, shuffle=True, prefetch_factor=prefetch_factor)
    order = list(loader.sampler)
    iterator = iter(loader)
    interruptions = 0
    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        while True:
            place = loader.state_dict()["position"]
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.0001, 0.003))
                batch = next(iterator, None)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interruptions += 1
                continue
            if batch is None:
                break
            assert numbers_in([batch]) == order[place : place + 4]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)

    assert interruptions > 20
    assert place == 1000


@pytest.mark.parametrize("group_size", [1, 4])
@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_of_user_code_says_at_which_byte_of_the_file_the_record_lies(
    group_size: int, workers: int, tmp_path: Path
) -> None:
    """Where its chunk begins: the record is the first, or a few further, of what follows there."""
    records = [f"record {number} of a shard".encode() * 5 for number in range(20)]
    path = write_shard(tmp_path / "a.array_record", records, group_size=group_size)

    def fail(record: bytes) -> int:
        if record == records[13]:
            raise ZeroDivisionError
        return len(record)

    with pytest.raises(ZeroDivisionError) as caught:
        list(DataLoader(ArrayRecordDataSource(path), batch_size=4, num_workers=workers, transforms=fail))
    found = re.search(rf"record 13 of {re.escape(path)}, at byte (\d+)", notes(caught.value))
    assert found is not None
    place = Path(path).read_bytes().index(records[13])
    assert 0 < place - int(found[1]) < 100 + (group_size - 1) * len(records[0])
