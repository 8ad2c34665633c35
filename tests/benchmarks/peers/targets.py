"""What arrayfeed is to reach in each workload, and where it stands: one table for the report, a short one for the README."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .results import Results, Spread, best_of, pair_ratios, rates

__all__ = ["TARGETS", "Target", "short_table", "table"]

BOUNDS = ("arrayfeed", "numpy", "bare")


@dataclass(frozen=True)
class Target:
    """A ratio of records/s to reach.

    Attributes:
      config: arrayfeed's; None is its fastest.
      peers: Those whose fastest row is the measure; none for the fastest of all peers.
      their_config: Of theirs, if not the fastest.
      what: Of ours, whole epochs, or "fresh": the first after opening.
      their_what: Of theirs; None is the same.
    """

    workload: str
    against: str
    ratio: float
    config: str | None
    peers: tuple[str, ...]
    their_config: str | None = None
    what: str = "epoch"
    their_what: str | None = None

    def measure(self, workload: Mapping[str, Any]) -> Spread | None:
        """Return the ratios by pairs, or None where one of both is not there."""
        peers = self.peers or tuple({row["peer"] for row in workload["rows"]} - set(BOUNDS))
        ours = best_of(workload, "arrayfeed", config=self.config)
        theirs = best_of(workload, *peers, config=self.their_config)
        if ours is None or theirs is None:
            return None
        ratios = pair_ratios(ours, theirs, self.what, self.their_what)
        return Spread.of(ratios) if ratios else None


_OF_NUMPY = Target("a", "NumPy in memory", 0.8, "default", ("numpy",))
TARGETS = [
    _OF_NUMPY,
    Target("a", "NumPy in memory, by the first epoch after opening", 0.8, "default", ("numpy",), None, "fresh", "epoch"),
    Target("a", "NumPy that reads its arrays first, by first epochs", 0.8, "default", ("numpy",), None, "fresh"),
    Target("a", "Sedpack's Rust batched iterator", 2, "default", ("sedpack",), "rust batched"),
    Target("a", "SeqTools", 10, "default", ("seqtools",)),
    Target("a", "batched tf.data", 12, "default", ("tfdata",), "batched"),
    Target("a", "Grain's DataLoader", 400, "default", ("grain", "grain_tfds")),
    Target("a", "arrayfeed in process, by 2 workers", 0.5, "workers", ("arrayfeed",), "default"),
    Target("b", "torch or Grain over tfds.data_source", 2.5, None, ("tfds", "grain_tfds")),
    Target("b", "the bare decode loop on both cores", 0.8, None, ("bare",)),
    Target("c", "the bare decode loop on both cores", 0.93, None, ("bare",)),
    Target("c", "the fastest peer", 1.15, None, ()),
    Target("d", "the fastest peer, packed once before", 3, "windows written", ()),
    Target("d", "the fastest that packs while it loads", 3, "default", ("tfdata", "grain_dataset")),
    Target("e", "the fastest peer over the same directory", 5, None, ("tfds", "grain_tfds")),
    Target("f", "Grain", 2, None, ("grain", "grain_dataset")),
    Target("f", "random reads at depth 32", 0.8, None, ("bare",)),
]


def table(results: Results) -> str:
    """Return all targets, reached or not."""
    lines = ["| workload | against | target | measured | |", "| --- | --- | ---: | ---: | --- |"]
    for target in TARGETS:
        spread = target.measure(results.workloads[target.workload]) if target.workload in results.workloads else None
        if spread is not None:
            verdict = "reached" if spread.median >= target.ratio else "**short**"
            lines.append(f"| ({target.workload}) | {target.against} | {target.ratio:g} | {spread} | {verdict} |")
        else:
            lines.append(f"| ({target.workload}) | {target.against} | {target.ratio:g} | | not measured |")
    lines += _start_lines(results) + _flat_lines(results)
    return "\n".join(lines)


def _start_lines(results: Results) -> list[str]:
    """Return the lines of (g): our time over theirs, so lower is better."""
    rows = [row for row in results.parts.get("g", {}).get("rows", ()) if row["seconds"] and row["shards"] == 4]
    ours = next((row for row in rows if row["peer"] == "arrayfeed" and row["config"] == "default"), None)
    theirs = [row for row in rows if row["peer"] not in BOUNDS]
    if ours is None:
        return ["| (g) | | | | not measured |"]
    to_numpy = Spread.of([each / bare for each, bare in zip(ours["seconds"], ours["numpy_s"], strict=False)])
    verdict = "reached" if to_numpy.median <= 2.5 else "**short**"
    lines = [f"| (g) | time of `python -c 'import numpy'` | at most 2.5 | {to_numpy} | {verdict} |"]
    if theirs:
        best = min(theirs, key=lambda row: statistics.median(row["seconds"]))
        ratio = Spread.of([a / b for a, b in zip(ours["seconds"], best["seconds"], strict=False)])
        verdict = "reached" if ratio.median <= 0.6 else "**short**"
        lines.append(
            f"| (g) | time of {best['name']} ({best['config']}), the fastest peer | at most 0.6 | {ratio} | {verdict} |"
        )
    return lines


def _flat_lines(results: Results) -> list[str]:
    """Return the lines of (h), (i) and (j): the largest over the smallest, which is 1 where nothing grows."""
    lines = []
    memory = [row for row in results.parts.get("h", {}).get("rows", ()) if row["peer"] == "arrayfeed" and row.get("pss")]
    for config in sorted({row["config"] for row in memory}):
        rows = sorted((row for row in memory if row["config"] == config), key=lambda row: row["records"])
        for kind, what in {"pss": "peak PSS", "anonymous": "memory that is no page of a file"}.items():
            ratio = statistics.median(rows[-1][kind]) / statistics.median(rows[0][kind])
            between = f"{rows[0]['records']:,} to {rows[-1]['records']:,} records"
            lines.append(f"| (h) | {what}, {config}, {between} | flat | times {ratio:.2f} | |")
    resumed = [row for row in results.parts.get("i", {}).get("rows", ()) if row["peer"] == "arrayfeed" and row["seconds"]]
    if resumed:
        first, last = (statistics.median(resumed[place]["seconds"]) for place in (0, -1))
        lines.append(f"| (i) | time to resume, 10^3 to 10^9 records | flat | times {last / first:.2f} | |")
    starts = [
        row for row in results.parts.get("g", {}).get("rows", ()) if row["peer"] == "arrayfeed" and row["config"] == "default"
    ]
    if len(starts) == 2:
        few, many = sorted(starts, key=lambda row: row["shards"])
        spread = Spread.of([b / a for a, b in zip(few["seconds"], many["seconds"], strict=False)])
        lines.append(f"| (j) | first batch, 4 to 1,000 shards | flat | times {spread} | |")
    # Measured minutes apart, on a machine whose pace changes: so both are told by what NumPy did in the same rounds.
    shares = [_OF_NUMPY.measure(results.workloads[key]) for key in "aj" if key in results.workloads]
    if len(shares) == 2 and shares[0] is not None and shares[1] is not None:
        ratio = shares[1].median / shares[0].median
        lines.append(
            f"| (j) | records/s of a shuffled epoch, as a share of NumPy's, 1,000 shards to 4 | flat | times {ratio:.2f} | |"
        )
    return lines


def short_table(results: Results) -> str:
    """Return a line a workload: our records/s, the fastest peer, and the ratio."""
    lines = ["| shuffled epoch | arrayfeed | fastest peer | ours / theirs |", "| --- | ---: | --- | ---: |"]
    for workload in results.workloads.values():
        ours = best_of(workload, "arrayfeed")
        theirs = best_of(workload, *({row["peer"] for row in workload["rows"]} - set(BOUNDS)))
        if ours is not None and theirs is not None:
            ratio = Spread.of(pair_ratios(ours, theirs))
            rate = f"{statistics.median(rates(ours)):,.0f}/s"
            name = f"{theirs['name']} ({theirs['config']})"
            lines.append(f"| ({workload['workload']}) {workload['title']} | {rate} | {name} | {ratio} |")
    return "\n".join(lines)
