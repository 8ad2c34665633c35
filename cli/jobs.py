"""What commands that write for long have in common: a bar, options, and how they end."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import re
import sys
from collections.abc import Callable
from typing import Any

from .. import DataError
from ..datasource.converting import Converted
from ..datasource.converting.skipped import SKIPPED_SUFFIX
from ..datasource.writing import find_leftovers

__all__ = ["add_job_options", "job_options", "run_job"]

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
_INTERRUPTED = 130  # 128 + SIGINT, as shells have it
_SHOWN = 10


def add_job_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that conversions and exports share."""
    parser.add_argument("--num-shards", type=int, metavar="N", help="shards of each split, equal but for one record")
    parser.add_argument("--shard-bytes", type=_parse_bytes, metavar="SIZE", help="largest shard, before compression: 100M")
    parser.add_argument("--shard-records", type=int, metavar="N", help="most records of a shard")
    parser.add_argument(
        "--on-error",
        choices=("raise", "skip"),
        default="raise",
        help="leave bad records out, and list them in DST.skipped.json",
    )
    parser.add_argument("--workers", type=int, metavar="N", help="processes; as many as there are processors, if not given")
    parser.add_argument("--no-resume", action="store_true", help="begin anew, and leave nothing behind if interrupted")
    parser.add_argument("--quiet", action="store_true", help="no bar, which is shown where standard error is a terminal")
    parser.add_argument("--json", action="store_true", help="print JSON")


def job_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return these options as the functions take them; those that were not given are left out."""
    found = {name: getattr(options, name) for name in ("num_shards", "shard_bytes", "shard_records", "on_error")}
    found["num_workers"] = options.workers
    return {
        **{name: value for name, value in found.items() if value is not None},
        "resume": not options.no_resume,
        "progress": not options.quiet and sys.stderr.isatty() and importlib.util.find_spec("tqdm") is not None,
    }


def run_job(job: Callable[[], Converted], options: argparse.Namespace) -> int:
    """Run a job, tell how it ended, and return the exit status: 0 done, 1 the data or 2 the arguments at fault, 130 Ctrl-C."""
    try:
        found = job()
    except KeyboardInterrupt:
        print("arrayfeed: interrupted", file=sys.stderr)
        _tell_leftovers(options.destination)
        return _INTERRUPTED
    except DataError as error:
        print(f"arrayfeed: {error}", file=sys.stderr)
        _tell_leftovers(options.destination)
        return 1
    except (ValueError, TypeError, ImportError) as error:
        print(f"arrayfeed: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(dataclasses.asdict(found), indent=2))
        return 0
    for name, count in found.num_records.items():
        print(f"{name}: {count:,} records")
    if found.root:
        print(f"root {found.root}")
    for each in found.skipped[:_SHOWN]:
        print(f"skipped: {each}", file=sys.stderr)
    if found.skipped:
        print(f"{len(found.skipped):,} skipped; they are listed in {found.path}{SKIPPED_SUFFIX}", file=sys.stderr)
    return 0


def _tell_leftovers(path: str) -> None:
    left = [leftover.directory for leftover in find_leftovers(path) if not leftover.alive]
    if left:
        print(
            f"arrayfeed: what was finished is kept in {', '.join(left)}; the same command goes on from there. To give it up, "
            "delete that",
            file=sys.stderr,
        )


def _parse_bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+)([kMG]?)B?", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"a number of bytes expected, as 250000 or 100M, got {text!r}")
    return int(match[1]) * _UNITS[match[2]]
