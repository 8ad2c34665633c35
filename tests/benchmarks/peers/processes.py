"""The processes that a process has started, and those that they have."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["descendants"]


def descendants(root: int) -> dict[int, list[str]]:
    """Return what the system says of each process below ``root``: the words of ``/proc/PID/stat`` behind the program's name."""
    said: dict[int, list[str]] = {}
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                said[int(name)] = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has just ended
            children.setdefault(int(said[int(name)][1]), []).append(int(name))
    found, waiting = {}, children.get(root, [])[:]
    while waiting:
        process = waiting.pop()
        found[process] = said[process]
        waiting += children.get(process, [])
    return found
