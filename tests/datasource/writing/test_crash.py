"""Killed writers and full disks: what stands at the path is whole, the old or the new. See ``support.killed_writes``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import support.killed_writes

TASKS = ["create", "append", "append-twice"]


def run(directory: Path, *arguments: str, before: tuple[str, ...] = ()) -> Counter[str]:
    script = Path(support.killed_writes.__file__)
    path = os.pathsep.join(filter(None, [str(script.parents[1]), os.environ.get("PYTHONPATH")]))
    run = subprocess.run(
        [*before, sys.executable, str(script), str(directory), *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    return Counter(json.loads(run.stdout))


@pytest.mark.parametrize(("task", "step"), [("create", "4"), ("append", "1000"), ("append-twice", "1000")])
def test_a_writer_killed_before_one_of_its_calls_leaves_the_old_or_the_new(tmp_path: Path, task: str, step: str) -> None:
    """States between two changes of the file system, every single one at the end; a rerun succeeds from each."""
    check_calls(task, run(tmp_path, task, "calls", step))


@pytest.mark.soak
@pytest.mark.parametrize("task", TASKS)
def test_a_writer_killed_before_any_of_its_calls_leaves_the_old_or_the_new(tmp_path: Path, task: str) -> None:
    """One by one, all of them."""
    outcomes = run(tmp_path, task, "calls", "1")

    # Shards are opened to be synced, hashed and checked, linked, renamed, synced again; other files written and synced.
    assert outcomes["unfinished"] > 40
    check_calls(task, outcomes)


def check_calls(task: str, outcomes: Counter[str]) -> None:
    assert outcomes["unfinished"] > 5
    assert outcomes["published"] >= 2, "one in the end, one killed between the last rename and the return"
    assert bool(outcomes["aside"]) == (task == "append-twice"), "only two renames leave a moment in which nobody has the name"


@pytest.mark.parametrize("task", TASKS[:2])
def test_a_writer_killed_at_random_moments_leaves_the_old_or_the_new(tmp_path: Path, task: str) -> None:
    """Within array_record's own work too, where no call of ours is near."""
    outcomes = run(tmp_path, task, "moments", "12")

    assert outcomes["unfinished"] + outcomes["before"] >= 9


@pytest.mark.soak
@pytest.mark.parametrize("task", TASKS)
def test_a_writer_killed_hundreds_of_times_leaves_the_old_or_the_new(tmp_path: Path, task: str) -> None:
    """The same, for minutes."""
    outcomes = run(tmp_path, task, "moments", "700")

    assert outcomes["unfinished"] + outcomes["before"] >= 600


# The shards of these data sets have 131,072 bytes each.
@pytest.mark.parametrize("task", TASKS[:2])
def test_a_file_that_cannot_grow_is_an_error_and_leaves_what_was_there(tmp_path: Path, task: str) -> None:
    """Wherever it ends: in the first block of a shard, in a later one, at its close, or under the description."""
    limits = [0, 1, 100, 1000, 20_000, 65_535, 65_536, 100_000, 131_071, 131_072, 1 << 20]

    outcomes = run(tmp_path, task, "sizes", *map(str, limits))

    assert outcomes == {"before": 9, "published": 2, "exit 3": 9, "exit 0": 2}


@pytest.mark.parametrize("task", TASKS[:2])
def test_a_full_disk_is_an_error_and_leaves_what_was_there(tmp_path: Path, task: str) -> None:
    """A small one of its own, with more and more room on it, until there is enough."""
    mount = f'mount -t tmpfs -o size=8m tmpfs "{tmp_path}" && "$@"'
    own_disk = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "-")
    if sys.platform != "linux" or subprocess.run([*own_disk, "true"], capture_output=True).returncode:
        pytest.skip("no disk can be mounted here")

    outcomes = run(tmp_path, task, "disk", "49152", before=own_disk)

    assert outcomes["exit 0"] == outcomes["published"] == 1
    assert outcomes["before"] == outcomes["exit 3"] >= 4
