"""The ``arrayfeed`` command: a thin layer over the public API.

Parsed with argparse, because the core installs with NumPy and codecs alone and a richer parser would be one more
dependency for every user of the library.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib.metadata import version

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the process's exit status: 0 done, 1 the data is at fault, 2 the arguments are.

    Args:
      arguments: What follows the program's name; None takes them from the command line.
    """
    parser = _parser()
    parser.parse_args(arguments)
    parser.print_help()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="arrayfeed", description="Look at datasets of ArrayRecord shards.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {version('arrayfeed')}")
    return parser
