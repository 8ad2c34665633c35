"""Batches are the same whoever makes them: no worker, threads or processes, however many and however started."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from arrayfeed import DataLoader
from arrayfeed.loaders import WorkerError
from support.equal import difference
from support.worker_cases import (
    EverySort,
    Fail,
    FieldError,
    InMemory,
    Numbers,
    OnlyHere,
    Sleep,
    add_environment,
    add_process,
    die_at_start,
    fail_to_start,
    note_start,
)

pytestmark = [
    pytest.mark.usefixtures("no_leaks"),
    # Other tests of this process import JAX, which warns of any fork, and newer Pythons warn of its threads.
    pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]

METHODS = ("forkserver", "spawn", "fork")


def unnested(batch: Any) -> Any:
    """Return a batch with its dataclass as a dict, which `difference` knows how to compare."""
    return batch | {"labelled": vars(batch["labelled"])}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shuffle", [False, True])
def test_batches_are_the_same_from_any_start_method(method: Any, shuffle: bool) -> None:
    """Order, values, dtypes, shapes, types and nesting; two epochs, with short last batches."""
    options: dict[str, Any] = {"batch_size": 7, "shuffle": shuffle, "seed": 5, "num_epochs": 2}
    expected = list(DataLoader(EverySort(40), **options))

    found = list(DataLoader(EverySort(40), num_workers=2, multiprocessing_context=method, **options))

    assert not difference([*map(unnested, found)], [*map(unnested, expected)])


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
@pytest.mark.parametrize("kind", ["process", "thread"])
def test_batches_are_the_same_from_any_number_of_workers(workers: int, kind: Any) -> None:
    """Also where each batch takes another time, so that they are ready out of order."""
    options: dict[str, Any] = {"batch_size": 3, "shuffle": True, "transforms": Sleep(0.0, 11, 0.05)}
    expected = list(DataLoader(Numbers(50), **options))

    found = list(DataLoader(Numbers(50), num_workers=workers, worker_type=kind, **options))

    assert not difference(found, expected)


def test_columns_and_examples_cross_in_runs(rng: np.random.Generator) -> None:
    """A source that gives whole columns, in batches so small that many travel together."""
    source = InMemory(3000)
    expected = list(DataLoader(source, batch_size=4, shuffle=True))
    loader = DataLoader(source, batch_size=4, shuffle=True, num_workers=2)

    assert not difference(list(loader), expected)
    assert loader.stats().batches == 750


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_state_counts_what_was_delivered(kind: Any) -> None:
    """Whatever was made ahead: each place resumes exactly, with workers or without."""
    options: dict[str, Any] = {"batch_size": 3, "shuffle": True, "num_epochs": 2}
    whole = list(DataLoader(Numbers(20), **options))
    loader = DataLoader(Numbers(20), num_workers=2, worker_type=kind, **options)
    states = [loader.state_dict() for _ in loader]

    for step, state in enumerate(states[::3]):
        resumed = DataLoader(Numbers(20), num_workers=step % 3, worker_type=kind, **options)
        resumed.load_state_dict(state)
        assert not difference(list(resumed), whole[step * 3 + 1 :])


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_a_state_loaded_in_the_middle_of_a_pass_takes_effect_at_once(kind: Any) -> None:
    """In an iterator that is under way, with batches ahead of the old place."""
    options: dict[str, Any] = {"batch_size": 3, "shuffle": True}
    whole = list(DataLoader(Numbers(40), **options))
    loader = DataLoader(Numbers(40), num_workers=2, worker_type=kind, **options)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    for _ in range(6):
        next(iterator)
    loader.load_state_dict(state)

    assert not difference(list(iterator), whole[1:])


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_iterators_over_one_loader_do_not_disturb_each_other(kind: Any) -> None:
    """Two side by side, one of them left in its middle, then a third."""
    loader = DataLoader(Numbers(30), batch_size=3, shuffle=True, num_workers=2, worker_type=kind)
    alone = DataLoader(Numbers(30), batch_size=3, shuffle=True)
    epochs = [list(alone) for _ in range(3)]

    first, second = iter(loader), iter(loader)
    pairs = [(next(first), next(second)) for _ in range(4)]
    del first
    rest = list(second)

    assert not difference([a for a, _ in pairs], epochs[0][:4])
    assert not difference([b for _, b in pairs] + rest, epochs[1])
    assert not difference(list(loader), epochs[2])


def test_workers_live_over_epochs_breaks_and_state() -> None:
    """The same processes serve all passes, and the next pass is right after a break."""
    loader = DataLoader(Numbers(30), batch_size=3, num_workers=2, transforms=add_process)
    seen = set()
    for _ in range(3):
        for step, batch in enumerate(loader):
            seen.update(batch["process"].tolist())
            if step == 4:
                break
    seen.update(pid for batch in loader for pid in batch["process"].tolist())

    assert os.getpid() not in seen
    assert 1 <= len(seen) <= 2
    assert [batch["x"][0, 0] for batch in loader] == [*range(0, 30, 3)]


def test_a_closed_loader_starts_again() -> None:
    """`close` ends the processes; batches stay valid, and the next pass is right."""
    loader = DataLoader(Numbers(10, width=20_000), batch_size=5, num_workers=1)
    kept = list(loader)
    loader.close()
    loader.close()
    again = list(loader)

    assert not difference(kept, again)


def test_a_loader_is_left_in_its_middle() -> None:
    """An iterator goes on where it was after `close`."""
    loader = DataLoader(Numbers(30), batch_size=3, num_workers=2)
    iterator = iter(loader)
    first = [next(iterator) for _ in range(3)]
    loader.close()

    assert [int(batch["x"][0, 0]) for batch in first + list(iterator)] == [*range(0, 30, 3)]


def test_functions_that_cannot_be_imported_go_by_value() -> None:
    """Lambdas and closures, by cloudpickle."""
    pytest.importorskip("cloudpickle")
    shift = 100

    loader = DataLoader(Numbers(4), num_workers=1, transforms=[lambda e: e["x"] + shift], collate_fn=lambda e: int(e[0][0]))

    assert list(loader) == [100, 101, 102, 103]


def test_what_cannot_be_pickled_is_refused_at_once_by_name() -> None:
    """Before any process is started: functions when the loader is made, a source when it is first used."""
    lock = threading.Lock()

    def guard(example: Any) -> Any:
        with lock:
            return example

    with pytest.raises(TypeError, match=r"transforms\[1\] .*guard.* cannot be sent to worker processes"):
        DataLoader(Numbers(4), num_workers=1, transforms=[add_process, guard])
    with pytest.raises(TypeError, match=r"source .* cannot be sent to worker processes"):
        next(iter(DataLoader([lock], num_workers=1)))


@pytest.mark.parametrize("method", METHODS)
def test_worker_processes_import_no_framework_and_start_no_thread_pools(method: Any) -> None:
    """Neither torch nor JAX, unless forked from a process that has them; ``worker_init_fn`` is called in each."""
    loader = DataLoader(
        Numbers(8), transforms=add_environment, num_workers=2, multiprocessing_context=method, worker_init_fn=note_start
    )
    batches = list(loader)

    assert {batch["started"][0] for batch in batches} <= {0, 1}
    if method != "fork":
        assert not any(batch["heavy"].tolist()[0] for batch in batches)
        assert all(batch["threads"][0] == os.environ.get("OMP_NUM_THREADS", "1") for batch in batches)


def test_an_error_keeps_type_and_place_and_the_stream_goes_on() -> None:
    """After the batches before it, with record, worker and the traceback there; then the same batch is tried again."""
    loader = DataLoader(Numbers(30), batch_size=3, num_workers=2, transforms=Fail(13))
    iterator = iter(loader)
    assert [int(next(iterator)["x"][0, 0]) for _ in range(4)] == [0, 3, 6, 9]

    for _ in range(2):
        with pytest.raises(ValueError, match="no 13 here") as caught:
            next(iterator)
        notes = "\n".join(caught.value.__notes__)
        assert "record 13 of a Numbers of 30" in notes
        assert "worker_cases.py" in notes and "in worker " in notes


def test_an_error_that_cannot_cross_processes_says_the_same() -> None:
    """One that cannot be unpickled comes as a WorkerError, not as a hang."""
    loader = DataLoader(Numbers(3), num_workers=1, transforms=Fail(0, kind="field"))

    with pytest.raises(WorkerError, match="FieldError: x: wrong") as caught:
        next(iter(loader))
    assert FieldError.__name__ in "\n".join(caught.value.__notes__)


@pytest.mark.parametrize("method", ["forkserver", "fork"])
def test_a_worker_that_cannot_start_says_why(method: Any) -> None:
    """An error of ``worker_init_fn`` comes with the first batch, of its own type."""
    loader = DataLoader(Numbers(3), num_workers=2, multiprocessing_context=method, worker_init_fn=fail_to_start)

    with pytest.raises(OSError, match="has no licence") as caught:
        next(iter(loader))
    assert "was starting" in "\n".join(caught.value.__notes__)


def test_what_cannot_be_rebuilt_in_a_worker_says_why() -> None:
    """A transform that pickles, but does not unpickle."""
    with pytest.raises(RuntimeError, match="made for another process"):
        next(iter(DataLoader(Numbers(3), num_workers=1, transforms=OnlyHere())))


def test_workers_that_die_at_once_are_not_started_for_ever() -> None:
    """They are given up after ten, with the exit code."""
    with pytest.raises(WorkerError, match=r"before they take any work.* exited with code 9"):
        next(iter(DataLoader(Numbers(3), num_workers=2, worker_init_fn=die_at_start)))


@pytest.mark.parametrize(("kind", "timeout", "seconds"), [("process", 3.0, 60.0), ("thread", 0.5, 1.0)])
def test_a_batch_that_does_not_come_is_an_error(kind: Any, timeout: float, seconds: float) -> None:
    """After ``timeout`` seconds; it names the record, and the process, which is ended."""
    stuck = Sleep(0.0, 5, seconds)
    loader = DataLoader(Numbers(8), batch_size=2, num_workers=2, worker_type=kind, timeout=timeout, transforms=stuck)
    while loader._workers.start() and not loader._workers.has_started:
        time.sleep(0.01)  # starting counts too, and takes longer than that on a busy machine
    iterator = iter(loader)
    next(iterator), next(iterator)

    with pytest.raises(WorkerError, match=rf"no batch for {timeout} s") as caught:
        next(iterator)
    assert "is at record 5" in str(caught.value)
    if kind == "process":
        assert "records 4, 5" in str(caught.value) and "has had it in hand" in str(caught.value)


def test_a_child_of_the_training_process_leaves_the_workers_alone() -> None:
    """A forked child can drop what it inherited, and iterate with workers of its own; the parent goes on."""
    loader = DataLoader(Numbers(30), batch_size=3, num_workers=1)
    iterator = iter(loader)
    next(iterator)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            rest = [int(batch["x"][0, 0]) for batch in iterator]
            code = int(rest != [*range(3, 30, 3)])
            loader.close()
        finally:
            os._exit(code)

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert [int(batch["x"][0, 0]) for batch in iterator] == [*range(3, 30, 3)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_workers": 2000}, "at most 1024"),
        ({"num_workers": 1, "worker_type": "fibre"}, "'process' or 'thread'"),
        ({"num_workers": 1, "multiprocessing_context": "vfork"}, "'forkserver', 'spawn' or 'fork'"),
        ({"num_workers": 1, "prefetch_factor": 0}, "prefetch_factor is 0"),
        ({"timeout": -1}, "timeout is -1"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(options: dict[str, Any], message: str) -> None:
    """Each with its value and what would be right."""
    with pytest.raises(ValueError, match=message):
        DataLoader(Numbers(3), **options)


@pytest.fixture(autouse=True)
def _collect() -> Iterator[None]:
    yield
    gc.collect()
