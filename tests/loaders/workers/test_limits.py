"""What systems are short of: descriptors, /dev/shm, memory. Loaders take little, and say what to do where it is too little."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from arrayfeed import DataLoader
from arrayfeed.loaders.workers.deaths import count_out_of_memory, describe_end
from support.worker_cases import Numbers, started_workers

pytestmark = [
    pytest.mark.usefixtures("no_leaks"),
    # Other tests of this process import JAX, which warns of any fork, and newer Pythons warn of its threads.
    pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]

TESTS = Path(__file__).parents[2]


def run(command: list[str], script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script behind ``command``, with warnings as errors."""
    paths = {"PYTHONPATH": os.pathsep.join([str(TESTS.parents[1]), str(TESTS)])}
    return subprocess.run(
        [*command, sys.executable, "-W", "error", "-c", script],
        capture_output=True,
        text=True,
        env=dict(os.environ) | paths | environment,
        timeout=90,
        check=False,
    )


def test_descriptors_do_not_grow_with_batches_or_workers() -> None:
    """With 500 batches held, in this process and in the workers; no more of them for three workers than for one."""
    counts: dict[int, list[int]] = {}
    before = psutil.Process().num_fds()
    for workers in (1, 3):
        loader = DataLoader(Numbers(600, width=9000), num_workers=workers)
        iterator = iter(loader)
        held = [next(iterator) for _ in range(20)]
        pids = started_workers(loader)

        def count(pids: list[int] = pids) -> list[int]:
            return [psutil.Process(pid).num_fds() for pid in (os.getpid(), *pids)]

        first = count()
        held += [next(iterator) for _ in range(480)]
        assert count() == first
        counts[workers] = first
        del held, iterator
        loader.close()

    assert counts[3][0] == counts[1][0] <= before + 10
    assert {*counts[3][1:]} == {*counts[1][1:]}


FEW_DESCRIPTORS = """
import os, resource
from arrayfeed import DataLoader
from support.worker_cases import Numbers

loader = DataLoader(Numbers(4), num_workers=2)
list(loader)  # everything is imported
loader.close()
open_now = len(os.listdir("/proc/self/fd")) - 1
for more in range(14):
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + more, 4096))
    try:
        count = len(list(loader))
        break
    except OSError as error:
        notes = "".join(getattr(error, "__notes__", []))
        if f"`ulimit -n`, which is {open_now + more} now" not in notes:
            raise
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    assert len(os.listdir("/proc/self/fd")) - 1 == open_now, "left open"
print(count, more)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")
def test_too_few_descriptors_are_told_with_the_limit() -> None:
    """Whichever of them is the one too many; nothing stays open, and with ten more all is well."""
    done = run([], FEW_DESCRIPTORS)

    assert done.returncode == 0, done.stderr
    count, more = map(int, done.stdout.split())
    assert count == 4 and 0 < more <= 12


HOLD = """
import logging, os, sys
logging.basicConfig(level=logging.WARNING, stream=sys.stdout)
from arrayfeed import DataLoader
from support.worker_cases import Numbers

if {over_file}:
    del os.memfd_create
loader = DataLoader(Numbers(500, width=25_000), num_workers=2)  # 200 kB each, 100 MB together
held = list(loader)
assert all(batch["x"].min() == batch["x"].max() == k for k, batch in enumerate(held))
print("held", len(held), os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize)
"""

SMALL = 'mount -t tmpfs -o size=64m tmpfs /dev/shm && exec "$@"'


def can_mount() -> bool:
    unshare = shutil.which("unshare")
    probe = [unshare or "", "-m", "sh", "-c", SMALL, "sh", "true"]
    return unshare is not None and subprocess.run(probe, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_mount(), reason="may not mount a small /dev/shm")
@pytest.mark.parametrize("over_file", [False, True])
def test_a_small_dev_shm_is_no_bound(over_file: bool) -> None:
    """As in a container, 64 MB: 100 MB of batches are held.

    In memory that is not there; or, without memfd and with TMPDIR there, in half of it, and beyond it in private memory, which
    is said.
    """
    done = run(
        ["unshare", "-m", "sh", "-c", SMALL, "sh"], HOLD.format(over_file=over_file), TMPDIR="/dev/shm" if over_file else "/tmp"
    )

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == f"held 500 {64 << 20}"
    assert ("copied to private memory" in done.stdout) == over_file


@pytest.mark.parametrize(
    ("files", "own", "count"),
    [
        ({}, "", 0),
        ({"memory.events": "low 0\noom 3\noom_kill 2\n"}, "0::/\n", 2),
        ({"memory.events": "oom_kill 1\n", "user/job/memory.events": "oom_kill 4\n"}, "0::/user/job\n", 4),
        ({"memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n"}, "3:cpu:/\n2:memory:/\n", 5),
        ({"memory/box/memory.oom_control": "oom_kill 6\n"}, "9:name=systemd:/\n4:memory,hugetlb:/box\n0::/\n", 6),
        ({"memory.events": "damaged\n"}, "nothing", 0),
    ],
)
def test_kills_for_memory_are_counted(files: dict[str, str], own: str, count: int, tmp_path: Path) -> None:
    """In control groups of either version, this process's own or the container's."""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "own").write_text(own)

    assert count_out_of_memory(tmp_path, tmp_path / "own") == count
    assert count_out_of_memory(tmp_path / "absent", tmp_path / "absent") == 0


def test_a_kill_for_memory_is_told_from_others() -> None:
    """By what the kernel has counted meanwhile; with what to lower."""
    assert "out of memory: lower num_workers" in describe_end(-9, out_of_memory=True)
    assert "out of memory" not in describe_end(-9, out_of_memory=False)
    assert "out of memory" not in describe_end(-11, out_of_memory=True)


def in_shared_memory(address: int) -> bool:
    """Return whether an address of this process lies in memory that workers write to."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, stop = (int(number, 16) for number in line.split(maxsplit=1)[0].split("-"))
        if start <= address < stop:
            return "memfd:arrayfeed" in line
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_batches_are_the_memory_that_workers_wrote_to(output: Any) -> None:
    """Without a copy, tensors too; apart from a first batch, which several workers have made."""
    loader = DataLoader(Numbers(40, width=9000), batch_size=4, num_workers=2, output=output)
    for step, batch in enumerate(loader):
        address = batch["x"].data_ptr() if output == "torch" else batch["x"].ctypes.data
        assert in_shared_memory(address) or step == 0


def test_workers_do_not_grow_from_epoch_to_epoch() -> None:
    """Over a list of a hundred thousand Python objects: four passes take the private memory of one."""
    source = [{"x": float(number)} for number in range(100_000)]
    loader = DataLoader(source, batch_size=256, shuffle=True, num_workers=2)
    sizes = []
    for _ in range(4):
        for batch in loader:
            assert batch["x"].dtype == np.float64
        sizes.append([psutil.Process(pid).memory_full_info().uss for pid in (os.getpid(), *started_workers(loader))])
    growth = np.array(sizes[-1]) - np.array(sizes[0])

    assert (growth < 8 << 20).all()


MEMORY = """
import psutil
from arrayfeed import DataLoader
from support.worker_cases import Numbers

loader = DataLoader(Numbers(480, width={width}), batch_size=24, shuffle=True, prefetch_factor=2, **{options})
main, peak = psutil.Process(), 0
for number, batch in enumerate(loader):
    if number % 3 == 2:
        peak = max(peak, sum(process.memory_full_info().pss for process in [main, *main.children(recursive=True)]))
print(peak)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("options", [{}, {"num_workers": 2}, {"num_workers": 2, "worker_type": "thread"}], ids=str)
def test_memory_is_that_of_the_batches_made_ahead(options: dict[str, Any]) -> None:
    """Records of 1 MiB, batches of 24: beside what is made ahead, one batch a worker and one in hand, half as much again."""
    sizes = []
    for width in (1, 1 << 17):
        done = run([], MEMORY.format(width=width, options=options))
        assert done.returncode == 0, done.stderr
        sizes.append(int(done.stdout))
    workers = options.get("num_workers", 0)
    batches = 2 * max(1, workers) + workers + 1

    assert sizes[1] - sizes[0] < 1.5 * batches * (24 << 20)
