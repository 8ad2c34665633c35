"""Packed rows hold every token of the texts once, say whose it is, and are the same whoever packs, resumed or not."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arrayfeed import BatchMap, DataLoader, Filter, FlatMap, ShardOptions, StateError, merge_states, pack
from arrayfeed.loaders.transforms.pack import first_fit
from arrayfeed.samplers import IndexSampler
from support.equal import difference
from support.texts import read_tokens

LENGTH = 512


def segments_of(batch: dict[str, Any]) -> list[tuple[int, ...]]:
    """Return the tokens of each segment of a batch, row by row; check what is said of them, and of the padding."""
    found = []
    for tokens, segments, positions in zip(batch["tokens"], batch["segment_ids"], batch["positions"], strict=True):
        used = segments > 0
        assert not tokens[~used].any() and not positions[~used].any()
        assert not used[used.argmin() :].any() or used.all()  # padding stands at the end
        for segment in range(1, segments.max(initial=0) + 1):
            chosen = np.flatnonzero(segments == segment)
            assert (np.diff(chosen) == 1).all()
            assert positions[chosen].tolist() == list(range(len(chosen)))
            found.append(tuple(tokens[chosen].tolist()))
    return found


def make(strategy: Any, *, length: int = LENGTH, batch_size: int = 4, window: int = 64, **options: Any) -> DataLoader:
    packing = pack(length, strategy=strategy, window=window, overlong=options.pop("overlong", "split"))
    transforms = [*options.pop("before", ()), packing]
    options = {"shuffle": True, "seed": 1} | options
    return DataLoader(read_tokens(), batch_size=batch_size, transforms=transforms, **options)


def order() -> list[int]:
    return list(IndexSampler(len(read_tokens()), shuffle=True, seed=1))


# -- what is in the rows ----------------------------------------------------------------------------------------------


def test_concatenated_rows_are_the_texts_end_to_end() -> None:
    """Cut every 512 tokens; only the last row is padded."""
    batches = list(make("concat"))
    stream = np.concatenate([read_tokens()[index] for index in order()])
    rows = np.concatenate([batch["tokens"] for batch in batches])

    assert rows.shape == (-(-len(stream) // LENGTH), LENGTH)
    assert rows.reshape(-1)[: len(stream)].tolist() == stream.tolist()
    assert not rows.reshape(-1)[len(stream) :].any()
    assert [len(batch["tokens"]) for batch in batches[:-1]] == [4] * (len(batches) - 1)
    texts = iter([read_tokens()[index].tolist() for index in order()])
    rest: list[int] = []
    for segment in (segment for batch in batches for segment in segments_of(batch)):
        rest = rest or next(texts)
        assert tuple(rest[: len(segment)]) == segment
        rest = rest[len(segment) :]


def test_fitted_rows_hold_every_text_whole() -> None:
    """Each text is one segment, or several where it is longer than a row; windows are packed one after the other."""
    batches = list(make("first_fit"))
    found = [segment for batch in batches for segment in segments_of(batch)]
    expected = [tuple(text[start : start + LENGTH].tolist()) for text in read_tokens() for start in range(0, len(text), LENGTH)]

    assert Counter(found) == Counter(expected)
    assert {batch["tokens"].dtype for batch in batches} == {np.dtype(np.int32)}
    assert all(batch[key].dtype == np.int32 for batch in batches for key in ("segment_ids", "positions"))


def test_fitting_wastes_little() -> None:
    """Of real texts in windows of 256, under a tenth of the rows is padding; a row for each text would waste far more."""
    rows = np.concatenate([batch["segment_ids"] for batch in make("first_fit", window=256, length=1024)])
    tokens = sum(map(len, read_tokens()))

    assert (rows > 0).sum() == tokens
    assert 1 - tokens / rows.size < 0.1
    assert 1 - tokens / (1024 * len(read_tokens())) > 0.5


@given(lengths=st.lists(st.integers(1, 10), max_size=40))
def test_first_fit_is_that_of_the_plain_loop(lengths: list[int]) -> None:
    """Each sequence goes into the first row that has room."""
    rows: list[list[int]] = []
    homes, starts = [], []
    for length in lengths:
        home = next((k for k, row in enumerate(rows) if sum(row) + length <= 10), len(rows))
        rows += [[]] if home == len(rows) else []
        homes.append(home)
        starts.append(sum(rows[home]))
        rows[home].append(length)

    assert first_fit(lengths, 10) == (homes, starts)


@pytest.mark.parametrize("strategy", ["first_fit", "concat"])
def test_several_fields_are_packed_side_by_side(strategy: Any) -> None:
    """Of more than one axis too; each with its own padding, which may be given by name."""
    rng = np.random.default_rng(0)
    examples = [{"ids": rng.integers(1, 9, n), "vectors": rng.random((n, 2))} for n in rng.integers(0, 12, 30)]
    packing = pack(16, strategy=strategy, window=8, pad_value={"vectors": -1.0})
    batches = list(DataLoader(examples, batch_size=3, transforms=packing))
    used = [batch["segment_ids"] > 0 for batch in batches]

    assert all(batch["vectors"].shape == (*batch["ids"].shape, 2) for batch in batches)
    assert all((batch["vectors"][~own] == -1).all() and (batch["ids"][~own] == 0).all() for batch, own in zip(batches, used))  # noqa: B905
    pairs = [(batch["ids"][own].tolist(), batch["vectors"][own].tolist()) for batch, own in zip(batches, used, strict=True)]
    found = Counter((token, tuple(vector)) for ids, vectors in pairs for token, vector in zip(ids, vectors, strict=True))
    assert found == Counter(
        (int(token), tuple(vector.tolist()))
        for example in examples
        for token, vector in zip(example["ids"], example["vectors"], strict=True)
    )


@pytest.mark.parametrize(("overlong", "kept"), [("truncate", [4, 2]), ("drop", [2]), ("split", [4, 3, 2])])
def test_what_is_longer_than_a_row(overlong: Any, kept: list[int]) -> None:
    """Is cut, left out, or goes into several rows; by default it is an error that names the record."""
    examples = [[1] * 7, [2] * 2]
    (batch,) = DataLoader(examples, batch_size=9, transforms=pack(4, overlong=overlong))
    assert sorted(map(len, segments_of(batch)), reverse=True) == kept

    with pytest.raises(ValueError, match="a sequence of 7 does not fit into rows of 4") as caught:
        list(DataLoader(examples, transforms=pack(4)))
    assert "record 0 of a list of 2" in "".join(caught.value.__notes__)
    (batch,) = DataLoader(examples, batch_size=9, transforms=pack(4), on_error="skip")
    assert segments_of(batch) == [(2, 2)]


# -- who packs, and when ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["first_fit", "concat"])
def test_any_workers_pack_alike(strategy: Any) -> None:
    """With a filter and a flat map before it, and a batch map behind."""
    before = (Filter(lambda text: len(text) % 3), FlatMap(lambda text: [text, text[:5]]))
    found = []
    for workers in ({}, {"prefetch_factor": 0}, {"num_workers": 2}, {"num_workers": 3, "worker_type": "thread"}):
        loader = make(strategy, before=before, num_epochs=2, **workers)
        found.append(list(loader))
        loader.close()

    assert all(difference(other, found[0]) == "" for other in found[1:])
    doubled = DataLoader(
        read_tokens(), batch_size=4, transforms=[pack(2000), BatchMap(lambda batch: {"t": batch["tokens"] * 2})]
    )
    assert all(list(batch) == ["t"] and batch["t"].shape[1] == 2000 for batch in doubled)


@pytest.mark.parametrize("strategy", ["first_fit", "concat"])
@settings(max_examples=40)
@given(steps=st.integers(0, 60), batch_size=st.integers(1, 7), other=st.integers(1, 7), again=st.integers(0, 9))
def test_states_are_exact_to_the_row(strategy: Any, steps: int, batch_size: int, other: int, again: int) -> None:
    """Stopped anywhere, resumed with another batch size, stopped and resumed again: the rows that would have come."""

    texts = read_tokens()[:60]

    def open_small(size: int) -> DataLoader:
        packing = pack(128, strategy=strategy, window=16, overlong="split")
        return DataLoader(texts, batch_size=size, shuffle=True, transforms=packing, prefetch_factor=0)

    def rows(batches: Iterable[Any]) -> list[Any]:
        return [row for batch in batches for row in zip(batch["tokens"].tolist(), batch["positions"].tolist(), strict=True)]

    found: list[Any] = []
    state: dict[str, Any] | None = None
    for size, count in ((batch_size, steps), (other, again), (3, 1000)):
        loader = open_small(size)
        if state is not None:
            loader.load_state_dict(json.loads(json.dumps(state)))
        found += rows(islice(loader, count))
        state = loader.state_dict()
        assert len(json.dumps(state)) < 2000
        if state["epoch"]:
            break

    assert found == rows(open_small(50))


def open_ranks(strategy: Any, ranks: int, **options: Any) -> list[DataLoader]:
    count = len(read_tokens())
    samplers = [IndexSampler(count, shuffle=True, seed=1, shard=ShardOptions(rank, ranks)) for rank in range(ranks)]
    return [make(strategy, sampler=sampler, shuffle=False, **options) for sampler in samplers]


def test_concatenated_ranks_merge_anywhere() -> None:
    """In the middle of a text too: three ranks stop, two go on, and every token came once."""
    loaders = open_ranks("concat", 3, batch_size=2)
    batches = [next(iterator) for iterator in map(iter, loaders) for _ in range(3)]
    merged = json.loads(json.dumps(merge_states([loader.state_dict() for loader in loaders])))
    assert merged["begun"]
    for loader in open_ranks("concat", 2, batch_size=3):
        loader.load_state_dict(merged)
        batches += loader

    found = Counter(token for batch in batches for segment in segments_of(batch) for token in segment)
    assert found == Counter(np.concatenate(read_tokens()).tolist())


def test_fitted_ranks_merge_between_windows_only() -> None:
    """Among a window's rows, other ranks are refused, saying so; the same ones go on, with the same window."""
    loaders = open_ranks("first_fit", 2, window=16, length=2000, batch_size=1)
    iterators = [iter(loader) for loader in loaders]
    for iterator in iterators:
        next(iterator)
    states = [loader.state_dict() for loader in loaders]
    with pytest.raises(StateError, match="rank 0 stands among the rows that 16 neighbouring records were packed into"):
        merge_states(states)
    with pytest.raises(StateError, match="that 16 neighbouring records were packed into; here it is 32"):
        open_ranks("first_fit", 2, window=32)[0].load_state_dict(states[0])
    for loader, state, iterator in zip(open_ranks("first_fit", 2, window=16, length=2000), states, iterators, strict=True):
        loader.load_state_dict(state)
        assert [s for batch in loader for s in segments_of(batch)] == [s for batch in iterator for s in segments_of(batch)]


def test_fitted_ranks_merge_where_a_window_ends() -> None:
    """Windows of which each makes one row: any step is such a place."""
    loaders = open_ranks("first_fit", 3, window=1, length=2000, batch_size=2)
    batches = [next(iterator) for iterator in map(iter, loaders) for _ in range(2)]
    merged = merge_states([loader.state_dict() for loader in loaders])
    for loader in open_ranks("first_fit", 2, window=4, length=2000):
        loader.load_state_dict(merged)
        batches += loader

    assert Counter(s for batch in batches for s in segments_of(batch)) == Counter(tuple(t.tolist()) for t in read_tokens())


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 0}, "length is 0"),
        ({"length": 4, "window": 0}, "window is 0"),
        ({"length": 4, "strategy": "best_fit"}, "strategy is 'best_fit'"),
        ({"length": 4, "overlong": "ignore"}, "overlong is 'ignore'"),
    ],
)
def test_choices_that_there_are_not_are_refused(options: dict[str, Any], message: str) -> None:
    """At once."""
    with pytest.raises(ValueError, match=message):
        pack(**options)


def test_what_cannot_be_packed_names_fields_and_record() -> None:
    """Fields of unequal lengths, single numbers, unlike fields; and a collate_fn beside it."""
    for example in ({"a": [1, 2], "b": [1]}, {"a": [1], "n": 3}, {}, {"positions": [1]}):
        with pytest.raises(ValueError, match="pack needs fields of one length") as caught:
            list(DataLoader([example], transforms=pack(8)))
        assert "record 0 of a list of 1" in "".join(caught.value.__notes__)
    with pytest.raises(ValueError, match="pack needs the same fields of all examples"):
        list(DataLoader([{"a": [1]}, {"b": [1]}], batch_size=2, transforms=pack(8)))
    with pytest.raises(ValueError, match="pack makes the batches itself"):
        DataLoader([[1]], transforms=pack(8), collate_fn=list)
