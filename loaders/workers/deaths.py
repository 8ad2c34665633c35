"""What to say of a process that ended."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path

__all__ = ["count_out_of_memory", "describe_end"]

_CAUSES = {
    signal.SIGSEGV: "a crash in compiled code, such as a decoder's",
    signal.SIGABRT: "compiled code gave up",
    signal.SIGFPE: "a crash in compiled code",
    signal.SIGILL: "compiled code made for another processor",
    signal.SIGBUS: "the disk behind a mapped file is full, or the file was cut short",
    signal.SIGTERM: "somebody asked it to end",
    signal.SIGKILL: "somebody killed it, or the system, to get memory back",
}


def describe_end(code: int, *, out_of_memory: bool) -> str:
    """Return how a process ended, and the likely cause.

    Args:
      code: As in ``subprocess``: minus the signal's number, or the exit code.
      out_of_memory: Whether the system has killed processes of this container for memory meanwhile.
    """
    if code >= 0:
        return f"exited with code {code} (sys.exit or os._exit, in the user's code or a library)"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    cause = _CAUSES.get(-code, "no known cause")  # type: ignore[call-overload]
    if code == -signal.SIGKILL and out_of_memory:
        cause = "out of memory: lower num_workers, batch_size or prefetch_factor"
    return f"was killed by {name} ({cause})"


def count_out_of_memory(groups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int:
    """Return how many processes of this container the kernel has killed for memory; 0 where it does not say.

    Args:
      groups: Where control groups are mounted, version 2 or 1.
      own: Which of them this process is in: lines of ``number:controllers:path``.
    """
    files = [groups / "memory.events", groups / "memory" / "memory.oom_control"]
    with suppress(OSError, ValueError):
        for line in own.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                files.append(groups / path.lstrip("/") / "memory.events")
            elif "memory" in controllers.split(","):
                files.append(groups / "memory" / path.lstrip("/") / "memory.oom_control")
    return max(map(_read_kills, files))


def _read_kills(path: Path) -> int:
    with suppress(OSError, ValueError):
        counts = dict(line.split() for line in path.read_text().splitlines())
        return int(counts.get("oom_kill", 0))
    return 0
