"""The first batch is made by all workers together, and is the batch that one of them would have made."""

from __future__ import annotations

import itertools
import time
from typing import Any

import hypothesis
import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import numpy as np
import pytest

from arrayfeed import DataLoader
from arrayfeed.datasource.columns import stack
from arrayfeed.loaders.plan import Run
from arrayfeed.loaders.workers.parts import divide_first, join
from support.equal import difference
from support.worker_cases import EverySort, Fail, Numbers, Pair, Sleep, started_workers

pytestmark = [
    pytest.mark.usefixtures("no_leaks"),
    # Other tests of this process import JAX, which warns of any fork, and newer Pythons warn of its threads.
    pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]

KINDS = ("process", "thread")

numbers = st.one_of(
    st.integers(-(2**70), 2**70),
    st.booleans(),
    st.floats(allow_nan=False),
    st.text(max_size=2),
    arrays.arrays(st.sampled_from(["u1", "i2", "u2", "f2", "f4", "i8", ">i4", "M8[s]"]), st.sampled_from([(), (2,), (0, 3)])),
)
examples = st.lists(st.tuples(numbers, st.just(1) | numbers), min_size=2, max_size=6)


@hypothesis.given(examples=examples, cut=st.integers(1, 5))
def test_parts_are_joined_to_what_the_whole_stacks_to_or_not_at_all(examples: list[Any], cut: int) -> None:
    """Whatever the examples: the same types, shapes and bits, or None, where somebody has to look at all of them at once."""
    pairs = [{"a": left, "b": Pair(right, [1.0])} for left, right in examples]
    try:
        parts = [stack(part) for part in (pairs[:cut], pairs[cut:]) if part]
    except (ValueError, TypeError):  # none of these has a common type or shape
        return
    joined = join(parts)
    if joined is not None:
        assert not difference(joined, stack(pairs))


def test_usual_batches_can_be_joined() -> None:
    """Numbers, arrays and text in dicts and named tuples; not arrays of different types or shapes."""
    usual = [{"a": k, "b": Pair(np.full((2, 3), k, np.float32), "text")} for k in range(7)]
    assert join([stack(usual[:3]), stack(usual[3:5]), stack(usual[5:])]) is not None
    for one, other in [(np.int8(0), np.int16(0)), (np.zeros(2), np.zeros(3)), (1, "one"), ({"a": 1}, {"b": 1}), ({}, {})]:
        assert join([stack([one]), stack([other])]) is None


@pytest.mark.parametrize(("size", "parts", "sizes"), [(8, 3, [3, 3, 2]), (2, 4, [1, 1]), (1, 2, [1]), (6, 2, [3, 3])])
def test_a_batch_is_divided_evenly(size: int, parts: int, sizes: list[int]) -> None:
    """End to end, nothing empty; what follows stays as it is."""
    first, count, runs = divide_first(iter([Run(1, (5, 5 + size)), Run(1, (90, 95))]), parts)
    pieces = [*runs]

    assert first == Run(1, (5, 5 + size)) and count == len(sizes)
    assert [piece.bounds[1] - piece.bounds[0] for piece in pieces[:-1]] == sizes
    assert all(left.bounds[1] == right.bounds[0] for left, right in itertools.pairwise(pieces[:-1]))
    assert pieces[-1] == Run(1, (90, 95))


@pytest.mark.parametrize("kind", KINDS)
def test_four_workers_give_the_first_batch_in_well_under_half_the_time(kind: Any) -> None:
    """A batch that takes one worker 0.8 s, by workers that have started already; measured side by side."""
    seconds: dict[int, float] = {}
    for workers in (1, 4):
        options: dict[str, Any] = {"batch_size": 8, "num_workers": workers, "worker_type": kind}
        loader = DataLoader(Numbers(32), transforms=Sleep(0.1), **options)
        if kind == "process":
            started_workers(loader)
        next(iter(loader))
        while kind == "process" and loader._workers._open_pool()._board.tickets.any():
            time.sleep(0.01)  # until what was ordered ahead of the batch that was left is made
        start = time.perf_counter()
        iterator = iter(loader)
        batch = next(iterator)
        seconds[workers] = time.perf_counter() - start
        del iterator
        assert batch["x"][:, 0].tolist() == [*range(8)]
        loader.close()

    assert seconds[4] < 0.45 * seconds[1]


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_joined_comes_whole(kind: Any) -> None:
    """Types that only all examples together decide, and an error that names two of them: as without workers."""
    for source in ([1, 2**63, 2, -3], [np.int8(1), np.int8(2), np.int32(3), np.int32(4)], EverySort(4)):
        options: dict[str, Any] = {"batch_size": 4, "collate_fn": None}
        found = next(iter(DataLoader(source, num_workers=2, worker_type=kind, **options)))
        expected = next(iter(DataLoader(source, **options)))
        if isinstance(source, EverySort):
            found, expected = (batch | {"labelled": vars(batch["labelled"])} for batch in (found, expected))
        assert not difference(found, expected)
    ragged = [np.zeros(2), np.zeros(2), np.zeros(3), np.zeros(3)]
    with pytest.raises(ValueError, match="example 2 has shape") as caught:
        next(iter(DataLoader(ragged, batch_size=4, num_workers=2, worker_type=kind)))
    assert "example 0 is record 0 and example 2 is record 2" in "\n".join(caught.value.__notes__)


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_in_a_part_is_the_batchs(kind: Any) -> None:
    """It comes once for each time that the batch is asked for, and nothing is lost."""
    iterator = iter(DataLoader(Numbers(8), batch_size=4, num_workers=3, worker_type=kind, transforms=Fail(2)))
    for _ in range(2):
        with pytest.raises(ValueError, match="no 2 here"):
            next(iterator)
