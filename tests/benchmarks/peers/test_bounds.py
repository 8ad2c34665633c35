"""Each workload against its bound, with wide margins: what falls far behind is a regression.

The bounds are NumPy over arrays in memory and the bare work, or reads, without a loader: ``peer_numpy`` and ``peer_bare``.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest
from benchmarks.peers.compare import compare, rows_of
from benchmarks.peers.data import WORKLOADS, make
from benchmarks.peers.directory import write_directory
from benchmarks.peers.results import Spread, best_of, pair_ratios

#: The bound of each workload, the share of its rate that is asked for at full size, and how many records are enough then.
BOUNDS = {
    "a": ("numpy", 0.5, 60_000),
    "b": ("bare", 0.3, 10_000),
    "c": ("bare", 0.5, 1_024),
    "d": ("bare", 0.003, 10_000),
    "e": ("numpy", 0.002, 20_000),
    "f": ("bare", 0.45, 1_000),
}


#: The share of a first epoch's rate that is asked for, opening included: NumPy loads its arrays then. By records, for what it
#: takes to open has nothing to do with their number.
FRESH = {"a": {60_000: 0.45, 3_000: 0.02}}


@pytest.mark.parametrize("key", BOUNDS)
def test_no_workload_falls_far_behind_its_bound(tmp_path: Path, key: str, full_size: bool) -> None:
    """The median of rounds by turns is a share of the bound's rate; small, in CI, an eighth of that share, over few records."""
    bound, share, count = BOUNDS[key]
    rounds, limit_s = (5, 0.8) if full_size else (3, 0.15)
    data = make(key, tmp_path, count if full_size else count // 20)
    write_directory(data)
    rows, _ = rows_of(key, ["arrayfeed", bound], data, tmp_path, {})
    rows = [row for row in rows if row.told["config"] == "default"]

    compare(key, rows, rounds=rounds, limit_s=limit_s, check_s=60)

    workload = {"rows": [row.told for row in rows]}
    assert not any("failed" in row for row in workload["rows"]), json.dumps(workload["rows"])
    ours, theirs = best_of(workload, "arrayfeed"), best_of(workload, bound)
    assert ours is not None and theirs is not None and ours["checked"]["complete"]
    ratios = pair_ratios(ours, theirs)
    print(f"({key}) {WORKLOADS[key].title}: {Spread.of(ratios)} of {theirs['name']}")
    assert len(ratios) == rounds
    assert statistics.median(ratios) >= (share if full_size else share / 8)
    if key in FRESH:
        fresh = pair_ratios(ours, theirs, "fresh")
        print(f"    first epoch: {Spread.of(fresh)}")
        assert statistics.median(fresh) >= FRESH[key][count if full_size else count // 20]
