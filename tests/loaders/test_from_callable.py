"""Loaders over a function of the step: made in workers, the same from any, with state."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import numpy as np
import pytest

from arrayfeed import DataLoader, ShardOptions
from arrayfeed.samplers import RecordRandom, StateError
from support.equal import difference
from support.function_cases import draw


def plain(steps: Any, *, seed: int = 0) -> list[Any]:
    """Return what a loop without a loader makes."""
    return [draw(step, RecordRandom(seed).generator(0, step)) for step in steps]


@pytest.mark.parametrize(
    "options", [{}, {"prefetch_factor": 0}, {"num_workers": 2}, {"num_workers": 3, "worker_type": "thread"}]
)
def test_batches_are_what_the_function_returns_step_by_step(options: Any, no_leaks: None) -> None:
    """The same from any number and type of workers, for a stated number of steps or for ever; each ``for`` begins anew."""
    finite = DataLoader.from_callable(draw, steps=7, seed=5, **options)
    endless = DataLoader.from_callable(draw, seed=5, **options)
    expected = plain(range(7), seed=5)

    assert len(finite) == 7
    assert not difference(list(finite), expected)
    assert not difference(list(finite), expected)
    assert not difference(list(islice(endless, 7)), expected)
    with pytest.raises(TypeError, match="endless"):
        len(endless)
    finite.close()
    endless.close()


def test_buffers_are_not_used_again() -> None:
    """Each batch is the user's: what is kept stays as it was."""
    loader = DataLoader.from_callable(draw, steps=200, num_workers=2)
    kept = list(loader)
    loader.close()

    assert not difference(kept, plain(range(200)))


def test_the_state_is_the_next_step() -> None:
    """Saved anywhere, as JSON, it goes on there, with other workers too."""
    loader = DataLoader.from_callable(draw, seed=1)
    iterator = iter(loader)
    for _ in range(1000):
        next(iterator)
    state = json.loads(json.dumps(loader.state_dict()))
    other = DataLoader.from_callable(draw, seed=1, num_workers=2, worker_type="thread")
    other.load_state_dict(state)

    assert not difference(list(islice(other, 3)), plain(range(1000, 1003), seed=1))
    with pytest.raises(StateError):
        DataLoader.from_callable(draw, seed=2).load_state_dict(state)


def test_ranks_take_turns_with_the_steps() -> None:
    """So that no two see the same, and a state of two ranks goes on with one."""
    loaders = [DataLoader.from_callable(draw, steps=10, shard=ShardOptions(rank, 2)) for rank in range(2)]
    steps = [[int(batch["step"][0]) for batch in loader] for loader in loaders]
    for loader in loaders:
        next(iter(loader))
    alone = DataLoader.from_callable(draw, steps=10)
    alone.load_state_dict(loaders[0].state_dict())

    assert steps == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]
    assert loaders[0].state_dict() == loaders[1].state_dict()
    assert int(next(iter(alone))["step"][0]) == 2


def test_any_batch_will_do() -> None:
    """It is handed over as it is: nothing is stacked, no axis is added."""
    batches = list(DataLoader.from_callable(lambda step, rng: (step, "text", [np.zeros(step)]), steps=3))

    assert [batch[:2] for batch in batches] == [(0, "text"), (1, "text"), (2, "text")]
    assert [batch[2][0].shape for batch in batches] == [(0,), (1,), (2,)]


def test_an_error_names_the_step() -> None:
    """It is the function's own, in its turn."""

    def fail(step: int, rng: np.random.Generator) -> int:
        return 1 // (3 - step)

    iterator = iter(DataLoader.from_callable(fail, seed=9))
    assert [next(iterator) for _ in range(3)] == [0, 0, 1]
    with pytest.raises(ZeroDivisionError) as caught:
        next(iterator)
    notes = " ".join(caught.value.__notes__)
    assert "record 3 of FunctionSource(" in notes
    assert "seed=9" in notes


@pytest.mark.parametrize(("arguments", "message"), [((3,), "function of"), ((draw, 0), "at least 1"), ((draw, 2.5), "whole")])
def test_what_is_no_function_or_number_is_refused(arguments: Any, message: str) -> None:
    """At once."""
    function, *steps = arguments
    with pytest.raises((TypeError, ValueError), match=message):
        DataLoader.from_callable(function, steps=steps[0] if steps else None)


@pytest.mark.parametrize(
    "source", [[{"x": 3}, {"x": 4}], ({"x": 3}, {"x": 4}), np.array([3, 4])], ids=["list", "tuple", "array"]
)
def test_anything_with_a_length_and_items_is_a_source(source: Any) -> None:
    """Lists, tuples and NumPy arrays."""
    (batch,) = DataLoader(source, batch_size=2)

    assert (batch["x"] if isinstance(batch, dict) else batch).tolist() == [3, 4]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_torch_dataset_is_a_source(num_workers: int) -> None:
    """Its tensors come as arrays, or as tensors where that is asked for."""
    torch = pytest.importorskip("torch")
    dataset = torch.utils.data.TensorDataset(torch.arange(6.0).reshape(3, 2), torch.arange(3))
    loader = DataLoader(dataset, batch_size=3, output="torch", num_workers=num_workers, worker_type="thread")
    ((rows, numbers),) = loader
    loader.close()

    assert rows.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert numbers.tolist() == [0, 1, 2]
