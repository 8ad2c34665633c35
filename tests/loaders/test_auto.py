"""``num_workers="auto"``: finds out on the way who makes batches fastest, without a trace in what is delivered."""

from __future__ import annotations

import json
import logging
import threading
import time
from itertools import islice
from typing import Any

import pytest

from arrayfeed import DataLoader
from arrayfeed.datasource.processors import count_cpus
from arrayfeed.loaders.auto import HERE, Choice, Way, count_threads, count_workers
from arrayfeed.loaders.telling.watch import Watch
from support.loading import Listed, numbers_in
from support.worker_cases import Numbers

needs_two = pytest.mark.skipif(count_cpus() < 2, reason="needs two processors")


def sleep_2_ms(example: Any) -> Any:
    """Slow without taking a processor from anybody, so that workers pay however busy the machine is."""
    time.sleep(0.002)
    return {"x": int(example["x"][0])}


def count_up_to_failure(example: Any) -> Any:
    if int(example["x"][0]) == 900:
        raise ZeroDivisionError
    return sleep_2_ms(example)


def slow(length: int, **options: Any) -> DataLoader:
    chosen: dict[str, Any] = {"num_workers": "auto", "transforms": sleep_2_ms} | options
    return DataLoader(Numbers(length), batch_size=4, **chosen)


def read_until_chosen(loader: DataLoader, *, more: int = 40, training_s: float = 0.0) -> list[int]:
    """Return the numbers of all batches until it is decided who makes them, and of some more; the state is exact at each."""
    numbers: list[int] = []
    end = time.monotonic() + 90
    for step, batch in enumerate(loader, start=1):
        numbers += batch["x"].tolist()
        assert loader.state_dict()["position"] == 4 * step
        time.sleep(training_s)
        more -= bool(loader.stats().choice)
        if more < 0 or time.monotonic() > end:
            break
    assert loader.stats().choice
    return numbers


@needs_two
def test_slow_transforms_are_given_to_workers(no_leaks: None, caplog: pytest.LogCaptureFixture) -> None:
    """The stream is the plain one, each record once, while ways change under it, and state is exact at every batch; then it
    says who makes batches and why, the next pass goes on so, and processes that lost are gone."""
    loader = slow(1_000_000)
    assert loader.num_workers == 0
    with caplog.at_level(logging.INFO, "arrayfeed"):
        numbers = read_until_chosen(loader)
    stats = loader.stats()

    assert numbers == list(range(len(numbers)))
    assert stats.num_workers == loader.num_workers == 4 * count_cpus()  # they sleep, and need no processor each
    assert stats.choice.startswith(f'num_workers="auto" makes batches {Way(4 * count_cpus(), "thread")}: fastest')
    assert "records/s in this process" in stats.choice
    assert stats.choice in loader.report()
    assert [record.message for record in caplog.records] == [stats.choice]
    before = {number: worker.records for number, worker in stats.workers.items()}
    assert numbers_in(list(islice(loader, 40))) == list(range(160))
    assert loader.stats().workers[1].records > before[1]
    loader.close()


@needs_two
def test_threads_alone_are_tried_where_they_were_asked_for(no_leaks: None) -> None:
    """No process is started."""
    loader = slow(1_000_000, worker_type="thread")
    numbers = read_until_chosen(loader)

    assert numbers == list(range(len(numbers)))
    assert (loader.stats().num_workers, loader.stats().worker_type) == (4 * count_cpus(), "thread")


@needs_two
def test_functions_that_no_process_can_be_given_go_to_threads(no_leaks: None) -> None:
    """It says why, and loads all the same."""
    lock = threading.Lock()  # nothing pickles a lock

    def locked(example: Any) -> Any:
        assert not lock.locked()
        return sleep_2_ms(example)

    loader = slow(1_000_000, transforms=locked)
    numbers = read_until_chosen(loader)
    stats = loader.stats()

    assert numbers == list(range(len(numbers)))
    assert stats.worker_type == "thread"
    assert "not in" in stats.choice
    assert "cannot be sent to worker processes" in stats.choice


def test_cheap_batches_are_made_here(no_leaks: None) -> None:
    """Sending them would take as long, or nothing waits for them. Nothing was started to find that out."""
    loader = DataLoader(Numbers(10_000_000, width=1), batch_size=4, transforms=sleep_nothing, num_workers="auto")
    read_until_chosen(loader)
    stats = loader.stats()

    assert stats.num_workers == 0
    assert "makes batches in this process: " in stats.choice


def test_training_that_does_not_wait_gets_no_workers(no_leaks: None) -> None:
    """It would gain nothing."""
    loader = slow(1_000_000)
    read_until_chosen(loader, training_s=0.05, more=2)

    assert "in this process: training waits" in loader.stats().choice


def test_a_short_pass_is_over_before_anything_is_tried(no_leaks: None) -> None:
    """Each record is read once; the next passes go on finding out."""
    source = Listed(10)
    loader = DataLoader(source, batch_size=2, num_workers="auto")
    for number in range(1, 4):
        assert numbers_in(list(loader)) == list(range(10))
        assert source.reads == [*range(10)] * number
    assert loader.stats().choice == ""


@needs_two
def test_a_state_from_the_middle_of_trying_loads_anywhere(no_leaks: None) -> None:
    """Into itself, which goes on trying, and into a loader without workers."""
    loader = slow(3000, shuffle=True)
    plain = slow(3000, shuffle=True, num_workers=0, transforms=sleep_nothing)
    expected = numbers_in(list(plain))
    for stop in (3, 90, 170, 290):
        delivered = numbers_in(list(islice(loader, stop)))
        state = json.loads(json.dumps(loader.state_dict()))
        assert delivered == expected[: 4 * stop]
        plain.load_state_dict(state)
        assert numbers_in(list(plain)) == expected[4 * stop :]
        state["position"] = 0
        loader.load_state_dict(state)
    loader.close()


def sleep_nothing(example: Any) -> Any:
    return {"x": int(example["x"][0])}


def test_an_error_comes_in_its_turn(no_leaks: None) -> None:
    """Whoever met it."""
    loader = slow(2000, transforms=count_up_to_failure)
    numbers = []
    with pytest.raises(ZeroDivisionError):
        for batch in loader:
            numbers += batch["x"].tolist()

    assert numbers == list(range(900))
    assert loader.state_dict()["position"] == 900
    loader.close()


TWO, THREADS = Way(2), Way(2, "thread")


@pytest.mark.parametrize(
    ("here", "processes", "threads", "chosen"),
    [
        (100, [190], [], TWO),  # nearly twice as fast: threads are not tried
        (100, [150, 160], [150, 140], TWO),
        (100, [100, 150], [150, 160], TWO),  # threads little faster
        (100, [110, 120], [150, 160], THREADS),
        (100, [100, 98], [95, 70], TWO),  # as fast: they leave training's process alone
        (100, [80, 70], [85, 70], HERE),
        (100, [30, 99], [20, 30], TWO),  # the better measurement counts
    ],
)
def test_the_fastest_way_is_chosen_of_what_was_measured(
    here: float, processes: list[float], threads: list[float], chosen: Way
) -> None:
    """Each way is measured twice, unless there is nothing to win; a tie goes to processes, and all figures are told."""
    choice = Choice(Watch())
    choice.note(HERE, here)
    left = {TWO: [*processes], THREADS: [*threads]}
    while (way := choice.choose(2)) is not None:
        choice.note(way, left[way].pop(0))

    assert choice.chosen == chosen
    assert left == {TWO: [], THREADS: []}
    assert f"{here} records/s in this process" in choice.watch.choice


def test_many_threads_are_tried_even_if_processes_do_all_that_their_number_promises() -> None:
    """Of work that sleeps, eight threads do four times as much as two processes."""
    choice = Choice(Watch())
    choice.note(HERE, 100)
    tried = []
    while (way := choice.choose(2, 8)) is not None:
        tried.append(way)
        choice.note(way, 100 * way.count)

    assert tried == [TWO, Way(8, "thread"), TWO, Way(8, "thread")]
    assert choice.chosen == Way(8, "thread")


@pytest.mark.parametrize("own_s", [0.0, 1e-9, 1.0])
def test_no_more_workers_than_training_can_use(own_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor than there are processors, which the ranks of a machine share."""
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert count_workers(2.0 * own_s, own_s) == min(count_cpus(), 3 if own_s else count_cpus())
    assert count_workers(0.1 * own_s, own_s) == (1 if own_s else count_cpus())
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1000")
    assert count_workers(2.0 * own_s, own_s) == 1


def test_work_that_sleeps_gets_as_many_threads_as_it_leaves_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """But no more than training can use, and four for each processor."""
    cpus = count_cpus()
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert [count_threads(1.0, 0.0, busy) for busy in (1.0, 0.6, 0.4, 0.01, 0.0)] == [
        cpus,
        cpus,
        -(-5 * cpus // 2),
        *2 * [4 * cpus],
    ]
    assert count_threads(2.0, 1.0, 0.01) == 3
    assert count_threads(0.1, 1.0, 0.01) == 1


def test_trying_needs_something_made_ahead() -> None:
    """prefetch_factor=0 says that nothing is to be."""
    with pytest.raises(ValueError, match="prefetch_factor"):
        DataLoader([1], num_workers="auto", prefetch_factor=0)
