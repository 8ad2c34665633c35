"""The report, docs/benchmarks.md and its plots, and the README's table: made of what is kept as JSON, without measuring.

PYTHONPATH=tests .venv/bin/python -m benchmarks.peers.report
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import plots, targets
from .compare import parse
from .data import WORKLOADS
from .results import Results, Spread, best_of, pair_ratios, rates
from .session import ROOT

__all__ = ["main", "render"]

BEGIN, END = "<!-- benchmarks: made by make bench -->", "<!-- end of benchmarks -->"

INTRODUCTION = """# arrayfeed beside its peers

Made by `make bench`, from what it measured, which is kept in [benchmarks/](benchmarks); not to be edited.
`make bench WORKLOADS=a,b PEERS=arrayfeed,grain` measures a part again (and replaces the rows of these workloads),
`make bench-report` makes this page again. A row by itself: `make bench WORKLOADS=<letter> PEERS=arrayfeed,<peer>`, the peer by
the name of its module, `tests/benchmarks/peers/peer_<peer>.py`.

How: every peer writes the same data in the format that its documents recommend, and is opened in its default and in its best
documented configurations, within two cores. One epoch is read whole and its records are compared with the data by a checksum
that does not depend on their order; its peak memory is that of the whole process tree (PSS). (A peer of the same version is
checked once over the same data, and its format is written once.) Then all peers are opened and stopped, and take turns: in
every round each runs for half a second to three, in another order, while the others stand still. An epoch that takes longer
is cut short and told from its rate after the first batch.

- *records/s* is the median of the rounds, with their range; in (d) a record is a window of 2,048 tokens.
- *ours / theirs* is the median of the ratios round by round, with their range: above 1, arrayfeed is faster.
- *CPU* is the processor's time of the whole process tree a record.
- *first epoch* is the rate of the one right after opening, opening included; *first batch* is the time from opening to it.
- *largest class* is the share of a batch's largest class, the mean over an epoch, over data sorted by ten classes: the nearer
  to a true permutation's (NumPy's, in (a)), the better the shuffle; 1.00 is none.
- Files are in the page cache, but for (f), where `posix_fadvise(DONTNEED)` drops them before each epoch.
"""


def render(results: Results, folder: Path) -> str:
    """Return the page; plots are written to ``folder``."""
    parts = [INTRODUCTION, _machine(results), "## Targets\n\n" + targets.table(results)]
    for key, workload in results.workloads.items():
        parts.append(f"## ({key}) {WORKLOADS[key].title}\n\n{_table(workload)}")
        parts += [f"![Records/s in ({key})](benchmarks/{plots.bars(workload, folder)})", _absent(workload)]
    sections: list[tuple[str, str, Callable[[Mapping[str, Any]], str]]] = [
        ("g", "(g), (j) First batch from the start of a process", _startup),
        ("h", "(h) Memory as data grow", _memory),
        ("i", "(i) Resuming at a random position", _resume),
        ("growth", "How cost grows", _growth),
        ("own", "Where our own time goes", _own),
    ]
    for name, title, section in sections:
        if name in results.parts:
            part = results.parts[name]
            parts.append(f"## {title}\n\nMeasured {part['date']}, commit {part['commit']}.\n\n{section(part)}")
            if name in plots.CURVES:
                parts.append(f"![{title}](benchmarks/{plots.CURVES[name](part, folder)})")
    parts.append(_configurations(results))
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def _machine(results: Results) -> str:
    machine = next(iter([*results.workloads.values(), *results.parts.values()]))["machine"]
    return (
        f"Machine: {machine['processor']}, {machine['processors']} processors, {machine['memory_gb']} GB; {machine['system']}; "
        f"Python {machine['python']}."
    )


def _rows(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    right = "|" + "|".join(" --- " if number < 1 else " ---: " for number in range(len(header))) + "|"
    return "\n".join(["| " + " | ".join(header) + " |", right, *("| " + " | ".join(row) + " |" for row in rows)])


def _table(workload: Mapping[str, Any]) -> str:
    """Return the table of a workload, the fastest first."""
    ours = best_of(workload, "arrayfeed")
    rows = []
    for row in sorted(workload["rows"], key=lambda row: -statistics.median(rates(row) or [0])):
        label = f"{row['name']} ({row['config']})" if row["config"] != "default" else row["name"]
        if "failed" in row or not rates(row):
            rows.append(
                [label, "failed: " + " ".join(row.get("failed", "no rounds").split())[:160].replace("|", "/"), *[""] * 7]
            )
            continue
        checked, rounds = row["checked"], [each["epoch"] for each in row["rounds"] if "epoch" in each]
        fresh = [each["fresh"] for each in row["rounds"] if "fresh" in each]
        ratio = "" if ours is None or row is ours else f"**{Spread.of(pair_ratios(ours, row))}**"
        complete = {True: "yes", None: "bound", False: f"no: {checked['missing']:,} of {workload['meta']['records']:,} missing"}
        share = checked["largest_share"]
        rows.append(
            [
                label,
                f"{Spread.of(rates(row))}",
                ratio,
                f"{statistics.median(each['cpu_s'] / each['records'] for each in rounds) * 1e6:.2f} µs",
                f"{Spread.of([each['rate'] for each in fresh]).median:,.0f}" if fresh else "",
                f"{_first_batch(row):.3f} s",
                f"{checked['pss'] / 1e6:.0f} MB",
                "" if share is None else f"{share:.2f}",
                complete[checked["complete"]],
            ]
        )
    note = f"Measured {workload['date']}, commit {workload['commit']}; {workload['meta']['count']:,} records."
    resident = [each["epoch"]["resident"] for row in workload["rows"] for each in row["rounds"] if "epoch" in each]
    if workload["meta"]["cold"] and resident:
        note += f" Of the files' pages, at most {max(resident):.1%} were in the page cache when an epoch began."
    if about := WORKLOADS[workload["workload"]].note:
        note += f" {about}"
    if ours is not None:
        note += f" *Ours* is arrayfeed ({ours['config']})."
    header = [
        "",
        "records/s",
        "ours / theirs",
        "CPU",
        "first epoch",
        "first batch",
        "peak",
        "largest class",
        "every record once",
    ]
    return f"{note}\n\n{_rows(header, rows)}"


def _first_batch(row: Mapping[str, Any]) -> float:
    """Return the seconds from opening to a batch, in a process that has just begun."""
    begun = row["rounds"][0]
    return float(begun.get("fresh", begun.get("epoch"))["first_s"])


def _absent(workload: Mapping[str, Any]) -> str:
    lines = [
        f"- {each['name']}: {'' if each['installed'] else 'could not be run: '}{each['why']}" for each in workload["absent"]
    ]
    return "Not in this table:\n\n" + "\n".join(lines) if lines else ""


def _startup(part: Mapping[str, Any]) -> str:
    rows = []
    for row in sorted(part["rows"], key=lambda row: (row["shards"], statistics.median(row["seconds"] or [9e9]))):
        if row["seconds"]:
            ratio = [each / bare for each, bare in zip(row["seconds"], row["numpy_s"], strict=False)]
            label = f"{row['name']} ({row['config']}), {row['shards']:,} shards"
            rows.append([label, f"{Spread.of(row['seconds'])} s", f"{Spread.of(ratio)}"])
    header = ["(a)'s data", "first batch from process start", "times `import numpy` in the same interpreter"]
    return _rows(header, rows)


def _memory(part: Mapping[str, Any]) -> str:
    header = ["records", "", "peak PSS over 200 batches", "of it no pages of files"]
    rows = [
        [
            f"{row['records']:,}",
            f"{row['peer']} ({row['config']})",
            row.get("failed") or f"{Spread.of(row['pss']).median / 1e6:.0f} MB",
            f"{Spread.of(row['anonymous']).median / 1e6:.0f} MB" if row.get("anonymous") else "",
        ]
        for row in sorted(part["rows"], key=lambda row: (row["peer"], row["config"], row["records"]))
    ]
    return _rows(header, rows)


def _resume(part: Mapping[str, Any]) -> str:
    rows = [
        [f"{row['records']:,}", row["peer"], row.get("failed") or f"{Spread.of([1e3 * s for s in row['seconds']])} ms"]
        for row in part["rows"]
    ]
    note = "A state at a random position is loaded, and a batch taken, of a source that reads nothing."
    return f"{note} torchdata draws the whole permutation and goes through it, and is left out above 10^6.\n\n" + _rows(
        ["records", "", "seconds"], rows
    )


def _growth(part: Mapping[str, Any]) -> str:
    failed = [f"- {row['peer']}, {row['axis']} {row['value']}: {row['failed']}" for row in part["rows"] if "failed" in row]
    return "Time a record, on log axes; files in the page cache.\n" + "\n".join(failed)


def _own(part: Mapping[str, Any]) -> str:
    parts = ["Stages are the loader's own figures of two epochs in process; functions the top of a profile of one epoch."]
    for row in part["rows"]:
        total = sum(row["stages"].values()) or 1
        stages = ", ".join(f"{name} {seconds / total:.0%}" for name, seconds in row["stages"].items() if seconds)
        waited = row["waited_s"] / row["elapsed_s"]
        lines = [[f"`{each['function']}`", f"{each['share']:.0%}", f"{each['calls']:,}"] for each in row["functions"]]
        table = _rows(["function", "of the time", "calls"], lines)
        parts.append(f"**({row['workload']})** {stages}; the consumer waited {waited:.0%} of the time.\n\n{table}")
    return "\n\n".join(parts)


def _configurations(results: Results) -> str:
    """Return what was run: each peer's version."""
    versions: dict[str, str] = {}
    failed: dict[str, str] = {}
    for workload in results.workloads.values():
        versions |= {row["name"]: row["version"] for row in workload["rows"]}
        failed |= workload["not_installed"]
    rows = [[name, version] for name, version in sorted(versions.items())]
    note = "What each configuration is, and after which document, stands at the head of `tests/benchmarks/peers/peer_*.py`."
    missing = "".join(f"\n- {requirement}: {why}" for requirement, why in failed.items())
    could_not = f"\n\nCould not be installed here:\n{missing}" if missing else ""
    return f"## Versions\n\n{note}\n\n{_rows(['', 'version'], rows)}{could_not}"


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    results = Results.read(options.results)
    page = options.results.with_suffix(".md")
    page.write_text(render(results, options.results))
    print(f"wrote {page}")
    readme = ROOT / "README.md"
    text = readme.read_text()
    if options.results == ROOT / "docs" / "benchmarks" and BEGIN in text:
        head, _, rest = text.partition(BEGIN)
        readme.write_text(f"{head}{BEGIN}\n{targets.short_table(results)}\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
