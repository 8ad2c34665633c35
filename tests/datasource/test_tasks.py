"""Tasks in processes: results, progress, errors, and processes that die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from arrayfeed.datasource.tasks import Tick, run_tasks

pytestmark = pytest.mark.usefixtures("no_leaks")


def square(number: int, tick: Tick) -> int:
    tick(number)
    return number * number


def fail_at(bad: int, number: int, tick: Tick) -> int:
    tick(1)
    if number == bad:
        raise KeyError(f"task {number}")
    return number


class UnpicklableError(Exception):
    """Cannot be made again from its arguments."""

    def __init__(self, *, reason: str) -> None:
        super().__init__(reason)


def fail_unpicklably(number: int, tick: Tick) -> int:
    raise UnpicklableError(reason=f"no {number}")


def give_a_lambda(number: int, tick: Tick) -> object:
    return lambda: number


def die_once(directory: str, number: int, tick: Tick) -> int:
    """Tick, and end the process the first time that this number comes."""
    tick(10)
    time.sleep(0.15)
    tick(10)
    mark = Path(directory, str(number))
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def die(number: int, tick: Tick) -> int:
    os._exit(7)


def describe(number: int) -> str:
    return f"number {number}"


@pytest.mark.parametrize("num_workers", [0, 1, 3])
def test_results_come_in_the_tasks_order_and_progress_adds_up(num_workers: int) -> None:
    """However many processes share them out."""
    ticks: list[int] = []

    results = run_tasks(square, range(20), num_workers=num_workers, tick=ticks.append, describe=describe)

    assert results == [number * number for number in range(20)]
    assert sum(ticks) == sum(range(20))


def test_there_are_no_more_processes_than_tasks() -> None:
    """None for none; a thousand would be noticed for two."""
    assert run_tasks(square, [], num_workers=1000, tick=print, describe=describe) == []
    assert run_tasks(square, [1, 2], num_workers=1000, tick=lambda count: None, describe=describe) == [1, 4]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_error_arrives_with_its_own_type(num_workers: int) -> None:
    """And with where it was raised, if that was elsewhere."""
    with pytest.raises(KeyError, match="task 3") as error:
        run_tasks(partial(fail_at, 3), range(8), num_workers=num_workers, tick=lambda count: None, describe=describe)

    if num_workers:
        (note,) = error.value.__notes__
        assert "in fail_at" in note


def test_what_does_not_pickle_is_told_of() -> None:
    """An error that cannot be sent still says what it was; a result or function that cannot, that it cannot."""
    with pytest.raises(RuntimeError, match="UnpicklableError: no 0"):
        run_tasks(fail_unpicklably, range(1), num_workers=1, tick=print, describe=describe)
    with pytest.raises(Exception, match="lambda"):
        run_tasks(give_a_lambda, range(1), num_workers=1, tick=print, describe=describe)
    with pytest.raises(TypeError, match=r"cannot be sent to worker processes: .*num_workers=0"):
        run_tasks(lambda number, tick: number, range(1), num_workers=1, tick=print, describe=describe)


def test_a_task_whose_process_died_is_done_again(tmp_path: Path) -> None:
    """By another process, from its beginning; what it had told of its progress is taken back."""
    ticks: list[int] = []

    results = run_tasks(
        partial(die_once, str(tmp_path)), range(4), num_workers=2, tick=ticks.append, describe=describe, attempts=2
    )

    assert results == [0, 1, 2, 3]
    assert sum(ticks) == 4 * 20
    assert min(ticks) < 0


def test_a_task_that_keeps_killing_its_process_is_named(tmp_path: Path) -> None:
    """With what ended it, and how often that was tried."""
    with pytest.raises(RuntimeError, match=r"at number 2 was ended by SIGKILL, as the system does when memory runs out"):
        run_tasks(partial(die_once, str(tmp_path)), [2], num_workers=1, tick=lambda count: None, describe=describe)
    with pytest.raises(RuntimeError, match=r"at number 5 ended with exit status 7, 3 times"):
        run_tasks(die, [5], num_workers=1, tick=print, describe=describe, attempts=3)


SLEEP = """
import os, signal, sys, time
import psutil
from arrayfeed.datasource.tasks import run_tasks

def sleep(number, tick):
    while True:
        tick(1)
        time.sleep(0.1)

def interrupt(count):
    os.killpg(0, signal.SIGINT)  # while the second process may just be starting

if __name__ == "__main__":
    try:
        run_tasks(sleep, range(2), num_workers=2, tick=interrupt, describe=str)
    except KeyboardInterrupt:
        left = [child.cmdline() for child in psutil.Process().children()]
        assert all("resource_tracker" in " ".join(command) for command in left), left
        sys.exit(42)
"""


def test_an_interrupt_ends_the_processes_first(tmp_path: Path) -> None:
    """Ctrl-C reaches all processes of a terminal at once; only the parent answers it, and no child outlives it."""
    script = tmp_path / "sleep.py"
    script.write_text(SLEEP)

    run = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, start_new_session=True)

    assert (run.returncode, run.stderr) == (42, "")
