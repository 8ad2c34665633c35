"""How long the first batch takes, from the start of a program and from the end of an epoch, with two workers."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from arrayfeed import ArrayRecordDataSource, DataLoader
from support.jpegs import augment, one_thread, write_jpegs

pytestmark = pytest.mark.filterwarnings("ignore")

TESTS = Path(__file__).parents[1]

OURS = """
import sys
from arrayfeed import ArrayRecordDataSource, DataLoader
from support.jpegs import augment, one_thread

if __name__ == "__main__":
    source = ArrayRecordDataSource(sys.argv[1:])
    loader = DataLoader(
        source, batch_size=64, shuffle=True, num_epochs=None, transforms=augment, num_workers=2, worker_init_fn=one_thread
    )
    iterator = iter(loader)
"""

PEER = """
import sys
from support.peer_loaders import Lazy, by_grain, by_torch

if __name__ == "__main__":
    iterator = {}
"""

TELL = """
    batch = next(iterator)
    assert batch["image"].shape == (64, 200, 200, 3)
    print("here", flush=True)
    sys.stdin.readline()
"""

SCRIPTS = {
    "ours": OURS + TELL,
    "torch": PEER.format("by_torch(Lazy(sys.argv[1:]), 64)") + TELL,
    "grain": PEER.format("by_grain(sys.argv[1:], 64)") + TELL,
}


def seconds_to_first_batch(script: Path, paths: list[str], caches: Path) -> float:
    """Return how long a program took from its start to its first batch."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(TESTS.parents[1]), str(TESTS)]))
    # As installed packages are: compiled once.
    environment |= {"PYTHONPYCACHEPREFIX": str(caches), "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-W", "ignore", str(script), *paths]
    start = time.perf_counter()
    # Errors go to a file: workers may outlive the program, and would keep a pipe open.
    with (
        open(script.with_suffix(".txt"), "w+") as errors,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
            start_new_session=True,
        ) as program,
    ):
        assert program.stdout is not None
        said = program.stdout.readline()
        seconds = time.perf_counter() - start
        os.killpg(program.pid, signal.SIGKILL)
        assert said == "here\n", errors.seek(0) or errors.read()
    return seconds


def test_the_first_batch_comes_soon_after_the_start(tmp_path: Path, full_size: bool) -> None:
    """In at most 0.6 of the time of the faster of torch and Grain, by the median of rounds by turns."""
    rounds = 5 if full_size else 1
    paths = write_jpegs(tmp_path / "data", 256)
    names = list(SCRIPTS) if full_size else ["ours"]
    scripts = {name: tmp_path / f"start_{name}.py" for name in names}
    times: dict[str, list[float]] = {name: [] for name in names}
    for name, script in scripts.items():
        script.write_text(SCRIPTS[name])
    for number in range(rounds + 1):
        for name, script in scripts.items():
            seconds = seconds_to_first_batch(script, paths, tmp_path / "caches")
            if number or not full_size:  # the first round compiles what is imported
                times[name].append(seconds)
    for name, each in times.items():
        ratios = sorted(ours / theirs for ours, theirs in zip(times["ours"], each, strict=True))
        ratio = statistics.median(ratios)
        spread = f"({ratios[0]:.2f} to {ratios[-1]:.2f})"
        print(f"{name:5} {statistics.median(each):5.2f} s to the first batch   ours: {ratio:.2f} of it {spread}")
        if full_size and name != "ours":
            assert ratio <= 0.6


def test_the_next_epoch_begins_at_once(tmp_path: Path, full_size: bool) -> None:
    """From an epoch's last batch to the next one's first is at most twice a batch's time, in passes of one epoch."""
    epochs, batches = (12, 12) if full_size else (3, 4)
    source = ArrayRecordDataSource(write_jpegs(tmp_path, 32 * batches))
    options: dict[str, Any] = {"batch_size": 32, "shuffle": True, "num_workers": 2, "worker_init_fn": one_thread}
    loader = DataLoader(source, transforms=augment, **options)
    within: list[float] = []
    between: list[float] = []
    previous = None
    for _ in range(epochs):
        for step, _ in enumerate(loader):
            now = time.perf_counter()
            if previous is not None:
                (within if step else between).append(now - previous)
            previous = now
    loader.close()
    ratio = statistics.median(between) / statistics.fmean(within)
    print(
        f"a batch {1e3 * statistics.fmean(within):.1f} ms, from epoch to epoch {1e3 * statistics.median(between):.1f} ms: "
        f"{ratio:.2f} of it"
    )
    if full_size:
        assert ratio <= 2
