"""Transforms make of a stream what a plain loop over it would, batch by full batch, whoever does the work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrayfeed import BatchMap, DataLoader, Filter, FlatMap, IndexSampler, RandomMap, ShardOptions
from arrayfeed.samplers import RecordRandom
from support.equal import difference
from support.loading import Listed, numbers_in

Example = dict[str, Any]


def keep(example: Example) -> bool:
    return bool(example["x"] * 2654435761 % 7 > 2)


def several(example: Example) -> list[Example]:
    return [{**example, "part": part} for part in range(example["x"] % 4)]


def add_noise(example: Example, rng: np.random.Generator) -> Example:
    return {**example, "noise": rng.random(2), "coin": rng.integers(0, 2)}


def draw(key: str, example: Example, rng: np.random.Generator) -> Example:
    return {**example, key: rng.random()}


def plain(length: int, batch_size: int, *, seed: int = 0, epoch: int = 0, drop_last: bool = False) -> Iterator[Any]:
    """Yield an epoch's batches of ``TRANSFORMS``: one example after the other."""
    order = IndexSampler(length, shuffle=True, seed=seed)
    order.set_epoch(epoch)
    source, random, rows = Listed(length), RecordRandom(seed), list[Example]()
    for place, index in enumerate(order):
        example = source[index]
        if keep(example):
            rng = random.generator(epoch, place)
            rows += [add_noise(one, rng) for one in several(example)]
    for start in range(0, len(rows), batch_size):
        batch = rows[start : start + batch_size]
        if len(batch) == batch_size or not drop_last:
            columns = {key: np.stack([np.asarray(row[key]) for row in batch]) for key in batch[0]}
            yield {**columns, "rows": len(batch)}


TRANSFORMS = (Filter(keep), FlatMap(several), RandomMap(add_noise), BatchMap(lambda batch: {**batch, "rows": len(batch["x"])}))


def make(length: int, batch_size: int, transforms: Any = TRANSFORMS, **options: Any) -> DataLoader:
    options = {"shuffle": True, **options}
    return DataLoader(Listed(length), batch_size=batch_size, transforms=transforms, **options)


# -- against the plain loop -------------------------------------------------------------------------------------------


@given(
    length=st.integers(1, 60),
    batch_size=st.integers(1, 20),
    drop_last=st.booleans(),
    num_epochs=st.integers(1, 3),
    prefetch_factor=st.integers(0, 3),
)
def test_batches_are_full_and_those_of_the_plain_loop(
    length: int, batch_size: int, drop_last: bool, num_epochs: int, prefetch_factor: int
) -> None:
    """Values, dtypes, random numbers; only an epoch's last batch is short, or left out."""
    loader = make(length, batch_size, drop_last=drop_last, num_epochs=num_epochs, prefetch_factor=prefetch_factor)
    expected = [batch for epoch in range(num_epochs) for batch in plain(length, batch_size, epoch=epoch, drop_last=drop_last)]

    assert difference(list(loader), expected) == ""


@pytest.mark.parametrize("worker_type", ["process", "thread"])
@pytest.mark.parametrize("num_workers", [1, 2, 3, 7])
def test_any_number_of_workers_makes_the_same_batches(num_workers: int, worker_type: Any) -> None:
    """Over two epochs, with all kinds of transforms."""
    with_workers = make(100, 7, num_workers=num_workers, worker_type=worker_type, num_epochs=2)
    expected = [batch for epoch in range(2) for batch in plain(100, 7, epoch=epoch)]

    assert difference(list(with_workers), expected) == ""
    with_workers.close()


@pytest.mark.parametrize("options", [{}, {"num_workers": 2}, {"drop_last": True}], ids=str)
def test_pass_follows_pass(options: dict[str, Any]) -> None:
    """Though the next one is begun ahead: read to the end or left in the middle, by each epoch's own batches."""
    loader = make(40, 6, **options)
    for epoch in range(4):
        expected = list(plain(40, 6, epoch=epoch, drop_last=options.get("drop_last", False)))
        steps = 2 if epoch == 1 else 1000
        assert difference(list(islice(loader, steps)), expected[:steps]) == ""
    loader.close()


@given(ranks=st.integers(1, 4), batch_size=st.integers(1, 9), epoch=st.integers(0, 3), seed=st.integers(-5, 5))
def test_random_numbers_belong_to_the_record_and_the_epoch(ranks: int, batch_size: int, epoch: int, seed: int) -> None:
    """Any number of ranks, any batch size: a record gets the numbers of its place in the global order."""
    found: dict[int, Any] = {}
    for rank in range(ranks):
        sampler = IndexSampler(30, shuffle=True, seed=9, shard=ShardOptions(rank, ranks))
        loader = DataLoader(
            Listed(30), sampler=sampler, batch_size=batch_size, seed=seed, transforms=RandomMap(add_noise), prefetch_factor=0
        )
        loader.set_epoch(epoch)
        for batch in loader:
            found |= zip(batch["x"].tolist(), batch["noise"].tolist(), strict=True)

    order = IndexSampler(30, shuffle=True, seed=9)
    order.set_epoch(epoch)
    random = RecordRandom(seed)
    assert found == {index: random.generator(epoch, place).random(2).tolist() for place, index in enumerate(order)}


def test_two_random_maps_draw_unrelated_numbers() -> None:
    """Each has a stream of its own; both differ from one epoch to the next."""
    draws = [RandomMap(partial(draw, key)) for key in ("a", "b")]
    batches = list(make(20, 20, draws, num_epochs=2))

    values = [value for batch in batches for key in ("a", "b") for value in batch[key].tolist()]
    assert len(set(values)) == len(values) == 80


def test_a_batch_map_sees_whole_batches_wherever_it_is_called() -> None:
    """In the worker without a filter, where batches are put together with one."""
    sizes = BatchMap(lambda batch: {**batch, "size": np.full(len(batch["x"]), len(batch["x"]))})
    for transforms in (sizes, [Filter(keep), sizes]):
        for num_workers in (0, 2):
            loader = make(50, 8, transforms, num_workers=num_workers, worker_type="thread")
            assert [batch["size"].tolist() for batch in loader] == [[len(batch["x"])] * len(batch["x"]) for batch in loader]


def test_columns_still_come_in_one_go_where_only_batches_are_mapped() -> None:
    """A source of columns is not asked for examples."""
    from arrayfeed import ArraySource

    source = ArraySource({"x": np.arange(100)})
    loader = DataLoader(source, batch_size=8, transforms=BatchMap(lambda batch: {"x": batch["x"] * 2}))
    assert numbers_in(list(loader)) == [2 * number for number in range(100)]
    assert loader._fetcher.takes_runs


# -- dtypes do not depend on what is in a chunk -----------------------------------------------------------------------


MIXED: dict[str, Any] = {
    "int32 and int64": lambda k: np.int32(k) if k % 5 else np.int64(k),
    "int and float": lambda k: k if k % 5 else k + 0.5,
    "int and big int": lambda k: k if k % 5 else 2**63 + k,
    "uint8 and int8": lambda k: np.uint8(k) if k % 5 else np.int8(k),
    "text": lambda k: "x" * k,
    "texts of numpy": lambda k: np.str_("x" * k),
    "None": lambda k: None,
    "lists": lambda k: [k, k + 1],
    "dates": lambda k: np.datetime64(k, "D"),
}


@pytest.mark.parametrize("name", MIXED)
def test_a_batch_is_what_its_own_examples_stack_to(name: str) -> None:
    """Whatever else was in the chunks it was cut from: as one batch of the list of what is kept, at every batch size."""
    values = [{"v": MIXED[name](k), "k": k} for k in range(40)]
    kept = [value for value in values if value["k"] % 3]
    for batch_size in (1, 2, 3, 4, 7):
        filtered = DataLoader(values, batch_size=batch_size, transforms=Filter(lambda value: value["k"] % 3))
        assert difference(list(filtered), list(DataLoader(kept, batch_size=batch_size))) == ""


def test_shapes_may_change_from_batch_to_batch() -> None:
    """A chunk with two shapes is no error, a batch is; it names field and records."""
    values = [{"v": np.zeros(2 if k < 8 else 3), "k": k} for k in range(16)]
    even = Filter(lambda value: value["k"] % 2)
    assert [batch["v"].shape for batch in DataLoader(values, batch_size=4, transforms=even)] == [(4, 2), (4, 3)]

    with pytest.raises(ValueError, match=r"field 'v': example 0 of the batch has shape \(2,\), example 4 has") as caught:
        list(DataLoader(values, batch_size=5, transforms=even))
    assert "example 0 is record 1 and example 4 is record 9 of a list of 16" in str(caught.value.__notes__)


def test_collate_fn_gets_full_lists() -> None:
    """Behind a filter too, and with worker processes."""
    for num_workers in (0, 2):
        loader = make(60, 8, Filter(keep), collate_fn=lambda rows: [row["x"] for row in rows], num_workers=num_workers)
        batches = list(loader)
        loader.close()

        assert [len(batch) for batch in batches[:-1]] == [8] * (len(batches) - 1)
        assert [x for batch in batches for x in batch] == [x for x in IndexSampler(60, shuffle=True) if keep({"x": x})]


def test_a_chunk_that_is_a_batch_is_not_copied() -> None:
    """Where a filter keeps all, batches are the very arrays that were made."""
    made: list[Any] = []

    class Keeping(Listed):
        def read_batch(self, indices: Any) -> Any:
            made.append({"x": np.asarray(indices)})
            return made[-1]

    loader = DataLoader(Keeping(40), batch_size=8, on_error="skip", prefetch_factor=0)
    assert all(batch["x"] is own["x"] for batch, own in zip(loader, made, strict=False))


# -- what is refused, and errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", [Filter(keep), FlatMap(several)])
def test_a_length_that_nobody_knows_is_no_length(option: Any) -> None:
    """``len`` says why; ``list`` works all the same."""
    loader = make(20, 4, option)
    with pytest.raises(TypeError, match="has no length: how many batches there are is known once all records were read"):
        len(loader)
    assert list(loader)


def test_transforms_in_an_order_that_cannot_be_are_refused() -> None:
    """At once, by their number."""
    with pytest.raises(ValueError, match=r"transforms\[1\] .* works on examples; what stands before it leaves none"):
        make(10, 2, [BatchMap(len), Filter(keep)])
    with pytest.raises(TypeError, match=r"transforms\[1\] is a str; it must be a function of an example, or a transform"):
        make(10, 2, [keep, "flip"])


def test_endless_epochs_that_give_nothing_are_refused() -> None:
    """Rather than searched for ever; a finite pass is just empty."""
    with pytest.raises(ValueError, match="all of epoch 0 gave no batch"):
        next(iter(make(20, 4, Filter(lambda example: False), num_epochs=None)))
    assert list(make(20, 4, Filter(lambda example: False), num_epochs=3)) == []
    with pytest.raises(ValueError, match="all of epoch 0 gave no batch"):
        next(iter(make(20, 15, Filter(keep), num_epochs=None, drop_last=True)))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_error_comes_behind_the_batches_before_it(num_workers: int) -> None:
    """All batches that need no later record come first, at any number of workers; then the error, again and again."""

    def fail(example: Example) -> Example:
        if example["x"] == 33:
            raise KeyError("thirty-three")
        return example

    loader = make(60, 7, [Filter(keep), fail], shuffle=False, num_workers=num_workers)
    iterator = iter(loader)
    before = [x for x in range(33) if keep({"x": x})]
    assert keep({"x": 33})
    assert numbers_in(list(islice(iterator, len(before) // 7))) == before[: len(before) // 7 * 7]
    for _ in range(2):
        with pytest.raises(KeyError, match="thirty-three") as caught:
            next(iterator)
        notes = "\n".join(caught.value.__notes__)
        assert "raised by transforms[1]" in notes
        assert "on record 33 of a Listed of 60: element 33" in notes
        assert "to see it again: loader.reproduce(33, epoch=0, place=33)" in notes
    loader.close()
    with pytest.raises(KeyError):
        loader.reproduce(33, epoch=0, place=33)
    assert len(loader.reproduce(32)) == keep({"x": 32})


def test_reproducing_an_example_gives_what_batches_have() -> None:
    """Random numbers too."""
    loader = make(20, 20, RandomMap(add_noise), seed=3)
    loader.set_epoch(5)
    (batch,) = loader
    place = 4
    record = int(batch["x"][place])
    (example,) = loader.reproduce(record, epoch=5, place=place)

    assert example["noise"].tolist() == batch["noise"][place].tolist()


def test_an_error_of_a_batch_map_names_the_records() -> None:
    """In the worker, and where batches are cut."""

    def fail(batch: Any) -> Any:
        raise ZeroDivisionError("in a batch")

    for transforms in ([BatchMap(fail)], [Filter(keep), BatchMap(fail)]):
        with pytest.raises(ZeroDivisionError) as caught:
            next(iter(make(20, 2, transforms, shuffle=False)))
        first: Sequence[int] = [x for x in range(20) if len(transforms) == 1 or keep({"x": x})][:2]
        assert f"made of records {first[0]}, {first[1]} of a Listed of 20" in caught.value.__notes__[-1]
