"""Writes one data set again and again, in children that are killed at other moments, and looks at what is left.

Run as a script, so that the process that forks has no threads:

    killed_writes.py DIRECTORY TASK calls STEP         kill before every STEP-th call that touches the file system, and before
                                                       each of the last 24, in which the data set gets its name
    killed_writes.py DIRECTORY TASK moments COUNT      kill at random moments, until COUNT writers were killed in their work
    killed_writes.py DIRECTORY TASK sizes LIMIT ...    no file may grow past LIMIT bytes, as if the disk were full
    killed_writes.py DIRECTORY TASK disk STEP          the directory's disk is full but for 0, STEP, 2 STEP ... bytes

where TASK is one of

    create        a data set of two splits, one of them written as a part
    append        a part and a split appended to that
    append-twice  the same, as where two names cannot be exchanged in one step

Prints a JSON object: how often what stood there before was still there ("before"), aside ("aside"), beside something
unfinished ("unfinished"), and how often the new content was ("published").
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from array_record.python import array_record_module  # noqa: F401  imported once here, not in every child

import arrayfeed
from arrayfeed.datasource.errors import DataError, DatasetIncompleteError, DatasetNotFoundError
from arrayfeed.datasource.features import ClassLabel, Tensor
from arrayfeed.datasource.writing import DatasetWriter, find_leftovers, remove_leftovers, replacing
from arrayfeed.datasource.writing.publish import find_aside
from support.written import read_records

COUNT = 600
#: What changes names or opens files, and "ctypes.dlsym" for the exchange of two names; array_record's own calls are seen as
#: little as the time between.
CALLS = {"open", "os.link", "os.rename", "os.mkdir", "os.rmdir", "os.remove", "ctypes.dlsym"}

Records = dict[str, list[bytes]]


def columns(start: int, stop: int) -> dict[str, Any]:
    x = np.arange(start * 50, stop * 50).astype(np.uint8).reshape(-1, 50)
    return {"x": x, "label": np.arange(start, stop) % 10}


def create(path: Path) -> None:
    features = {"x": Tensor(shape=(50,), dtype=np.uint8, encoding="bytes"), "label": ClassLabel(names="abcdefghij")}
    with DatasetWriter(path, features, name="killed", codec="none", shard_records=300, metadata={"a": 1}) as writer:
        for start in range(0, COUNT, 100):
            writer.write_columns(columns(start, start + 100), split="train")
        with writer.part(0) as part:
            for start in range(0, COUNT, 100):
                part.write_columns(columns(start, start + 100), split="test")


def append(path: Path) -> None:
    with DatasetWriter(path, mode="append", codec="none", shard_records=300) as writer:
        writer.write_columns(columns(0, 100), split="extra")
        with writer.part(0) as part:
            part.write_columns(columns(COUNT, COUNT + 400), split="train")


TASKS = {"create": create, "append": append, "append-twice": append}


def in_child(task: Callable[[], None], kill_after_s: float | None = None) -> int:
    """Run ``task`` in a child and return its wait status."""
    child = os.fork()
    if not child:
        warnings.simplefilter("ignore")  # of what the last run left
        try:
            task()
        except (DataError, OSError):
            os._exit(3)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(4)
        os._exit(0)
    if kill_after_s is not None:
        time.sleep(kill_after_s)
        os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def kill_before_call(number: int) -> None:
    """Kill this process with SIGKILL when it is about to make that call, counted from now."""
    left = number

    def hook(event: str, _: tuple[Any, ...]) -> None:
        nonlocal left
        if event in CALLS:
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def count_calls(task: Callable[[Path], None], path: Path, target: Path) -> None:
    """Run ``task`` and write into ``target`` how many calls it made."""
    calls = 0

    def hook(event: str, _: tuple[Any, ...]) -> None:
        nonlocal calls
        calls += event in CALLS

    sys.addaudithook(hook)
    task(path)
    target.write_text(str(calls))


def inspect(path: Path, before: Records | None, after: Records) -> str:
    """Return what a killed run left at ``path``; fail if that is anything but the whole of the old or of the new content."""
    leftovers = find_leftovers(path)
    assert not any(leftover.alive for leftover in leftovers), "nobody is writing any more"
    if path.exists():
        records = read_records(path)
        assert arrayfeed.verify(path, quick=True).ok
        if records == after:
            assert arrayfeed.verify(path).ok
            return "published"
        assert records == before
        return "unfinished" if leftovers else "before"
    aside = find_aside(path)
    refusal = DatasetIncompleteError if leftovers or aside else DatasetNotFoundError
    try:
        arrayfeed.open(path)
    except refusal as error:
        assert refusal is DatasetNotFoundError or "incomplete" in str(error)
    else:
        raise AssertionError(f"{path} opens")
    if before is not None:
        (old,) = aside
        assert read_records(Path(old)) == before
        return "aside"
    for leftover in leftovers:
        try:
            # All but the last rename may have been done; then, and only then, the leftover opens.
            assert read_records(Path(leftover.directory)) == after
        except DatasetNotFoundError:
            pass
    return "unfinished" if leftovers else "before"


def recover(path: Path, found: str, task: Callable[[Path], None], after: Records) -> None:
    """A rerun succeeds, beside whatever was left, which can then be removed."""
    if found != "published":
        assert in_child(lambda: task(path)) == 0
    assert read_records(path) == after
    remove_leftovers(path)
    assert not find_leftovers(path) and not find_aside(path)
    assert os.listdir(path.parent) == [path.name]


class Runs:
    """Runs of one task, each in a directory of its own, and how they ended."""

    def __init__(self, directory: Path, task: Callable[[Path], None], is_append: bool) -> None:
        self.outcomes: Counter[str] = Counter()
        self._directory = directory
        self._task = task
        self._start = directory / "start" if is_append else None
        self.before: Records | None = None
        if self._start is not None:
            assert in_child(lambda: create(directory / "start")) == 0
            self.before = read_records(self._start)
        whole = self.make("whole")
        began = time.monotonic()
        assert in_child(lambda: count_calls(task, whole, directory / "calls")) == 0
        self.takes_s = time.monotonic() - began
        self.num_calls = int((directory / "calls").read_text())
        self.after = read_records(whole)

    def make(self, name: str) -> Path:
        """Return the path of a data set in a directory of its own, with what is to be there before."""
        path = self._directory / name / "data"
        path.parent.mkdir()
        if self._start is not None:
            shutil.copytree(self._start, path)
        return path

    def run(
        self,
        path: Path,
        kill_after_s: float | None = None,
        prepare: Callable[[], None] = lambda: None,
        relieve: Callable[[], None] = lambda: None,
    ) -> int:
        """Run the task, look at what it left, run it again, and return the wait status of the first run.

        Args:
          prepare: Is called in the first run's child, before the task.
          relieve: Is called before the second run.
        """

        def task() -> None:
            prepare()
            self._task(path)

        status = in_child(task, kill_after_s)
        found = inspect(path, self.before, self.after)
        self.outcomes[found] += 1
        relieve()
        recover(path, found, self._task, self.after)
        return status


def main(directory: Path, task: str, how: str, *arguments: str) -> None:
    if task == "append-twice":
        replacing._exchange = lambda first, second: False
    runs = Runs(directory, TASKS[task], task != "create")
    {"calls": each_call, "moments": random_moments, "sizes": limited_sizes, "disk": full_disk}[how](runs, *map(int, arguments))
    print(json.dumps(runs.outcomes))


def each_call(runs: Runs, step: int) -> None:
    last = max(1, runs.num_calls - 24)
    for number in [*range(1, last, step), *range(last, runs.num_calls + 2)]:
        runs.run(runs.make(str(number)), prepare=partial(kill_before_call, number))


def random_moments(runs: Runs, count: int) -> None:
    # A machine has slower and faster moments; a run that was done before its end came teaches how long one takes.
    draw, killed, takes_s = random.Random(0), 0, runs.takes_s
    for number in range(10_000):
        if runs.run(runs.make(str(number)), draw.uniform(0, takes_s)) == 0:
            takes_s = 0.9 * takes_s
        else:
            killed += 1
        if killed == count:
            return


def limited_sizes(runs: Runs, *limits: int) -> None:
    for limit in limits:
        prepare = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (limit, limit))
        runs.outcomes[exit_of(runs.run(runs.make(str(limit)), prepare=prepare))] += 1


def full_disk(runs: Runs, step: int) -> None:
    for number in range(10_000):
        path = runs.make(str(number))
        fill = path.parent.parent / "fill"
        free = shutil.disk_usage(path.parent).free
        fill.write_bytes(bytes(max(0, free - number * step)))
        status = runs.run(path, relieve=fill.unlink)
        runs.outcomes[exit_of(status)] += 1
        shutil.rmtree(path.parent)
        if status == 0:
            return


def exit_of(status: int) -> str:
    return f"exit {os.waitstatus_to_exitcode(status)}"


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
