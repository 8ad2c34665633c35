"""How many processors there are to work with."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from pathlib import Path

__all__ = ["count_cpus"]


def count_cpus(groups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int:
    """Return how many processors this process may use: those it is bound to, or as many as a container has time of.

    Args:
      groups: Where control groups are mounted, version 2 or 1.
      own: Which of them this process is in: lines of ``number:controllers:path``.
    """
    try:
        bound = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        bound = os.cpu_count() or 1
    folders = [groups, groups / "cpu"]
    with suppress(OSError, ValueError):
        for line in own.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers or "cpu" in controllers.split(","):
                folders.append(folders[bool(controllers)] / path.lstrip("/"))
    return max(1, min(bound, *(math.ceil(_read_share(folder)) for folder in folders)))


def _read_share(folder: Path) -> float:
    """Return how many processors' time a control group has; a great many where it has no limit, or does not say."""
    with suppress(OSError, ValueError):
        quota, period = (folder / "cpu.max").read_text().split()
        return float(quota) / float(period) if quota != "max" else 1 << 20
    with suppress(OSError, ValueError):
        quota = (folder / "cpu.cfs_quota_us").read_text()
        return float(quota) / float((folder / "cpu.cfs_period_us").read_text()) if float(quota) > 0 else 1 << 20
    return 1 << 20
