"""Work that only Python's lock keeps from running beside the consumer's is done by him, if he would have to wait for it."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest

import arrayfeed
from arrayfeed.loaders.fetch import Fetcher
from arrayfeed.loaders.plan import Run
from arrayfeed.loaders.runs import RunMaker
from arrayfeed.loaders.state.order import Order
from arrayfeed.loaders.transforms.chain import Chain
from arrayfeed.loaders.workers.prefetch import Prefetcher
from arrayfeed.samplers import IndexSampler

pytestmark = pytest.mark.usefixtures("no_leaks")


@pytest.mark.parametrize("ahead", [1, 2, 5])
def test_who_waits_for_light_work_does_it_himself_as_long_as_it_is_light(ahead: int) -> None:
    """In order, all of it, never more ahead than there may be; heavy work goes back to the thread."""
    made_by: list[str] = []
    holder: list[Prefetcher[int]] = []
    taken = 0

    def work(job: int) -> int:
        assert len(made_by) <= taken + ahead
        made_by.append(threading.current_thread().name)
        while made_by[-1] != "MainThread" and not (holder and holder[0]._channel.is_awaited):
            time.sleep(0.0001)
        return job

    prefetcher = Prefetcher(iter(range(90)), work, ahead=ahead, is_light=lambda job: not 40 <= job < 60)
    holder.append(prefetcher)
    for taken, job in enumerate(prefetcher, start=1):
        assert job == taken - 1

    thread, caller = ["arrayfeed-prefetch"], ["MainThread"]
    assert made_by == thread * ahead + caller * (41 - ahead) + thread * (19 + ahead) + caller * (30 - ahead)


def test_light_work_stays_with_the_thread_while_nobody_waits_for_it() -> None:
    """Training that takes longer than a batch finds the next one there."""
    made_by: list[str] = []

    def work(job: int) -> int:
        made_by.append(threading.current_thread().name)
        return job

    prefetcher = Prefetcher(iter(range(20)), work, ahead=2, is_light=lambda job: True)
    for taken in range(20):
        while prefetcher.ready < min(2, 20 - taken):
            time.sleep(0.0001)
        next(prefetcher)

    assert made_by == ["arrayfeed-prefetch"] * 20


def test_an_error_of_light_work_comes_in_its_turn() -> None:
    """And the prefetcher is over, as after one of the thread."""

    def work(job: int) -> int:
        if job == 30:
            raise OSError("thirty")
        return job

    prefetcher = Prefetcher(iter(range(90)), work, ahead=2, is_light=lambda job: True)
    assert [next(prefetcher) for _ in range(30)] == list(range(30))
    with pytest.raises(OSError, match="thirty"):
        next(prefetcher)
    assert list(prefetcher) == []


def test_runs_of_small_batches_are_light_once_all_records_are_known(tmp_path: Path) -> None:
    """Which is when each was read once; one batch by itself is never counted as such, nor are runs with transforms."""
    image = arrayfeed.features.Tensor(shape=(40, 30), dtype=np.uint8, encoding="bytes")
    with arrayfeed.DatasetWriter(tmp_path, {"in": {"image": image}, "label": np.int64}, codec="none") as writer:
        for number in range(3000):
            writer.write({"in": {"image": np.full((40, 30), number % 251, np.uint8)}, "label": number % 7})
    source = arrayfeed.open(tmp_path, split="train")
    order = Order(IndexSampler(3000, shuffle=True, num_epochs=None))
    maker = RunMaker(Fetcher(source), order, defers="all")

    assert not maker.make(Run(0, (0, 10))).is_light
    assert not maker.make(Run(0, (10, 20, 30))).is_light
    source.read_batch(np.arange(3000))
    assert maker.max_batches() == 64
    assert maker.make(Run(0, (30, 40, 50))).is_light
    assert maker.max_batches() == 512  # nothing is left to wait for in a longer run
    assert not maker.make(Run(0, (50, 60))).is_light
    transforming = RunMaker(Fetcher(source, Chain([dict], 0)), order, defers="all")
    assert not transforming.make(Run(1, (10, 20, 30))).is_light
    source.close()
