"""Where arrayfeed's own time goes, by workload: the loader's own figures, and the functions that a profile shows on top.

The profile is of one epoch in the caller's thread alone, as ``cProfile`` sees one thread; it makes small functions look larger.
"""

from __future__ import annotations

import cProfile
import pstats
import time
from pathlib import Path
from typing import Any

from .compare import parse, write
from .data import WORKLOADS, make
from .directory import write_directory
from .session import ROOT

__all__ = ["look", "main"]

#: An epoch is profiled for so long at most.
LIMIT_S = 4.0


def look(key: str, data: Path) -> dict[str, Any]:
    """Return the stages' seconds of two epochs that are read ahead as usual, and the costliest functions of one that is not."""
    from .peer_arrayfeed import open

    size = WORKLOADS[key].batch_size
    usual = open(key, data, data, "default", batch_size=size, workers=2, seed=0)
    for number in range(2):
        run(usual.epoch(number))
    stats = usual.stats()
    usual.close()
    alone = open(key, data, data, "alone", batch_size=size, workers=2, seed=0)
    run(alone.epoch(0))
    profile = cProfile.Profile()
    profile.enable()
    records = run(alone.epoch(1))
    profile.disable()
    alone.close()
    return {
        "workload": key,
        "records": stats.records,
        "elapsed_s": stats.elapsed_s,
        "waited_s": stats.waited_s,
        "stages": {name: stage.seconds for name, stage in stats.stages.items()},
        "profiled_records": records,
        "functions": top(profile),
    }


def run(batches: Any) -> int:
    """Go through batches for a while; return how many records there were."""
    records, end = 0, time.perf_counter() + LIMIT_S
    for batch in batches:
        records += len(next(iter(batch.values())))
        if time.perf_counter() > end:
            break
    return records


def top(profile: cProfile.Profile, count: int = 8) -> list[dict[str, Any]]:
    """Return the functions that took most time by themselves, each with its share."""
    stats: Any = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    total = sum(each[2] for each in stats.values())
    ranked = sorted(stats.items(), key=lambda item: -item[1][2])[:count]
    return [{"function": name(*where), "share": each[2] / total, "calls": each[1]} for where, each in ranked]


def name(file: str, line: int, function: str) -> str:
    """Return a function's name with its file, as it stands in the repository, if it does."""
    path = Path(file)
    if file != "~" and path.resolve().is_relative_to(ROOT):
        return f"{path.resolve().relative_to(ROOT)}: {function}"
    return function if file == "~" else f"{path.name}: {function}"


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    wanted = "abcdef" if options.workloads in ("", "all") else [key for key in options.workloads.split(",") if key in "abcdef"]
    rows = []
    for key in wanted:
        data = make(key, options.cache, options.count)
        write_directory(data)
        rows.append(look(key, data))
        print(f"own time of {key}: {rows[-1]['stages']}", flush=True)
    write(options.results, "part-own", {"part": "own", "rows": rows})


if __name__ == "__main__":
    main()
