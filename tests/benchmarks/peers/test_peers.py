"""The benchmark of peers, at a tiny scale: what it says of a peer is true."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from benchmarks.peers.data import WORKLOADS, make
from benchmarks.peers.directory import write_directory
from benchmarks.peers.processes import descendants
from benchmarks.peers.session import Session

COUNTS = {"a": 300, "b": 300, "c": 70, "d": 60, "e": 300, "f": 40, "j": 300}


def start(peer: str, data: Path, cache: Path, config: str = "default") -> Session:
    meta = json.loads((data / "meta.json").read_text())
    prepared = str(cache / "prepared" / peer / data.name)
    arguments = [peer, meta["workload"], str(data), prepared, config, str(meta["batch_size"]), "2"]
    return Session(sys.executable, arguments, cache, cache / "log")


@pytest.mark.parametrize(
    ("key", "config"),
    [*((key, "default") for key in WORKLOADS), ("a", "workers"), ("c", "workers"), ("d", "workers"), ("d", "windows written")],
)
def test_an_epoch_of_ours_holds_every_record_of_the_arrays_once(tmp_path: Path, key: str, config: str) -> None:
    """In every workload, what the loader delivers has the checksum of the arrays that were written, and times are told."""
    data = make(key, tmp_path, COUNTS[key])
    write_directory(data)
    with start("arrayfeed", data, tmp_path, config) as ours:
        ours.ask("prepare")
        checked = ours.ask("check")
        timed = ours.ask("epochs", limit_s=30, fresh=True)

    assert checked["complete"], checked
    assert timed["whole"] and timed["epochs"] == 1
    assert timed["epoch_s"] >= timed["first_s"] > 0


def test_a_peer_whose_turn_it_is_not_stands_still_workers_and_all(tmp_path: Path) -> None:
    """Those in sessions of their own, too; then it goes on where it stood."""
    data = make("a", tmp_path, 300)
    write_directory(data)
    with start("arrayfeed", data, tmp_path, "workers") as ours:
        ours.ask("epochs", limit_s=0.1)
        ours.pause()
        end = time.monotonic() + 10
        while {said[0] for said in descendants(ours.pid).values()} != {"T"} and time.monotonic() < end:
            time.sleep(0.01)
        stopped = descendants(ours.pid)
        ours.resume()
        assert ours.ask("epochs", limit_s=0.1)["rate"] > 0

    assert len(stopped) >= 3 and {said[0] for said in stopped.values()} == {"T"}  # a warden and two workers


def test_a_record_left_out_or_given_twice_is_told(tmp_path: Path) -> None:
    """Neither has the checksum of the whole."""
    from benchmarks.peers.data import new_tally

    data = make("a", tmp_path, 300)
    meta = json.loads((data / "meta.json").read_text())
    image, label = np.load(data / "image.npy"), np.load(data / "label.npy")

    def checksum(rows: object) -> tuple[int, int]:
        tally = new_tally(WORKLOADS["a"], meta["labels"])
        tally.add({"image": image[rows], "label": label[rows]})
        return tally.records, tally.checksum

    order = np.random.default_rng(0).permutation(300)
    assert checksum(order) == (300, meta["checksum"])
    assert checksum(order[1:]) != (299, meta["checksum"])
    assert checksum(np.append(order[1:], order[1])) != (300, meta["checksum"])


def test_a_peer_that_fails_says_why(tmp_path: Path) -> None:
    """An error of the peer, and a peer that is not there, are answers."""
    from benchmarks.peers.session import PeerError

    data = make("d", tmp_path, 60)
    for peer, why in {"numpy": "label", "nobody": "ModuleNotFoundError"}.items():
        with start(peer, data, tmp_path) as session, pytest.raises(PeerError, match=why):
            session.ask("check")
