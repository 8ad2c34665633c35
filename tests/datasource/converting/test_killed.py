"""Killed conversions and exports go on where they were, and end as if nobody had disturbed them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import support.killed_conversions

KINDS = ["tfrecord", "gzip", "arrays", "images", "tar", "export", "folder"]


def run(directory: Path, kind: str, kills: int) -> dict[str, int]:
    script = Path(support.killed_conversions.__file__)
    path = os.pathsep.join(filter(None, [str(script.parents[1]), os.environ.get("PYTHONPATH")]))
    run = subprocess.run(
        [sys.executable, script, directory, kind, str(kills)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    told: dict[str, int] = json.loads(run.stdout)
    return told


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_conversion_goes_on_where_it_was(tmp_path: Path, kind: str) -> None:
    """SIGKILL at random moments, again and again: no finished part is written twice, the outcome is the same to the byte."""
    told = run(tmp_path, kind, 4)

    assert told["killed"] >= 4
    assert told["redone"] == 0
    assert told["kept"] > 0


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_hundreds_of_killed_conversions_go_on_where_they_were(tmp_path: Path, kind: str) -> None:
    """The same, for minutes."""
    assert run(tmp_path, kind, 300)["redone"] == 0
