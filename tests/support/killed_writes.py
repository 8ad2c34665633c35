"""Writes one data set again and again, in children that are killed at other moments, and looks at what is left.

Run as a script, so that the process that forks has no threads:

    killed_writes.py DIRECTORY calls              kill before the 1st, 2nd, 3rd ... call that touches the file system
    killed_writes.py DIRECTORY moments COUNT      kill at random moments, until COUNT writers were killed in their work
    killed_writes.py DIRECTORY sizes LIMIT ...    no file may grow past LIMIT bytes, as if the disk were full

Prints a JSON object: how often the data set was absent, left unfinished, and published.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from array_record.python import array_record_module  # noqa: F401  imported once here, not in every child

import arrayfeed
from arrayfeed.datasource.errors import DataError, DatasetIncompleteError, DatasetNotFoundError
from arrayfeed.datasource.features import ClassLabel, Tensor
from arrayfeed.datasource.writing import DatasetWriter, find_leftovers, remove_leftovers
from support.written import read_records

COUNT = 600
#: What changes names or opens files; array_record's own calls are seen as little as the time between.
CALLS = {"open", "os.link", "os.rename", "os.mkdir", "os.rmdir", "os.remove"}


def write(path: Path) -> None:
    columns: dict[str, Any] = {
        "x": np.arange(COUNT * 50, dtype=np.uint8).reshape(COUNT, 50),
        "label": np.arange(COUNT) % 10,
    }
    features = {"x": Tensor(shape=(50,), dtype=np.uint8, encoding="bytes"), "label": ClassLabel(names="abcdefghij")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what the last run left
        with DatasetWriter(path, features, name="killed", codec="none", shard_records=300, metadata={"a": 1}) as writer:
            blocks = [{name: column[start : start + 100] for name, column in columns.items()} for start in range(0, COUNT, 100)]
            for block in blocks:
                writer.write_columns(block, split="train")
            with writer.part(0) as part:
                for block in blocks:
                    part.write_columns(block, split="test")


def in_child(task: Callable[[], None], kill_after_s: float | None = None) -> int:
    """Run ``task`` in a child and return its wait status."""
    child = os.fork()
    if not child:
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
    seen = 0

    def hook(event: str, _: tuple[Any, ...]) -> None:
        nonlocal seen
        if event in CALLS:
            seen += 1
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def inspect(path: Path, expected: dict[str, list[bytes]]) -> str:
    """Return what a killed write left at ``path``; fail if that opens and is not the whole data set."""
    if path.exists():
        assert read_records(path) == expected
        return "published"
    found = "absent"
    refusal: type[DataError] = DatasetIncompleteError if find_leftovers(path) else DatasetNotFoundError
    try:
        arrayfeed.open(path)
    except refusal:
        pass
    else:
        raise AssertionError(f"{path} opens")
    for leftover in find_leftovers(path):
        assert not leftover.alive, "nobody is writing any more"
        found = "unfinished"
        try:
            # All but the last rename may have been done; then, and only then, the leftover opens.
            assert read_records(Path(leftover.directory)) == expected
        except DatasetNotFoundError:
            pass
    return found


def recover(path: Path, expected: dict[str, list[bytes]]) -> None:
    """A rerun succeeds, beside whatever was left, which can then be removed."""
    if not path.exists():
        assert in_child(lambda: write(path)) == 0
    assert read_records(path) == expected
    remove_leftovers(path)
    assert find_leftovers(path) == []
    assert os.listdir(path.parent) == [path.name]


def main(directory: Path, how: str, *arguments: str) -> None:
    whole = directory / "whole"
    began = time.monotonic()
    assert in_child(lambda: write(whole)) == 0
    takes_s = time.monotonic() - began
    expected = read_records(whole)
    outcomes: Counter[str] = Counter()

    def attempt(number: int, task: Callable[[Path], None], kill_after_s: float | None = None) -> int:
        path = directory / str(number) / "data"
        path.parent.mkdir()
        status = in_child(lambda: task(path), kill_after_s)
        outcomes[inspect(path, expected)] += 1
        recover(path, expected)
        return status

    if how == "calls":
        for number in range(1, 10_000):

            def write_and_die(path: Path, number: int = number) -> None:
                kill_before_call(number)
                write(path)

            if attempt(number, write_and_die) == 0:
                break
    elif how == "moments":
        # A machine has slower and faster moments; a write that was done before its end came teaches how long one takes.
        draw, killed = random.Random(0), 0
        for number in range(10_000):
            delay_s = draw.uniform(0, takes_s)
            if attempt(number, write, delay_s) == 0:
                takes_s = 0.9 * takes_s
            else:
                killed += 1
            if killed == int(arguments[0]):
                break
    elif how == "sizes":
        for number, limit in enumerate(map(int, arguments)):

            def write_limited(path: Path, limit: int = limit) -> None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
                write(path)

            outcomes[f"exit {os.waitstatus_to_exitcode(attempt(number, write_limited))}"] += 1
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
