"""The latest past of a loader as a picture: who did what when, and when training waited. Needs matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...datasource.laps import STAGES
from .watch import Watch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_timeline"]

#: By stage, then waiting; told apart by the colour-blind, too (Okabe and Ito).
_COLOURS = ("#0072B2", "#56B4E9", "#009E73", "#E69F00", "#CC79A7")
_WAITING = "#D55E00"


def plot_timeline(watch: Watch) -> Figure:
    """Return a figure with a line for each worker and one for training, over seconds.

    A run of several batches is drawn as if it had gone through one stage after the other; only what was delivered is drawn.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    workers = sorted({times.worker for times, _ in watch.runs})
    starts = [times.start_ns / 1e9 for times, _ in watch.runs if times.start_ns] + [start for start, _ in watch.waits]
    zero = min(starts, default=0.0)
    figure = Figure(figsize=(10, 1.6 + 0.4 * len(workers)), layout="constrained")
    axes = figure.add_subplot()
    bars: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for times, _ in watch.runs:
        at = times.start_ns / 1e9 - zero
        for stage, spent_ns in enumerate(times.spent_ns):
            if spent_ns and times.start_ns:
                bars.setdefault((workers.index(times.worker), stage), []).append((at, spent_ns / 1e9))
                at += spent_ns / 1e9
    for (row, stage), spans in bars.items():
        axes.broken_barh(spans, (row + 0.6, 0.8), color=_COLOURS[stage], linewidth=0)
    axes.broken_barh([(start - zero, stop - start) for start, stop in watch.waits], (-0.4, 0.8), color=_WAITING, linewidth=0)
    axes.set_yticks(range(len(workers) + 1), ["training", *(f"worker {worker}" for worker in workers)])
    axes.set_ylim(-0.5, len(workers) + 0.5)
    axes.set_xlabel("seconds")
    used = sorted({stage for _, stage in bars})
    patches = [Patch(color=_COLOURS[stage], label=STAGES[stage]) for stage in used] + [Patch(color=_WAITING, label="waits")]
    figure.legend(handles=patches, loc="outside upper center", ncols=len(patches), frameon=False)
    return figure
