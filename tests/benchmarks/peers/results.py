"""What was measured, as it was kept, and ratios of it by pairs."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

__all__ = ["Results", "Spread", "best_of", "pair_ratios", "rates"]

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Spread:
    """A median, with the range that it is the middle of."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        return cls(statistics.median(values), min(values), max(values))

    def __str__(self) -> str:
        return f"{_short(self.median)} ({_short(self.low)} to {_short(self.high)})"


def _short(value: float) -> str:
    """Return a number to three digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.4f}"


@dataclass(frozen=True)
class Results:
    """The workloads by letter, and the parts by name."""

    workloads: Mapping[str, Any]
    parts: Mapping[str, Any]

    @classmethod
    def read(cls, folder: Path) -> Self:
        found = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
        split = {kind: {name.partition("-")[2]: each for name, each in found.items() if name.startswith(kind)} for kind in
                 ("workload", "part")}  # fmt: skip
        return cls(split["workload"], split["part"])


def rates(row: Row, what: str = "epoch") -> list[float]:
    """Return a row's records/s, round by round."""
    return [each[what]["rate"] for each in row.get("rounds", ()) if what in each and each["round"] > 0]


def pair_ratios(ours: Row, theirs: Row, what: str = "epoch", their_what: str | None = None) -> list[float]:
    """Return how many times faster ``ours`` was, in each round that has both; ``their_what`` where not the same is compared."""
    kinds = ((ours, what), (theirs, their_what or what))
    by_round = [{each["round"]: each[kind]["rate"] for each in row["rounds"] if kind in each} for row, kind in kinds]
    return [by_round[0][number] / by_round[1][number] for number in by_round[0] if number > 0 and number in by_round[1]]


def best_of(workload: Mapping[str, Any], *peers: str, config: str | None = None) -> Row | None:
    """Return the fastest complete row of some peers, or None."""
    rows = [
        row
        for row in workload["rows"]
        if row["peer"] in peers and "failed" not in row and rates(row) and (config is None or row["config"] == config)
    ]
    return max(rows, key=lambda row: statistics.median(rates(row)), default=None)
