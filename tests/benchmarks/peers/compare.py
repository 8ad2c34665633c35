"""All peers over one workload, their runs interleaved; what was measured is kept as JSON, from which reports are made.

    PYTHONPATH=tests .venv/bin/python -m benchmarks.peers.compare --workloads a,b --peers arrayfeed,grain

First each peer alone writes its own format, and reads one epoch that is checked and weighed; others' checks, which take most of
the time, are kept, and made again for another version or other data. Then all of them are open at once, and stopped but for the
one whose turn it is; every round goes through them in another order.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .data import WORKLOADS, make
from .directory import write_directory
from .machine import ONLY, OVER_SHARDS, PEERS, describe_machine, describe_peer, interpreter, not_installed, prepared_folder
from .session import ROOT, PeerError, Session

__all__ = ["Row", "compare", "main"]

#: The peers that are opened anew in every round, because a first epoch is promised, too.
FRESH = ("arrayfeed", "numpy", "bare")


class Row:
    """A peer in one configuration over one workload, and what is known of it so far.

    Attributes:
      told: What goes into the results: "failed" among it where it has.
    """

    def __init__(self, peer: str, config: str, described: Mapping[str, Any], data: Path, cache: Path) -> None:
        meta = json.loads((data / "meta.json").read_text())
        prepared = prepared_folder(peer, data, cache)
        self.peer = peer
        self.cold = meta["cold"]
        self._arguments = [peer, meta["workload"], str(data), str(prepared), config, str(meta["batch_size"]), "2"]
        self._cache = cache
        name = f"{peer}-{config}-{data.name}".replace(" ", "_")
        self._log = cache / "logs" / f"{name}.log"
        self._kept = None if peer in FRESH else cache / "checked" / f"{name}-{described['version']}.json"
        self._prepared, self._checksum = prepared, meta["checksum"]
        self.told: dict[str, Any] = {
            "peer": peer,
            "name": described["name"],
            "config": config,
            "version": described["version"],
            "rounds": [],
        }

    def open(self) -> Session:
        return Session(interpreter(self.peer), self._arguments, self._cache, self._log)

    def attempt(self, what: Callable[[], None]) -> bool:
        """Do it, unless this row has failed before; say whether it was done."""
        if "failed" in self.told:
            return False
        try:
            what()
        except PeerError as error:
            self.told["failed"] = str(error)[:500]
            print(f"   {self.told['name']}, {self.told['config']}: {self.told['failed']}", flush=True)
        return "failed" not in self.told

    def check(self, limit_s: float) -> None:
        """Let the peer write its format, and look at one epoch of it in a process of its own."""
        self.told["checked"] = self._find_check() or self._check(limit_s)

    def _check(self, limit_s: float) -> dict[str, Any]:
        with self.open() as session:
            session.ask("prepare", timeout_s=600)
            checked = {**session.ask_and_weigh("check", timeout_s=limit_s), "checksum": self._checksum}
        if self._kept is not None and checked["complete"]:
            self._kept.parent.mkdir(exist_ok=True)
            self._kept.write_text(json.dumps(checked))
        return checked

    def _find_check(self) -> dict[str, Any] | None:
        """Return what a check gave before, of this version over these data, if what it wrote for it is still there."""
        if self._kept is None or not self._kept.exists() or not self._prepared.exists():
            return None
        checked: dict[str, Any] = json.loads(self._kept.read_text())
        return checked if checked["checksum"] == self._checksum else None

    def measure(self, session: Session, limit_s: float, fresh: bool) -> dict[str, Any]:
        return session.ask("epochs", limit_s=limit_s, fresh=fresh, timeout_s=60 + 20 * limit_s)


def rows_of(key: str, peers: list[str], data: Path, cache: Path, described: dict[str, Any]) -> tuple[list[Row], list[Any]]:
    """Return the rows of a workload, and the peers that have none, each with the reason."""
    rows, absent = [], []
    for peer in peers:
        if key == "j" and peer not in OVER_SHARDS:
            continue
        if peer not in described:
            described[peer] = describe_peer(peer, cache)
        about, as_a = described[peer], "a" if key == "j" else key
        if "failed" in about or as_a not in about["workloads"]:
            why = about.get("failed") or about["skipped"].get(as_a, "not written for it")
            absent.append({"peer": peer, "name": about.get("name", peer), "why": why, "installed": "failed" not in about})
        else:
            configs = [each for each in about["configs"] if as_a in ONLY.get((peer, each), as_a)]
            rows += [Row(peer, config, about, data, cache) for config in configs]
    return rows, absent


def compare(key: str, rows: list[Row], *, rounds: int, limit_s: float, check_s: float) -> None:
    """Check every row, then time them all by turns."""
    for row in rows:
        start = time.perf_counter()
        row.attempt(lambda row=row: row.check(check_s))  # type: ignore[misc]
        note = "" if "failed" in row.told else f"{'complete' if row.told['checked']['complete'] else row.told['checked']}"
        print(f"  {key}: {row.told['name']}, {row.told['config']}: {note} ({time.perf_counter() - start:.1f} s)", flush=True)
    order = random.Random(ord(key))
    with ExitStack() as stack:
        sessions: dict[int, Session] = {}
        for number in range(rounds + 1):
            for row in order.sample(rows, len(rows)):
                row.attempt(lambda row=row, n=number: turn(row, sessions, stack, n, limit_s))  # type: ignore[misc]
            print(f"  {key}: round {number} of {rounds}", flush=True)


def turn(row: Row, sessions: dict[int, Session], stack: ExitStack, number: int, limit_s: float) -> None:
    """Let one row have its turn in a round; the round 0 warms up, and its first epoch is told apart.

    Where files are dropped from the page cache, a process ends with its turn, as what it has mapped would stay there; it begins
    with a batch, so that no epoch has to import anything.
    """
    opened = id(row) in sessions
    session = sessions.setdefault(id(row), stack.enter_context(row.open())) if not opened else sessions[id(row)]
    if opened:
        session.resume()
    try:
        told: dict[str, Any] = {"round": number}
        if row.cold:
            session.ask("first", timeout_s=120)
        if not row.cold and (number == 0 or row.peer in FRESH):
            told["fresh"] = row.measure(session, limit_s, True)
        if number > 0 or row.cold:  # from a cold cache every epoch begins with opening the files
            told["epoch"] = row.measure(session, limit_s, row.cold)
        row.told["rounds"].append(told)
    finally:
        if row.cold:
            sessions.pop(id(row)).close()
        else:
            session.pause()


def write(results: Path, name: str, content: Mapping[str, Any]) -> None:
    """Write results as JSON, with the date and the commit; errors name files as they lie in the repository."""
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    results.mkdir(parents=True, exist_ok=True)
    head = {"date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", "commit": commit.stdout.strip(), "machine": describe_machine()}
    partial = results / f"{name}.json.part"
    text = json.dumps({**head, **content}, indent=1).replace(f"{ROOT}/", "")
    partial.write_text(text + "\n")
    partial.rename(results / f"{name}.json")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", default="all", help="letters, with commas")
    parser.add_argument("--peers", default="all", help=f"of {', '.join(PEERS)}")
    parser.add_argument("--rounds", type=int, help="turns of each peer, for all workloads; by default 5, of (a) and (b) more")
    parser.add_argument("--limit", type=float, help="seconds after which an epoch is cut short, for all workloads")
    parser.add_argument("--check", type=float, default=90.0, help="seconds that a peer has for an epoch that is checked")
    parser.add_argument("--count", type=int, help="records, in place of each workload's own number")
    parser.add_argument("--cache", type=Path, default=ROOT / ".venv" / "bench-data", help="where data are made, once")
    parser.add_argument("--results", type=Path, default=ROOT / "docs" / "benchmarks")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    peers = list(PEERS) if options.peers in ("", "all") else options.peers.split(",")
    keys = (
        list(WORKLOADS)
        if options.workloads in ("", "all")
        else [key for key in options.workloads.split(",") if key in WORKLOADS]
    )
    described: dict[str, Any] = {}
    for key in keys:
        start = time.perf_counter()
        try:
            measure_workload(key, peers, options, described)
        except Exception:
            traceback.print_exc()  # the other workloads are measured all the same
        print(f"{key}: {time.perf_counter() - start:.0f} s", flush=True)


def measure_workload(key: str, peers: list[str], options: argparse.Namespace, described: dict[str, Any]) -> None:
    """Make the data, measure all peers that can do it, and write the results."""
    data = make(key, options.cache, options.count)
    write_directory(data)
    rows, absent = rows_of(key, peers, data, options.cache, described)
    limit_s = options.limit or WORKLOADS[key].limit_s
    rounds = options.rounds or WORKLOADS[key].rounds
    compare(key, rows, rounds=rounds, limit_s=limit_s, check_s=options.check)
    meta = json.loads((data / "meta.json").read_text())
    content = {"workload": key, "title": WORKLOADS[key].title, "meta": meta, "rows": [row.told for row in rows]}
    write(options.results, f"workload-{key}", {**content, "absent": absent, "not_installed": not_installed()})


if __name__ == "__main__":
    # Peers that wait for their turn are stopped, and would stay so if this process just ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    main()
