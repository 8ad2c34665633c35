"""Loaders tell a source what they will read, in time and not too much of it; batches do not depend on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from arrayfeed import DataLoader, SequenceSource
from arrayfeed.datasource.source import Indices
from arrayfeed.samplers import IndexSampler
from support.equal import difference

pytestmark = pytest.mark.usefixtures("no_leaks")


class Far(SequenceSource[Any]):
    """Numbers that lie far away, by its own account: so many bytes each. Keeps what it was told and asked, in order."""

    def __init__(self, count: int, record_bytes: int) -> None:
        super().__init__(range(count))
        self.record_bytes = record_bytes
        self.events: list[tuple[str, list[int]]] = []

    def _read_many(self, indices: Indices) -> list[Any]:
        self.events.append(("read", indices.tolist()))
        return super()._read_many(indices)

    def _will_need(self, indices: Indices) -> int:
        self.events.append(("told", indices.tolist()))
        return self.record_bytes * indices.size


def order_of(source: Far, epochs: int) -> list[list[int]]:
    sampler = IndexSampler(len(source), shuffle=True, seed=7)
    orders = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        orders.append(sampler.block(0, len(source)).tolist())
    return orders


def load(source: Any, **options: Any) -> list[Any]:
    # With a function of the user's own, each batch is read by itself.
    options = {"batch_size": 16, "shuffle": True, "seed": 7, "num_epochs": 3, "collate_fn": np.array, **options}
    with_loader = DataLoader(source, **options)
    batches = list(with_loader)
    with_loader.close()
    return batches


@pytest.mark.parametrize("options", [{"prefetch_factor": 0}, {}, {"num_workers": 2, "worker_type": "thread"}], ids=str)
@pytest.mark.parametrize("record_bytes", [100_000, 3_000_000, 1 << 30])
def test_every_record_is_told_before_it_is_read(options: dict[str, Any], record_bytes: int) -> None:
    """In the sampler's order, at most 12 MiB or one record beyond the batch that is read; by one thread none twice."""
    source = Far(200, record_bytes)
    batches = load(source, **options)

    assert difference(batches, load(range(200))) == ""
    events = source.events
    read = [indices for kind, indices in events if kind == "read"]
    expected = [index for epoch in order_of(source, 3) for index in epoch]
    if options.get("num_workers"):
        assert sorted(index for indices in read for index in indices) == sorted(expected)
        for number, (kind, indices) in enumerate(events):
            if kind == "read":
                assert {*indices} <= {index for kind, told in events[:number] if kind == "told" for index in told}
        return
    assert [index for indices in read for index in indices] == expected
    told = [index for kind, indices in events if kind == "told" for index in indices]
    assert told[1:] == expected, "the first by itself, to see whether it is of use"
    ahead = -1
    for kind, indices in events:
        ahead += len(indices) if kind == "told" else -len(indices)
        if kind == "read":
            assert 0 <= ahead <= max(1, (12 << 20) // record_bytes)


def test_a_source_that_has_no_use_for_it_is_hardly_asked() -> None:
    """One record, every ninth run."""
    source = Far(3200, 0)
    load(source, num_epochs=1, prefetch_factor=0)
    told = [indices for kind, indices in source.events if kind == "told"]
    runs = sum(kind == "read" for kind, _ in source.events)
    assert all(len(indices) == 1 for indices in told)
    assert 1 <= len(told) <= runs // 9 + 1


class Broken(Far):
    """Raises when it is told of a record past the middle; reading one raises in its turn."""

    def _will_need(self, indices: Indices) -> int:
        if (indices >= 100).any():
            raise OSError("no such record")
        return super()._will_need(indices)

    def _read_many(self, indices: Indices) -> list[Any]:
        if (indices >= 100).any():
            raise OSError("no such record")
        return super()._read_many(indices)


def test_an_error_of_what_is_ahead_comes_in_its_turn() -> None:
    """Batches before it are delivered, whatever the source says of what comes after them."""
    loader = DataLoader(Broken(200, 100_000), batch_size=10)
    iterator = iter(loader)
    found = [next(iterator) for _ in range(10)]
    assert np.concatenate(found).tolist() == [*range(100)]
    with pytest.raises(OSError, match="no such record"):
        next(iterator)
    loader.close()


def test_what_comes_after_a_single_batch_is_not_told() -> None:
    """A batch made on the spot, as torch's data loaders ask for them, is all that is read."""
    from arrayfeed.loaders.single import make_batch

    source = Far(200, 100_000)
    loader = DataLoader(source, batch_size=16)
    make_batch(loader, 0, 3)
    assert {index for _, indices in source.events for index in indices} == {*range(48, 64)}
    loader.close()
