"""The processors that a process may use, bound to some or in a container that has the time of a few."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from arrayfeed.datasource.processors import count_cpus

HERE = count_cpus(Path("/nowhere"), Path("/nowhere"))
CASES = {
    "the group at the root": ({"cpu.max": "50000 100000\n"}, "", 1),
    "version 2": ({"a/b/cpu.max": "100000 100000\n"}, "0::/a/b\n", 1),
    "the narrowest": ({"cpu.max": "1000000000 100000", "a/cpu.max": "40000 100000"}, "0::/a\n", 1),
    "version 1": ({"cpu/a/cpu.cfs_quota_us": "100000", "cpu/a/cpu.cfs_period_us": "100000"}, "3:cpu,cpuacct:/a\n", 1),
    "no limit": ({"cpu.max": "max 100000\n"}, "0::/\n", HERE),
    "no limit in version 1": ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, "3:cpu:/\n", HERE),
    "more than there are": ({"cpu.max": "100000000 100000\n"}, "0::/\n", HERE),
    "damaged": ({"cpu.max": "much"}, "cpu", HERE),
}


@pytest.mark.parametrize("name", CASES)
def test_a_container_has_as_many_as_it_has_time_of(name: str, tmp_path: Path) -> None:
    """Rounded up, and never more than the process is bound to."""
    files, own, expected = CASES[name]
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "own").write_text(own)

    assert count_cpus(tmp_path, tmp_path / "own") == expected


@pytest.mark.skipif(sys.platform != "linux", reason="processes are bound to processors on Linux")
def test_a_process_bound_to_one_processor_has_one() -> None:
    """As by ``taskset``."""
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert count_cpus() == 1
    finally:
        os.sched_setaffinity(0, before)
