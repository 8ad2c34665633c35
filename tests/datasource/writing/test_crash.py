"""Killed writers and full disks: the data set is there and whole, or it is not there. See ``support.killed_writes``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import support.killed_writes


def run(directory: Path, *arguments: str) -> Counter[str]:
    script = Path(support.killed_writes.__file__)
    path = os.pathsep.join(filter(None, [str(script.parents[1]), os.environ.get("PYTHONPATH")]))
    run = subprocess.run(
        [sys.executable, script, directory, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    return Counter(json.loads(run.stdout))


def test_a_writer_killed_before_any_of_its_calls_leaves_nothing_that_opens(tmp_path: Path) -> None:
    """Every state between two changes of the file system, one by one; a rerun succeeds from each."""
    outcomes = run(tmp_path, "calls")

    # Four shards are opened to be synced, hashed and checked, renamed, synced again; eight more files written and synced.
    assert outcomes["unfinished"] > 40
    assert outcomes["published"] >= 2, "one in the end, one killed between the last rename and the return"


def test_a_writer_killed_at_random_moments_leaves_nothing_that_opens(tmp_path: Path) -> None:
    """Within array_record's own work too, where no call of ours is near."""
    outcomes = run(tmp_path, "moments", "60")

    assert outcomes["unfinished"] + outcomes["absent"] >= 50


@pytest.mark.soak
def test_a_writer_killed_a_thousand_times_leaves_nothing_that_opens(tmp_path: Path) -> None:
    """The same, for minutes."""
    outcomes = run(tmp_path, "moments", "1000")

    assert outcomes["unfinished"] + outcomes["absent"] >= 900


def test_a_full_disk_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    """Wherever it fills: in the first block of a shard, in a later one, at its close, or under the description."""
    limits = [0, 1, 100, 1000, 20_000, 65_535, 65_536, 100_000, 131_071, 131_072, 1 << 20]

    outcomes = run(tmp_path, "sizes", *map(str, limits))

    # The shards of this data set have 131,072 bytes each.
    assert outcomes == {"absent": 9, "published": 2, "exit 3": 9, "exit 0": 2}
