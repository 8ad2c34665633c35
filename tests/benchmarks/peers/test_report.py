"""The report: made of what was kept, and of all of it."""

from __future__ import annotations

from pathlib import Path

from benchmarks.peers import compare, report
from benchmarks.peers.results import Results, pair_ratios


def test_a_run_leaves_what_its_report_is_made_of(tmp_path: Path) -> None:
    """A run of one round gives a page with every row, absent peers with their reasons, and a plot; made again, it is the same."""
    results = tmp_path / "docs" / "benchmarks"
    options = ["--cache", str(tmp_path), "--results", str(results)]
    small = ["--workloads", "d", "--peers", "arrayfeed,bare,numpy", "--rounds", "1", "--limit", "0.1", "--count", "60"]

    compare.main([*options, *small])
    report.main(options)

    page = results.with_suffix(".md").read_text()
    for told in ("| arrayfeed | ", "| arrayfeed (workers) | ", "| bare work | ", "- NumPy in memory: bounded by"):
        assert told in page
    assert (results / "workload-d.png").stat().st_size > 1000
    assert report.render(Results.read(results), results) == page


def test_ratios_are_of_the_same_rounds() -> None:
    """A round that one of both has missed counts for neither; the first round warms up."""
    ours = {"rounds": [{"round": number, "epoch": {"rate": rate}} for number, rate in [(0, 9), (1, 10), (2, 30), (3, 8)]]}
    theirs = {"rounds": [{"round": number, "epoch": {"rate": rate}} for number, rate in [(0, 1), (1, 5), (3, 2)]]}

    assert pair_ratios(ours, theirs) == [2, 4]
