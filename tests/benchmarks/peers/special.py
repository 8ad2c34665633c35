"""What is no rate: the first batch from process start, memory as data grow, resuming, a thousand shards; and how cost grows.

PYTHONPATH=tests .venv/bin/python -m benchmarks.peers.special --workloads g,h,i,growth
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .compare import parse, write
from .data import make
from .directory import write_directory
from .machine import ONLY, OVER_SHARDS, PEERS, describe_peer, interpreter, prepared_folder
from .session import PeerError, Session

__all__ = ["PARTS", "main"]

Settings = Any


class Case:
    """One peer in one configuration over one data set, and the figures that are gathered."""

    def __init__(
        self, peer: str, config: str, data: Path, options: Settings, *, batch_size: int = 128, workers: int = 2, **labels: Any
    ) -> None:
        key = data.name.partition("-")[0]
        prepared = prepared_folder(peer, data, options.cache)
        workload = key if key in "bcdef" else "a" if key == "j" else key
        self.peer = peer
        self._arguments = [peer, workload, str(data), str(prepared), config, str(batch_size), str(workers)]
        self._cache = options.cache
        self.told: dict[str, Any] = {"peer": peer, "config": config, **labels, "seconds": []}

    def open(self) -> Session:
        return Session(interpreter(self.peer), self._arguments, self._cache, self._cache / "logs" / f"{self.peer}-special.log")

    def ask(self, do: str, *, weigh: bool = False, **arguments: Any) -> dict[str, Any]:
        """Ask a process of its own; a failure is noted, and ends this case."""
        try:
            with self.open() as session:
                return session.ask_and_weigh(do, **arguments) if weigh else session.ask(do, **arguments)
        except PeerError as error:
            self.told["failed"] = str(error)[:300]
            print(f"  {self.told}", flush=True)
            return {}


def by_turns(cases: Sequence[Case], rounds: int) -> list[Case]:
    """Return the cases ``rounds`` times, each round in another order; who goes through them leaves out what failed."""
    order = random.Random(1)
    return [case for _ in range(rounds) for case in order.sample(cases, len(cases))]


def make_all(key: str, options: Settings, count: int | None = None) -> Path:
    data = make(key, options.cache, count)
    write_directory(data)
    return data


def startup(options: Settings, peers: list[str]) -> dict[str, Any]:
    """(g), and the first batch of (j): seconds from the start of a process to a batch, beside an interpreter's own start."""
    small, many = make_all("a", options, options.count), make_all("j", options, options.count)
    cases = []
    for peer in peers:
        about = describe_peer(peer, options.cache)
        if "a" in about.get("workloads", ()):
            configs = [config for config in about["configs"] if "a" in ONLY.get((peer, config), "a")]
            for config in configs if peer == "arrayfeed" else configs[:1]:
                cases.append(Case(peer, config, small, options, name=about["name"], shards=4))
                if peer in OVER_SHARDS and peer != "numpy":
                    cases.append(Case(peer, config, many, options, name=about["name"], shards=1000))
    for case in cases:
        case.ask("prepare", timeout_s=600)
    for turn, case in enumerate(by_turns(cases, options.rounds + 1)):
        if "failed" in case.told:
            continue
        start = time.perf_counter()
        answer = case.ask("first")
        took = time.perf_counter() - start
        if answer and turn >= len(cases):  # the first turn brought files into the page cache
            case.told["seconds"].append(took)
            for what, seconds in bare_starts(case.peer).items():
                case.told.setdefault(what, []).append(seconds)
    return {"rows": [case.told for case in cases]}


def bare_starts(peer: str) -> dict[str, float]:
    """Return the seconds that an interpreter takes to start and end, with and without NumPy, right after a peer of its own."""
    took = {}
    for what, code in {"pass_s": "pass", "numpy_s": "import numpy"}.items():
        start = time.perf_counter()
        subprocess.run([interpreter(peer), "-c", code], check=True)
        took[what] = time.perf_counter() - start
    return took


def memory(options: Settings, peers: list[str]) -> dict[str, Any]:
    """(h): the peak of a process and its workers over 200 batches, from data sets of a thousand records to ten million."""
    cases = []
    for count in options.counts:
        data = make_all("h", options, count)
        for peer, config in [("arrayfeed", "default"), ("arrayfeed", "workers"), ("grain", "default"), ("torch", "workers")]:
            if peer in peers and (peer == "arrayfeed" or count <= 100_000):
                cases.append(Case(peer, config, data, options, records=count))
    for case in cases:
        case.ask("prepare", timeout_s=600)
    for case in by_turns(cases, 3):
        if "failed" not in case.told:
            answer = case.ask("batches", weigh=True, count=200)
            for kind in ("pss", "anonymous"):
                case.told.setdefault(kind, []).append(answer.get(kind, 0))
    return {"rows": [case.told for case in cases]}


def resuming(options: Settings, peers: list[str]) -> dict[str, Any]:
    """(i): seconds to load a state at a random position of a thousand to a billion records, and to have the next batch."""
    data = make_all("h", options, 1000)
    cases = [
        Case(peer, "default", data, options) for peer in ("arrayfeed", "grain", "grain_dataset", "torchdata") if peer in peers
    ]
    rng = random.Random(2)
    rows = []
    for case in cases:
        try:
            with case.open() as session:
                session.ask("resume", records=1000, position=512)  # imports
                # torchdata draws the whole permutation and goes through it: 20 s for 10^7.
                took: dict[int, list[float]] = {10**digits: [] for digits in range(3, 7 if case.peer == "torchdata" else 10)}
                for records in list(took) * 3 * options.rounds:
                    position = rng.randrange(1, records // 128) * 128
                    took[records].append(session.ask("resume", records=records, position=position)["seconds"])
                rows += [{"peer": case.peer, "config": "default", "records": n, "seconds": each} for n, each in took.items()]
        except PeerError as error:
            rows.append({"peer": case.peer, "config": "default", "records": 0, "seconds": [], "failed": str(error)[:300]})
    return {"rows": rows}


def growth(options: Settings, peers: list[str]) -> dict[str, Any]:
    """Seconds a record, by records, batch size, workers and record size, each for a few peers; files in the page cache."""
    ours = [("arrayfeed", "default"), ("arrayfeed", "workers")]
    bound, theirs = ("numpy", "default"), [("torch", "workers"), ("grain_dataset", "workers, no threads")]
    cases = []

    def add(axis: str, value: int, data: Path, who: list[tuple[str, str]], **arguments: int) -> None:
        for peer, config in who:
            if peer in peers:
                cases.append(Case(peer, config, data, options, axis=axis, value=value, **arguments))

    for count in (1_000, 10_000, 100_000, 1_000_000):
        add("records", count, make_all("h", options, count), [*ours, bound, *(theirs if count < 1_000_000 else [])])
    images = make_all("a", options, options.count)
    for size in (8, 32, 128, 512, 2048):
        add("batch size", size, images, [*ours, bound, *(theirs if size in (8, 128, 2048) else [])], batch_size=size)
    photographs = make_all("c", options, options.count)
    add("workers", 0, photographs, ours[:1])
    for workers in (1, 2, 4):
        add("workers", workers, photographs, [ours[1], *theirs], workers=workers, batch_size=64)
    for size in (100, 1_000, 10_000, 100_000, 1_000_000):
        data = make_all(f"s{size}", options)
        add("record size", size, data, [*ours, bound, *theirs], batch_size=32)
    for case in random.Random(3).sample(cases, len(cases)):
        try:
            with case.open() as session:
                session.ask("prepare", timeout_s=600)
                session.ask("epochs", limit_s=0.3)
                for _ in range(3):
                    case.told["seconds"].append(1 / session.ask("epochs", limit_s=0.4)["rate"])
        except PeerError as error:
            case.told["failed"] = str(error)[:300]
    return {"rows": [case.told for case in cases]}


PARTS = {"g": startup, "h": memory, "i": resuming, "growth": growth}


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    options.rounds = options.rounds or 5
    options.counts = [10**digits for digits in range(3, 8)] if options.count is None else [1000, options.count]
    peers = list(PEERS) if options.peers in ("", "all") else options.peers.split(",")
    wanted = (
        list(PARTS) if options.workloads in ("", "all") else [each for each in options.workloads.split(",") if each in PARTS]
    )
    for name in wanted:
        start = time.perf_counter()
        try:
            write(options.results, f"part-{name}", {"part": name, "about": PARTS[name].__doc__, **PARTS[name](options, peers)})
        except Exception:
            traceback.print_exc()  # the other parts are measured all the same
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    # Peers that wait for their turn are stopped, and would stay so if this process just ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    main()
