"""``arrayfeed verify``: is the data set on the disk the one that was written? ``arrayfeed pin``: note what it is."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys

from .. import DataError, verify
from ..datasource.manifest import write_manifest
from ..datasource.verification import Verification

__all__ = ["add_parsers"]


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the two commands."""
    parser = commands.add_parser("verify", help="check files, hashes, footers and every record of a data set")
    parser.add_argument("path", metavar="DIR", help="the directory that holds dataset_info.json")
    parser.add_argument("--quick", action="store_true", help="the files' sizes and the manifest's root only")
    parser.add_argument("--overlap", action="store_true", help="also look for records that stand in two splits")
    parser.add_argument("--root", metavar="SHA256", help="the root hash that the data set should have")
    parser.add_argument("--workers", type=int, metavar="N", help="processes; as many as there are processors, if not given")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_verify)

    parser = commands.add_parser("pin", help="write the manifest of a data set that has none, and print its root hash")
    parser.add_argument("path", metavar="DIR", help="the directory that holds dataset_info.json")
    parser.set_defaults(run=_pin)


def _verify(options: argparse.Namespace) -> int:
    try:
        found = verify(
            options.path,
            quick=options.quick,
            overlap=options.overlap,
            root=options.root,
            num_workers=options.workers,
            progress=sys.stderr.isatty() and importlib.util.find_spec("tqdm") is not None,
        )
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        print(f"arrayfeed: {error}", file=sys.stderr)
        return 2
    print(json.dumps(found.to_json(), indent=2) if options.json else _format(found))
    return 0 if found.ok else 1


def _format(found: Verification) -> str:
    """Return the outcome as lines for people."""
    faults = len(found.problems) + len(found.overlaps)
    return "\n".join(
        [
            *(f"wrong: {problem}" for problem in found.problems),
            *(f"overlap: {overlap}" for overlap in found.overlaps),
            *(f"odd: {warning}" for warning in found.warnings),
            f"{found.num_files} files, {found.num_records:,} records, {found.num_bytes:,} bytes",
            f"root {found.root or 'unknown'}",
            f"{faults} problem{'s' * (faults != 1)} found" if faults else "nothing is wrong",
        ]
    )


def _pin(options: argparse.Namespace) -> None:
    print(write_manifest(options.path))
