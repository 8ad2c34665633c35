"""The loader knows what it delivered, and how long training waited for it."""

from __future__ import annotations

import time
from typing import Any

import pytest

from arrayfeed import DataLoader
from arrayfeed.datasource import laps
from arrayfeed.loaders.telling import LoaderStats
from support.loading import Listed


def use(loader: DataLoader, *, seconds: float) -> LoaderStats:
    """Return the figures of a pass whose batches take ``seconds`` each to be used."""
    for _ in loader:
        time.sleep(seconds)
    return loader.stats()


@pytest.mark.parametrize("prefetch_factor", [0, 2])
def test_training_that_waits_for_a_slow_source_is_told_so(prefetch_factor: int) -> None:
    """Nearly all of its time goes by in ``next``; the time to make batches is about the same."""
    stats = use(DataLoader(Listed(20, delay_s=0.01), batch_size=2, prefetch_factor=prefetch_factor), seconds=0)

    assert stats.waiting_share > 0.9
    assert 0.2 <= stats.fetch_s <= 1.5 * stats.elapsed_s
    assert stats.waited_s <= stats.elapsed_s


def test_training_that_is_slow_itself_waits_for_nothing() -> None:
    """The first batch takes a moment, the others are there; without prefetching it waits for each."""
    shares = [
        use(DataLoader(Listed(40, delay_s=0.001), batch_size=2, prefetch_factor=ahead), seconds=0.01).waiting_share
        for ahead in (2, 0)
    ]

    assert shares[0] < 0.12
    assert shares[0] < shares[1]


def test_everything_delivered_is_counted_once() -> None:
    """Batches and records over all passes and iterators; what was read ahead of a break is not."""
    loader = DataLoader(Listed(10), batch_size=4)
    assert (loader.stats().batches, loader.stats().records, loader.stats().waiting_share) == (0, 0, 0.0)
    list(loader)
    assert (loader.stats().batches, loader.stats().records) == (3, 10)
    next(iter(loader))
    stats = loader.stats()

    assert (stats.batches, stats.records) == (4, 14)
    assert stats.records_per_s == pytest.approx(14 / stats.elapsed_s)


def test_time_between_two_passes_is_nobodys() -> None:
    """Validation between epochs is no waiting, and no training either."""
    loader = DataLoader(Listed(10), batch_size=5)
    list(loader)
    before = loader.stats().elapsed_s
    time.sleep(0.3)
    list(loader)

    assert loader.stats().elapsed_s - before < 0.25


def test_figures_are_a_line_to_read() -> None:
    """And stay as they were when they were asked for."""
    stats = LoaderStats(batches=4, records=2000, elapsed_s=2.0, waited_s=0.5, fetch_s=1.0)
    loader: Any = DataLoader(Listed(4))
    old = loader.stats()
    list(loader)

    assert str(stats) == "2000 records in 4 batches, 1,000 records/s; waited 25.0% of 2.00 s"
    assert old.batches == 0


def test_ctrl_c_while_the_watch_is_started_leaves_none_half_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever runs in this thread afterwards has laps as before."""

    def interrupt() -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(laps, "perf_counter_ns", interrupt)
        with pytest.raises(KeyboardInterrupt), laps.Laps():
            pass
    laps.lap(laps.READ)
    with laps.Laps() as watch:
        laps.lap(laps.READ)
    assert watch.spent_ns[laps.READ] > 0
