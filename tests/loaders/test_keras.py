"""Keras trains on a loader, with any backend."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arrayfeed import DataLoader
from support.digits import write_digits
from support.equal import difference
from support.loading import Listed, write_small

if importlib.util.find_spec("keras") is None:
    pytest.skip("needs keras", allow_module_level=True)
SCRIPT = Path(__file__).parents[1] / "support" / "train_keras.py"
os.environ.setdefault("KERAS_BACKEND", "jax")  # before keras is imported
with pytest.MonkeyPatch.context() as patch:
    patch.setenv("KERAS_HOME", "/nowhere")  # a user's own settings are none of a test's
    from arrayfeed.loaders.keras import as_keras


@pytest.mark.parametrize(("backend", "num_workers"), [("torch", 0), ("jax", 2)])
def test_a_model_trains_and_is_evaluated(backend: str, num_workers: int, tmp_path: Path) -> None:
    """To an accuracy that only training gives. In order, an epoch is a pass, and the loader's state counts them; in Keras's
    order, too. Evaluation under a mask is exact, and agrees with predictions in the order of the data."""
    digits = write_digits(tmp_path / "digits")
    environment = {**os.environ, "KERAS_BACKEND": backend, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(SCRIPT), str(digits), str(num_workers)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
    assert run.returncode == 0, run.stderr
    (told,) = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]

    assert told["backend"] == backend
    assert told["right"] > 0.9
    assert told["exact right"] == pytest.approx(told["right"], abs=1e-6)
    assert (told["state"]["epoch"], told["state"]["position"]) == (4, 0)
    assert 4 * 12 <= told["batches"] <= 4 * 12 + 1  # the first is looked at beforehand
    assert (told["after"]["epoch"], told["after"]["position"]) == (5, 0)


def take(dataset: Any, numbers: Any) -> list[Any]:
    return [dataset[number] for number in numbers]


@pytest.mark.parametrize("options", [{}, {"num_workers": 2, "worker_type": "thread"}, {"num_epochs": 2, "drop_last": True}])
@pytest.mark.parametrize("order", ["in turn", "looked at before", "shuffled"])
def test_passes_are_the_loaders_whatever_order_they_are_asked_for_in(options: Any, order: str, tmp_path: Path) -> None:
    """Batch k of pass n, bit for bit, whether the loader delivers it or it is made on the spot; then the state says n + 1."""
    source = write_small(tmp_path / "small", 50)
    loader, plain = (DataLoader(source, batch_size=8, shuffle=True, seed=4, **options) for _ in range(2))
    dataset = as_keras(loader)
    rng = np.random.default_rng(0)
    for _ in range(3):
        expected = list(plain)
        assert len(dataset) == len(expected)
        if order == "looked at before":
            take(dataset, [0, 1])
        numbers = rng.permutation(len(dataset)) if order == "shuffled" else np.arange(len(dataset))
        found = take(dataset, numbers.tolist())
        dataset.on_epoch_end()
        assert not difference(found, [expected[number] for number in numbers])
    assert loader.state_dict()["epoch"] == 3 * (loader.num_epochs or 1)


def test_a_pass_that_was_resumed_has_what_is_left_of_it() -> None:
    """And the next one is whole again."""
    loader, whole = (DataLoader(Listed(20), batch_size=3, shuffle=True) for _ in range(2))
    iterator = iter(whole)
    for _ in range(4):
        next(iterator)
    loader.load_state_dict(whole.state_dict())
    dataset = as_keras(loader)
    expected = list(iterator)
    assert len(dataset) == 3
    assert not difference(take(dataset, [0, 1, 2]), expected)
    assert not difference(take(dataset, [0]), [next(iter(whole))])
    assert len(dataset) == 7


def test_several_epochs_of_keras_may_share_a_pass() -> None:
    """With steps_per_epoch: the next epoch goes on."""
    dataset = as_keras(DataLoader(Listed(20), batch_size=5))
    take(dataset, [0, 1])
    dataset.on_epoch_end()

    assert take(dataset, [2])[0]["x"].tolist() == [10, 11, 12, 13, 14]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"x": 1, "y": 2, "w": 3}),
        ({"x": "x"}, (1,)),
        ({"x": "x", "y": "y"}, (1, 2)),
        ({"x": ["x", "w"], "y": "y", "sample_weight": "w"}, ({"x": 1, "w": 3}, 2, 3)),
    ],
)
def test_fields_are_inputs_targets_and_weights(fields: Any, expected: Any) -> None:
    """As they were named; without names, batches are left alone."""
    loader = DataLoader([{"x": 1, "y": 2, "w": 3}], collate_fn=lambda examples: examples[0])

    assert as_keras(loader, **fields)[0] == expected


def test_what_keras_cannot_have_is_refused() -> None:
    """With what is missing."""
    with pytest.raises(TypeError, match="endless"):
        as_keras(DataLoader([1], num_epochs=None))
    with pytest.raises(ValueError, match="without x"):
        as_keras(DataLoader([1]), y="label")
    with pytest.raises(TypeError, match="no dicts"):
        as_keras(DataLoader([1]), x="image")[0]
    with pytest.raises(IndexError, match="1 batches"):
        as_keras(DataLoader([1]))[1]
