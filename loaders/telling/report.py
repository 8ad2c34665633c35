"""The figures of a loader as a page to read."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .diagnosis import diagnose
from .stats import LoaderStats

__all__ = ["format_html", "format_report"]

_HEAD = ("stage", "time", "share", "records/s", "MB/s")


def format_report(stats: LoaderStats, failed: Sequence[object] = ()) -> str:
    """Return a few lines and two tables: what was delivered, which records ``failed``, where the time went, and what to change.

    Rates of a stage are one worker's: how fast it would be if it did nothing else.
    """
    lines = [
        f"{stats}, {stats.bytes_per_s / 1e6:,.1f} MB/s",
        f"{describe_workers(stats)}; {stats.queue_depth:.1f} runs of batches ready when one was asked for",
        *([stats.choice] if stats.choice else []),
        *([f"{len(failed)} record{'s' * (len(failed) > 1)} failed, at last {failed[-1]}"] if failed else []),
        "",
        *_align([_HEAD, *_stage_rows(stats)]),
    ]
    if len(stats.workers) > 1:
        lines += ["", *_align([("worker", "time", "busy", "records", "MB"), *_worker_rows(stats)])]
    return "\n".join([*lines, "", f"bottleneck: {diagnose(stats)}"])


def format_html(stats: LoaderStats) -> str:
    """Return the same for a notebook."""
    rows = "".join(
        "<tr>" + "".join(f"<td style='text-align: right'>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in _stage_rows(stats)
    )
    head = "".join(f"<th>{name}</th>" for name in _HEAD)
    return (
        f"<p>{escape(str(stats))}<br>{escape(describe_workers(stats))}</p><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table><p>bottleneck: {escape(str(diagnose(stats)))}</p>"
    )


def describe_workers(stats: LoaderStats) -> str:
    """Return who makes the batches, in words."""
    if not stats.num_workers:
        return "made in this process"
    plural = "es" if stats.worker_type == "process" else "s"
    died = f", {stats.worker_deaths} replaced" if stats.worker_deaths else ""
    return f"made by {stats.num_workers} {stats.worker_type}{plural if stats.num_workers > 1 else ''}{died}"


def _stage_rows(stats: LoaderStats) -> list[tuple[str, ...]]:
    whole = sum(stage.seconds for stage in stats.stages.values()) or 1.0
    return [
        (
            name,
            f"{stage.seconds:.2f} s",
            f"{stage.seconds / whole:.0%}",
            f"{stage.records_per_s:,.0f}" if stage.seconds else "-",
            f"{stage.bytes_per_s / 1e6:,.1f}" if stage.seconds else "-",
        )
        for name, stage in stats.stages.items()
    ]


def _worker_rows(stats: LoaderStats) -> list[tuple[str, ...]]:
    return [
        (
            str(number),
            f"{worker.busy_s:.2f} s",
            f"{worker.busy_s / stats.elapsed_s:.0%}" if stats.elapsed_s else "-",
            f"{worker.records:,}",
            f"{worker.nbytes / 1e6:,.1f}",
        )
        for number, worker in stats.workers.items()
    ]


def _align(rows: list[tuple[str, ...]]) -> list[str]:
    """Return the rows of a table as lines, the first column to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if k == 0 else cell.rjust(width) for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
