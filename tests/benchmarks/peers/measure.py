"""One peer in a process of its own, which does what it is told on stdin and answers each line with one of JSON.

    PYTHONPATH=tests/benchmarks python -m peers.measure numpy a CACHE/a-60000 PREPARED default 128 0

The arguments: peer, workload, the folder of the data and that of the peer's own format, configuration, batch size, workers.
With the peer alone it says what that can do, as JSON, and ends.
The questions, each a line of JSON:

    {"do": "prepare"}                   write the peer's own format; seconds, bytes
    {"do": "first"}                     open and take one batch; for whoever measures from the start of the process
    {"do": "check"}                     one whole epoch, untimed: records, checksum, largest class's share of a batch
    {"do": "batches", "count": 200}     take so many, for whoever weighs the process meanwhile
    {"do": "resume", "records": n, "position": p}   load a state and take a batch, over a source that reads nothing
    {"do": "epochs", "limit_s": 1.5,    epochs until the time is up, at least one: records/s, processor's seconds, ...
     "fresh": true}                     after opening anew, and then only the first epoch

Runs wherever the peer is installed, so it imports the standard library, NumPy and the peer only.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .processes import descendants

__all__ = ["Subject"]


class Subject:
    """A peer with one workload in one configuration, as its module ``peer_<name>.py`` opens it."""

    def __init__(self, peer: str, workload: str, data: str, prepared: str, config: str, batch_size: str, workers: str) -> None:
        self._module = importlib.import_module(f"{__package__}.peer_{peer}")
        self._workload = workload
        self._data, self._prepared = Path(data), Path(prepared)
        self._meta = json.loads((self._data / "meta.json").read_text())
        self._config = config
        self._options = {"batch_size": int(batch_size), "workers": int(workers), "seed": 0}
        self._opened: Any = None
        self._epoch = 0

    def prepare(self) -> dict[str, Any]:
        """Let the peer write the data in its own format, once: whoever is interrupted leaves nothing to be mistaken for it."""
        start = time.perf_counter()
        if not self._prepared.exists():
            partial = self._prepared.with_name(self._prepared.name + ".part")
            partial.mkdir(parents=True, exist_ok=True)
            self._module.prepare(self._workload, self._data, partial)
            partial.rename(self._prepared)
        size = sum(path.stat().st_size for path in self._prepared.rglob("*") if path.is_file())
        return {"seconds": time.perf_counter() - start, "bytes": size, "version": self._module.version()}

    def first(self) -> dict[str, Any]:
        """Open, and take one batch."""
        start = time.perf_counter()
        batches = self._iterate(fresh=True)
        size = _size(next(batches))
        seconds = time.perf_counter() - start
        _close(batches)
        return {"seconds": seconds, "records": size}

    def check(self) -> dict[str, Any]:
        """Go through one epoch and count what came."""
        from .checksum import Tally

        meta = self._meta
        tally = Tally(meta["fields"], classes=meta["classes"], labels=meta["labels"], pad=meta["pad"])
        unchecked = self._workload in getattr(self._module, "UNCHECKED", ())
        for batch in self._iterate():
            if not unchecked:
                tally.add(batch)
        return {
            "records": tally.records,
            "missing": meta["records"] - tally.records,
            "complete": None if unchecked else (tally.records, tally.checksum) == (meta["records"], meta["checksum"]),
            "largest_share": tally.largest_share,
        }

    def epochs(self, limit_s: float, fresh: bool = False) -> dict[str, Any]:
        """Time epochs. One that takes longer than the limit is cut short, and its whole time told from the rate after its first
        batch; what was made ahead by then is not seen, so the estimate errs in the peer's favour.
        """
        expected = self._meta["epoch_records"]
        resident = 1.0
        if self._meta["cold"] or fresh:
            self._shut()  # what was open before takes its time to close, which is not that of opening
        if self._meta["cold"]:
            resident = _drop_from_cache(self._data, self._prepared)
        cpu_before, end = _cpu_seconds(), time.perf_counter() + limit_s
        seconds: list[float] = []
        first_s: list[float] = []
        counted, whole = 0, True
        # One right after the other: what a peer makes ahead of its next epoch, it makes in the time of this one.
        while not seconds or (time.perf_counter() + seconds[-1] < end and not fresh):
            start = time.perf_counter()
            batches = self._iterate(fresh)
            records = first = 0
            for batch in batches:
                records += _size(batch)
                if not first:
                    first, after_s = records, time.perf_counter() - start
                if time.perf_counter() > start + after_s + limit_s and records < expected:
                    whole = False
                    break
            took = time.perf_counter() - start
            if not whole:
                _close(batches)
            counted += records
            if not whole and records > first:
                took = after_s + (took - after_s) / (records - first) * (expected - first)
            elif not whole:
                took *= expected / records
            seconds.append(took)
            first_s.append(after_s)
        cpu_s = _cpu_seconds() - cpu_before
        if self._meta["cold"]:
            self._shut()  # so that nothing is mapped when it is somebody else's turn
        return {
            "epochs": len(seconds),
            "epoch_s": sum(seconds) / len(seconds),
            "first_s": first_s[0],
            "rate": expected * len(seconds) / sum(seconds),
            "whole": whole,
            "records": counted,
            "cpu_s": cpu_s,
            "resident": resident,
        }

    def batches(self, count: int) -> dict[str, Any]:
        """Take so many batches, of several epochs where it takes that, for whoever weighs the process meanwhile."""
        taken = 0
        while taken < count:
            before, batches = taken, self._iterate()
            for _ in batches:
                taken += 1
                if taken == count:
                    break
            if taken == before:
                raise RuntimeError("an epoch without a batch")
        return {"batches": taken}

    def resume(self, records: int, position: int) -> dict[str, Any]:
        """Load a state in the middle of an epoch over a source that reads nothing, and take one batch."""
        start = time.perf_counter()
        next(self._module.resume(records, position, self._options["batch_size"]))
        return {"seconds": time.perf_counter() - start}

    def _iterate(self, fresh: bool = False) -> Iterator[dict[str, Any]]:
        if fresh:
            self._shut()
        if self._opened is None:
            self._opened = self._module.open(self._workload, self._data, self._prepared, self._config, **self._options)
            self._epoch = 0
        batches: Iterator[dict[str, Any]] = iter(self._opened.epoch(self._epoch))
        self._epoch += 1
        return batches

    def _shut(self) -> None:
        _close(self._opened)
        self._opened = None


def _describe(peer: str) -> dict[str, Any]:
    module = importlib.import_module(f"{__package__}.peer_{peer}")
    return {
        "name": module.NAME,
        "configs": list(module.CONFIGS),
        "workloads": sorted(module.WORKLOADS),
        "skipped": module.SKIPPED,
        "about": (module.__doc__ or "").strip(),
        "version": module.version(),
    }


def _size(batch: dict[str, Any]) -> int:
    return len(next(iter(batch.values())))


def _close(what: Any) -> None:
    close = getattr(what, "close", None)
    if close is not None:
        close()


def _drop_from_cache(*folders: Path) -> float:
    """Drop files from the page cache; return the share of their pages that are in it all the same: what somebody has mapped."""
    pages = left = 0
    for path in {path.resolve() for folder in folders for path in folder.rglob("*") if path.is_file()}:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        if size := os.fstat(descriptor).st_size:
            here = _resident(descriptor, size)
            pages, left = pages + len(here), left + sum(here)
        os.close(descriptor)
    return left / max(1, pages)


def _resident(descriptor: int, size: int) -> bytes:
    """Return for each page of a file whether it is in the page cache: 1 or 0."""
    import ctypes
    import mmap

    length = -(-size // mmap.PAGESIZE)
    told = ctypes.create_string_buffer(length)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    libc.mincore(address, size, told)
    libc.munmap(address, size)
    return bytes(byte & 1 for byte in told.raw)


def _cpu_seconds() -> float:
    """Return the processor's seconds of this process and its descendants so far, those that have ended too."""
    times = os.times()
    total = sum(sum(map(int, said[11:15])) for said in descendants(os.getpid()).values())
    return time.process_time() + times.children_user + times.children_system + total / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Answer the questions on stdin, one by one; an exception is an answer, too."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a peer prints is no answer
    try:
        if len(sys.argv) == 2:
            print(json.dumps(_describe(sys.argv[1])), file=answers, flush=True)
            return
        subject = Subject(*sys.argv[1:])
    except Exception as error:
        print(json.dumps({"failed": f"{type(error).__name__}: {error}"}), file=answers, flush=True)
        return
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer = getattr(subject, question.pop("do"))(**question)
        except Exception as error:
            import traceback

            traceback.print_exc()
            answer = {"failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # some peers' threads and processes would not let this one end
