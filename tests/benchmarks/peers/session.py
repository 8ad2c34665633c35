"""A peer's process as the one who asks it sees it: started where the peer is installed, timed and weighed from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .processes import descendants

__all__ = ["PeerError", "Session", "library_path"]

BENCHMARKS = Path(__file__).resolve().parents[1]
ROOT = BENCHMARKS.parents[1]


class PeerError(Exception):
    """A peer could not do what it was asked for; says why."""


def library_path(cache: Path) -> Path:
    """Return a folder from which ``import arrayfeed`` finds this checkout, whatever the checkout is called."""
    link = cache / "src" / "arrayfeed"
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(ROOT)
    return link.parent


class Session:
    """A running ``measure.py``. A context manager; ends the process and all that it has started.

    Args:
      python: The interpreter that has the peer.
      arguments: Those of ``measure.py``.
      cache: Where data lie, and the link to this checkout.
      log: What the peer prints goes there.
    """

    def __init__(self, python: str, arguments: Sequence[str], cache: Path, log: Path) -> None:
        paths = os.pathsep.join([str(BENCHMARKS), str(library_path(cache))])
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore", "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": ""}
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [python, "-m", "peers.measure", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, **quiet, "PYTHONPATH": paths},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Of the process itself."""
        return self._process.pid

    def ask(self, do: str, *, timeout_s: float = 300, **arguments: Any) -> dict[str, Any]:
        """Return the answer to one question.

        Raises:
          PeerError: The peer failed, ended, or took longer than ``timeout_s``.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        timer = threading.Timer(timeout_s, self._kill)
        timer.start()
        try:
            print(json.dumps({"do": do, **arguments}), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        except OSError:
            line = ""
        timed_out = not timer.is_alive()
        timer.cancel()
        if not line:
            why = f"took longer than {timeout_s:.0f} s" if timed_out else f"its process ended with {self._process.wait()}"
            raise PeerError(f"{why}; {self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        if "failed" in answer:
            raise PeerError(answer["failed"])
        return answer

    def ask_and_weigh(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Return an answer, and with it the most memory, in bytes, that the process and its descendants took meanwhile: "pss",
        each page by how many share it, and "anonymous", what of that is no page of a file.
        """
        peak, done = {"pss": 0, "anonymous": 0}, threading.Event()

        def watch() -> None:
            ended = False
            while not ended:
                ended = done.wait(0.03)  # and once more when it is done: what it has then, it had
                for kind, size in _weigh(self._process.pid).items():
                    peak[kind] = max(peak[kind], size)

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            answer = self.ask(do, **arguments)
        finally:
            done.set()
            watcher.join()
        return {**answer, **peak}

    def pause(self) -> None:
        """Stop the process and its workers until ``resume``, so that what they do ahead costs nobody else's time."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let them go on."""
        self._signal(signal.SIGCONT)

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def close(self) -> None:
        """End the process, and the processes that it started. May be called twice."""
        self._kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()

    def _kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        # Those whose workers have sessions of their own, as arrayfeed's, would go on working ahead in others' turns.
        groups = {int(said[2]) for said in descendants(self._process.pid).values()}
        for group in (self._process.pid, *sorted(groups - {self._process.pid})):
            with suppress(ProcessLookupError):  # it has ended
                os.killpg(group, number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _weigh(root: int) -> dict[str, int]:
    """Return the proportional set size of a process and its descendants, and the part of it that no file backs, in bytes."""
    kinds = {"Pss:": "pss", "Pss_Anon:": "anonymous", "Pss_Shmem:": "anonymous"}
    total = {"pss": 0, "anonymous": 0}
    for process in (root, *descendants(root)):
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        for kind, size in (line.split()[:2] for line in lines[1:]):
            if kind in kinds:
                total[kinds[kind]] += int(size) * 1024
    return total
