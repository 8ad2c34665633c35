"""The thread works ahead, never further than it may, and ends with whoever wanted its results."""

from __future__ import annotations

import gc
import math
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arrayfeed import DataLoader
from arrayfeed.datasource.source import BaseSource, Indices
from arrayfeed.loaders.workers.prefetch import Prefetcher
from support import fork_loader
from support.loading import Listed, write_small

pytestmark = pytest.mark.usefixtures("no_leaks")


def settle(source: Listed) -> int:
    """Return how many records were read once no more are."""
    count = -1
    while count != len(source.reads):
        count = len(source.reads)
        time.sleep(0.03)
    return count


# -- how far ahead ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ahead", [0, 1, 2, 5])
def test_never_more_than_so_many_batches_are_read_ahead(ahead: int) -> None:
    """Counted at the source after each step: what was delivered, and ``prefetch_factor`` batches more."""
    source = Listed(60)
    iterator = iter(DataLoader(source, batch_size=3, prefetch_factor=ahead))
    for delivered in range(1, 21):
        next(iterator)
        assert settle(source) == min(60, 3 * (delivered + ahead))


def test_nothing_is_read_before_the_first_batch_is_asked_for() -> None:
    """Making a loader or an iterator starts no thread."""
    source = Listed(10)
    iterator = iter(DataLoader(source))
    assert (settle(source), threads()) == (0, 0)
    next(iterator)

    assert source.threads == {"arrayfeed-prefetch"}


def test_without_prefetching_the_callers_thread_does_the_work() -> None:
    """No other is started."""
    source = Listed(10)
    list(DataLoader(source, prefetch_factor=0))

    assert source.threads == {"MainThread"}


@pytest.mark.parametrize("ahead", [1, 2])
def test_small_batches_are_read_ahead_by_their_bytes(ahead: int) -> None:
    """Runs of at most 2 MiB: one that is being delivered, and ``prefetch_factor`` ahead of it."""

    class Columnar(BaseSource[Any]):
        fingerprint = "00"
        read = 0

        def __len__(self) -> int:
            return 10_000

        def _read_one(self, index: int) -> Any:
            return {"x": np.full(1 << 15, index % 100, np.uint8)}

        def _read_columns(self, indices: Indices) -> Any:
            Columnar.read += indices.size
            return {"x": np.repeat(indices, 1 << 15).reshape(-1, 1 << 15).astype(np.uint8)}

    iterator = iter(DataLoader(Columnar(), batch_size=4, prefetch_factor=ahead))
    for delivered in range(1, 120):
        next(iterator)
        time.sleep(0.002)
        assert (Columnar.read - 4 * delivered) << 15 <= (1 + ahead) * (2 << 20)
    assert Columnar.read > 4 * 119


def test_work_overlaps_with_training() -> None:
    """10 ms to make a batch and 10 ms to use it take well under 20 ms a batch; measured against doing one after the other."""
    seconds = {0: math.inf, 2: math.inf}
    for _ in range(10):  # other programs only ever slow it down: the best of a few counts
        for ahead, best in seconds.items():
            start = time.perf_counter()
            for _ in DataLoader(Listed(30, delay_s=0.01), prefetch_factor=ahead):
                time.sleep(0.01)
            seconds[ahead] = min(best, time.perf_counter() - start)
        if seconds[2] < 0.75 * seconds[0]:
            break

    assert seconds[2] < 0.75 * seconds[0]


# -- its end ----------------------------------------------------------------------------------------------------------


def threads() -> int:
    return sum(thread.name == "arrayfeed-prefetch" for thread in threading.enumerate())


def wait_for_end(timeout_s: float = 1.0) -> bool:
    """Return whether no prefetch thread is left within the time."""
    end = time.monotonic() + timeout_s
    while threads() and time.monotonic() < end:
        time.sleep(0.005)
    return not threads()


def waiting() -> Iterator[Any]:
    """Return an iterator whose thread has read as far ahead as it may, and waits for room."""
    iterator = iter(DataLoader(Listed(1000)))
    next(iterator)
    time.sleep(0.05)
    return iterator


def working() -> Iterator[Any]:
    """Return an iterator whose thread is in the middle of a batch."""
    iterator = iter(DataLoader(Listed(1000, delay_s=0.05)))
    next(iterator)
    return iterator


@pytest.mark.parametrize("start", [waiting, working])
def test_an_iterator_that_is_forgotten_takes_its_thread_along(start: Any) -> None:
    """Waiting or working, at once or with the batch in hand."""
    iterator = start()
    assert threads() == 1
    del iterator

    assert wait_for_end()


def test_a_pass_that_ends_has_ended_its_thread() -> None:
    """Before the loop is left."""
    iterator = iter(DataLoader(Listed(20)))
    list(iterator)

    assert threads() == 0


@pytest.mark.parametrize("start", [waiting, working])
def test_a_cycle_of_garbage_ends_the_thread(start: Any) -> None:
    """The collector finds iterator and loader; nobody said goodbye."""
    holder: dict[str, Any] = {"iterator": start()}
    holder["self"] = holder
    del holder
    gc.collect()

    assert wait_for_end()


def test_a_loader_that_is_forgotten_in_a_loop_ends_its_thread() -> None:
    """Break leaves nothing behind, pass after pass."""
    loader = DataLoader(Listed(1000))
    for _ in range(20):
        for _ in loader:
            break
    del loader

    assert wait_for_end()


def test_an_exception_in_the_loop_ends_the_thread() -> None:
    """Before it is dealt with: a loop does not outlive the block that it left, whoever keeps the traceback."""
    try:
        for batch in DataLoader(Listed(1000)):
            raise ZeroDivisionError(batch)
    except ZeroDivisionError:
        assert wait_for_end()


def test_an_error_of_the_source_ends_the_thread() -> None:
    """There is nothing left to do for it until the batch is asked for again."""

    class Broken(Listed):
        def __getitem__(self, index: int) -> Any:
            raise OSError(index)

    iterator = iter(DataLoader(Broken(10)))
    with pytest.raises(OSError, match="0"):
        next(iterator)

    assert wait_for_end()


def test_a_source_is_no_longer_read_once_a_loop_was_left(tmp_path: Path) -> None:
    """The piece of work in hand is waited for, so that files may be closed behind a break."""
    source = Listed(1000, delay_s=0.02)
    iterator = iter(DataLoader(source, batch_size=2))
    next(iterator)
    del iterator
    reads = len(source.reads)
    time.sleep(0.1)

    assert len(source.reads) == reads
    small = write_small(tmp_path / "small", 300)
    for _ in DataLoader(small, batch_size=2):
        break
    small.close()


# -- the prefetcher alone ---------------------------------------------------------------------------------------------


def test_a_prefetcher_hands_over_results_errors_and_the_end_in_order() -> None:
    """And is over then, however often it is asked."""

    def work(job: int) -> int:
        if job == 3:
            raise OSError("three")
        return job * job

    prefetcher = Prefetcher(iter(range(6)), work, ahead=2)
    assert [next(prefetcher) for _ in range(3)] == [0, 1, 4]
    with pytest.raises(OSError, match="three") as caught:
        next(prefetcher)
    assert "in work" in "".join(traceback.format_tb(caught.value.__traceback__))
    assert list(prefetcher) == []


def test_an_error_of_the_jobs_comes_behind_the_results_before_it() -> None:
    """As one of the work does."""

    def jobs() -> Iterator[int]:
        yield 1
        raise OSError("no more")

    prefetcher = Prefetcher(jobs(), str, ahead=3)
    assert next(prefetcher) == "1"
    with pytest.raises(OSError, match="no more"):
        next(prefetcher)


def test_who_waits_gets_a_result_before_the_next_is_made() -> None:
    """Though the thread goes on at once, with work that does not let go of Python's lock."""
    happened: list[str] = []
    holder: list[Prefetcher[int]] = []

    def work(job: int) -> int:
        while not (holder and holder[0]._channel.is_awaited):
            time.sleep(0.0001)
        happened.append(f"began {job}")
        sum(range(1_000_000))  # one call into C
        happened.append(f"made {job}")
        return job

    prefetcher = Prefetcher(iter(range(8)), work, ahead=2)
    holder.append(prefetcher)
    for job in prefetcher:
        happened.append(f"took {job}")

    assert happened == [f"{what} {job}" for job in range(8) for what in ("began", "made", "took")]


def test_closing_wakes_whoever_waits() -> None:
    """A consumer in another thread too; closing twice is closing once."""
    release = threading.Event()
    prefetcher: Prefetcher[bool] = Prefetcher(iter([1]), lambda job: release.wait(10), ahead=1)
    found: list[Any] = []
    consumer = threading.Thread(target=lambda: found.append(next(prefetcher, "closed")))
    consumer.start()
    time.sleep(0.05)
    closer = threading.Thread(target=prefetcher.close)
    closer.start()
    time.sleep(0.05)
    release.set()
    closer.join()
    consumer.join()

    assert found == ["closed"]
    prefetcher.close()


def test_a_collection_in_the_thread_may_close_its_own_channel() -> None:
    """The collector runs in whatever thread allocates: here the one that waits for room, closing what it waits for."""
    holder: list[Any] = []
    held = threading.Event()

    def work(job: int) -> int:
        if job == 1:
            # The last reference goes here, in the thread itself: the finaliser closes the channel and must not wait.
            held.wait()
            holder.clear()
        return job

    jobs = iter(range(100))
    holder.append(Prefetcher(jobs, work, ahead=2))
    held.set()

    assert wait_for_end()
    assert next(jobs) <= 3


def test_many_prefetchers_dropped_under_a_busy_collector_all_end() -> None:
    """Collections at every few allocations, in all threads, with prefetchers in cycles."""
    thresholds = gc.get_threshold()
    gc.set_threshold(5, 2, 2)
    try:
        for number in range(150):
            cycle: list[Any] = [Prefetcher(iter(range(50)), lambda job: [job], ahead=1 + number % 3)]
            cycle.append(cycle)
            next(cycle[0])
    finally:
        gc.set_threshold(*thresholds)
    del cycle
    gc.collect()

    assert wait_for_end(5)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("prefetch_factor", ["0", "2"])
def test_a_forked_child_goes_on_where_its_parent_stood(prefetch_factor: str, tmp_path: Path) -> None:
    """In the middle of an epoch both deliver the rest of it, each with a thread of its own.

    In a process of its own, as a user's script is: this one has threads of other libraries.
    """
    small = write_small(tmp_path / "small", 300)
    assert len(small) == 300
    command = [sys.executable, "-W", "error", fork_loader.__file__, str(tmp_path / "small"), prefetch_factor]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert (run.returncode, run.stdout, run.stderr) == (0, "same\nsame\nsame\n", "")
