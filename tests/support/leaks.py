"""What a process holds that outlives a forgotten object: children, threads, shared memory."""

from __future__ import annotations

import gc
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

# multiprocessing starts these once and keeps them for the life of the interpreter, whoever uses it.
_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
_IN_MEMORY = ("/memfd:", "/dev/shm/")


@dataclass(frozen=True, slots=True)
class Resources:
    """Names of the child processes, threads and shared-memory files of this process at one moment."""

    names: frozenset[str]

    @classmethod
    def now(cls) -> Self:
        return cls(frozenset({*_processes(), *_threads(), *_shared_memory()}))

    def wait_until_released(self, *, timeout_s: float) -> frozenset[str]:
        """Return what is held now but was not then, once nothing is or the time is up.

        Waiting, because a thread told to stop and a child that has exited take a moment to go.
        """
        end = time.monotonic() + timeout_s
        gc.collect()
        while (left := self.now().names - self.names) and time.monotonic() < end:
            time.sleep(0.02)
        return left


def _processes() -> set[str]:
    names = set()
    for child in psutil.Process().children(recursive=True):
        try:
            command = " ".join(child.cmdline())
        except psutil.NoSuchProcess:
            continue
        except psutil.ZombieProcess:
            command = "zombie"
        if not any(helper in command for helper in _HELPERS):
            names.add(f"process {child.pid} ({command[:80]})")
    return names


def _threads() -> set[str]:
    return {f"thread {thread.name} ({thread.ident})" for thread in threading.enumerate()}


def _shared_memory() -> set[str]:
    """Return our segments in /dev/shm, and what is open or mapped of those that have no name (any more); Linux only."""
    names = {str(path) for path in Path("/dev/shm").glob("arrayfeed*")}  # the whole machine shares that directory
    for link in Path("/proc/self/fd").glob("*"):
        try:
            target = str(link.readlink())
        except OSError:
            continue  # the directory's own descriptor is gone by now
        if target.startswith(_IN_MEMORY):
            names.add(f"descriptor {link.name} -> {target}")
    maps = Path("/proc/self/maps")
    for line in maps.read_text().splitlines() if maps.exists() else []:
        # address, permissions, offset, device and inode come before the path
        target = line.split(maxsplit=5)[-1]
        if target.startswith(_IN_MEMORY):
            names.add(f"mapping of {target}")
    return names
