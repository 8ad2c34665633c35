"""The report's plots: bars by peer, and curves of how cost grows, on log axes."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
from matplotlib import pyplot
from matplotlib.figure import Figure

from .results import rates

__all__ = ["CURVES", "bars"]

OURS, BOUND, THEIRS = "#c1440e", "#555555", "#7a9cc6"


def bars(workload: Mapping[str, Any], folder: Path) -> str:
    """Plot records/s by peer, the range as a line; return the file's name."""
    rows = sorted((row for row in workload["rows"] if rates(row)), key=lambda row: statistics.median(rates(row)))
    figure, axes = pyplot.subplots(figsize=(9, 0.8 + 0.27 * len(rows)), layout="constrained")
    for place, row in enumerate(rows):
        values = rates(row)
        middle = statistics.median(values)
        colour = OURS if row["peer"] == "arrayfeed" else BOUND if row["peer"] in ("numpy", "bare") else THEIRS
        around = [[middle - min(values)], [max(values) - middle]]
        axes.barh(place, middle, color=colour, xerr=around, error_kw={"linewidth": 1, "ecolor": "black"})
    axes.set_yticks(range(len(rows)), [f"{row['name']} ({row['config']})" for row in rows], fontsize=8)
    axes.set_xscale("log")
    axes.set_xlabel("records/s")
    return _save(figure, folder, f"workload-{workload['workload']}.png")


def _save(figure: Figure, folder: Path, name: str) -> str:
    figure.savefig(folder / name, dpi=100, metadata={"Software": None})
    pyplot.close(figure)
    return name


def _curves(axes: Any, rows: Any, x: str, y: Callable[[Any], float]) -> None:
    """Draw a line a peer and configuration."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        lines.setdefault(f"{row['peer']} ({row['config']})", []).append((row[x], y(row)))
    for label in sorted(lines):
        points = sorted(lines[label])
        ours = label.startswith("arrayfeed")
        axes.plot(*zip(*points, strict=True), "o-", label=label, linewidth=2 if ours else 1, markersize=4)
    axes.set_yscale("log")
    axes.set_xlabel(x)
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=7)


def _growth(part: Mapping[str, Any], folder: Path) -> str:
    rows = [row for row in part["rows"] if row["seconds"]]
    names = list(dict.fromkeys(row["axis"] for row in rows))
    figure, grid = pyplot.subplots(2, 2, figsize=(11, 8), layout="constrained")
    for axes, name in zip(grid.flat, names, strict=False):
        here = [row for row in rows if row["axis"] == name]
        _curves(axes, here, "value", lambda row: 1e6 * statistics.median(row["seconds"]))
        axes.set_xlabel({"record size": "bytes in a record"}.get(name, name))
        axes.set_ylabel("µs a record")
        if name == "workers":
            axes.set_xticks([0, 1, 2, 4])
        else:
            axes.set_xscale("log")
    return _save(figure, folder, "growth.png")


def _memory(part: Mapping[str, Any], folder: Path) -> str:
    figure, both = pyplot.subplots(1, 2, figsize=(11, 4), layout="constrained", sharey=True)
    for axes, kind, title in zip(both, ("pss", "anonymous"), ("peak PSS", "of it no pages of files"), strict=True):
        rows = [row for row in part["rows"] if "failed" not in row and min(row.get(kind, [0])) > 0]
        _curves(axes, rows, "records", lambda row, kind=kind: statistics.median(row[kind]) / 1e6)  # type: ignore[misc]
        axes.set_xscale("log")
        axes.set_title(title)
        axes.set_ylabel("MB")
    return _save(figure, folder, "memory.png")


def _resume(part: Mapping[str, Any], folder: Path) -> str:
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    _curves(axes, [row for row in part["rows"] if row["seconds"]], "records", lambda row: statistics.median(row["seconds"]))
    axes.set_xscale("log")
    axes.set_ylabel("seconds to the next batch")
    return _save(figure, folder, "resume.png")


#: By part, what draws it: given the part and a folder, each returns the name of the file it wrote.
CURVES: dict[str, Callable[[Mapping[str, Any], Path], str]] = {"growth": _growth, "h": _memory, "i": _resume}
