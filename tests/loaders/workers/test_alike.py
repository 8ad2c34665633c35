"""Small batches that are alike travel as one array a field, and arrive as they were."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import numpy as np
import pytest

import arrayfeed
from arrayfeed import DataLoader
from arrayfeed.datasource.deferred import Deferred
from arrayfeed.loaders.workers.alike import stack_alike
from support.equal import difference
from support.worker_cases import Numbers

leaves = arrays.arrays(
    st.sampled_from(["?", "u1", "i2", "f2", "f4", "i8", "c8", ">i4", "M8[s]", "U2"]),
    st.sampled_from([(), (2,), (2, 3), (0, 3)]),
)
batch = st.dictionaries(st.sampled_from("ab") | st.just(1), leaves | st.just("text"), max_size=2)
runs = st.lists(batch, min_size=0, max_size=4) | batch.flatmap(lambda one: st.lists(st.just(one), min_size=2, max_size=4))


@hypothesis.given(run=runs)
def test_batches_are_split_as_they_were_or_not_stacked_at_all(run: list[Any]) -> None:
    """Whatever they hold: keys in their order, types, dtypes, shapes and bits, and after a pickle as before."""
    stacked = stack_alike(run, np.empty)
    if stacked is not None:
        assert not difference(stacked.split(), run)
        assert [[*batch] for batch in stacked.split()] == [[*batch] for batch in run]
        assert not difference(pickle.loads(pickle.dumps(stacked)).split(), run)


def test_usual_runs_are_stacked_and_only_those() -> None:
    """Arrays of numbers; no run of one, other shapes, dtypes, orders of keys, scalars, text, subclasses, other structures."""

    def make(**more: Any) -> dict[str, Any]:
        return {"image": np.ones((4, 3), np.uint8), "label": np.arange(4)} | more

    stacked = stack_alike([make(), make(), make()], np.empty)
    assert stacked is not None and stacked.columns["image"].shape == (3, 4, 3)
    for other in (
        make(label=np.arange(5)),
        make(label=np.arange(4, dtype=np.int32)),
        make(label=np.int64(1)),
        make(label=np.arange(4, dtype=">i8")),
        make(label=np.arange(4).view(np.recarray)),
        make(image=np.ones((3, 4), np.uint8).T),
        make(more=np.ones(4)),
        dict(reversed(make().items())),
        [make()],
        np.ones(4),
    ):
        assert stack_alike([make(), other], np.empty) is None
    assert stack_alike([make()], np.empty) is None
    assert stack_alike([], np.empty) is None
    assert stack_alike([{}, {}], np.empty) is None


@pytest.mark.usefixtures("no_leaks")
def test_each_batch_of_a_run_can_be_kept_and_written_to_by_itself() -> None:
    """Views of one array are nobody else's: what is done to one batch is not seen in another."""
    options: dict[str, Any] = {"batch_size": 4, "num_epochs": 3}
    expected = list(DataLoader(Numbers(100), **options))
    kept = []
    for found, sound in zip(DataLoader(Numbers(100), num_workers=1, **options), expected, strict=True):
        assert not difference(found, sound)
        found["x"][:] = -1
        kept.append(found)

    assert all((batch["x"] == -1).all() for batch in kept)


@pytest.fixture
def images(tmp_path: Path) -> arrayfeed.ExampleDataSource:
    """Return 700 raw images with labels, all read once, so that batches of them need only be gathered."""
    image = arrayfeed.features.Tensor(shape=(40, 30), dtype=np.uint8, encoding="bytes")
    features: dict[str, Any] = {"image": image, "label": np.int64}
    with arrayfeed.DatasetWriter(tmp_path / "data", features, codec="none", shard_records=300) as writer:
        for number in range(700):
            writer.write({"image": np.full((40, 30), number % 251, np.uint8), "label": number % 7})
    source = arrayfeed.open(tmp_path / "data", split="train")
    source.read_batch(np.arange(700))
    return source


def test_batches_that_are_still_to_be_gathered_are_stacked_meanwhile(images: arrayfeed.ExampleDataSource) -> None:
    """They equal those that are gathered first; of batches that differ in length, nothing is gathered for nothing."""
    indices = np.random.default_rng(0).permutation(700)
    allocated: list[tuple[int, ...]] = []

    def allocate(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        allocated.append(shape)
        return np.empty(shape, dtype)

    for bounds, shapes in (([0, 128, 256, 384], [(3, 128, 40, 30), (3, 128)]), ([0, 128, 256, 300], []), ([0, 128], [])):
        deferred = images.defer_batches(indices, bounds)
        assert deferred is not None and type(deferred[0]) is Deferred
        allocated.clear()
        stacked = stack_alike(deferred, allocate)
        assert allocated == shapes and (stacked is None) == (not shapes)
        if stacked is not None:
            assert not difference(stacked.split(), images.read_batches(indices, bounds))


@pytest.mark.usefixtures("no_leaks")
def test_workers_gather_what_this_process_does(images: arrayfeed.ExampleDataSource) -> None:
    """Several epochs, whose last batches are short; alone, too, where a run is one batch."""
    for batch_size in (32, 500):
        options: dict[str, Any] = {"batch_size": batch_size, "shuffle": True, "num_epochs": 3}
        loader = DataLoader(images, num_workers=2, **options)
        assert not difference(list(loader), list(DataLoader(images, **options)))
        loader.close()
    images.close()
