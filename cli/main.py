"""The ``arrayfeed`` command: a thin layer over the public API.

Parsed with argparse, because the core installs with NumPy and codecs alone, and a richer parser would be one more
dependency for every user of the library.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from .. import DataError
from ..datasource.indexing import build_indexes
from . import convert, export, info, show, verify

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the process's exit status: 0 done, 1 the data are at fault; 2, the arguments are, exits.

    Args:
      arguments: What follows the program's name; None takes them from the command line.
    """
    options = _parser().parse_args(arguments)
    try:
        return options.run(options) or 0
    except (DataError, ImportError) as error:
        print(f"arrayfeed: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # Whoever was reading has seen enough, as in `arrayfeed show DIR | head`. What is left must not be written at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="arrayfeed", description="Look at data sets of ArrayRecord shards.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {version('arrayfeed')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    info.add_parser(commands)
    show.add_parser(commands)

    index = commands.add_parser("index", help="make the record indexes of a data set, for shards that others wrote")
    index.add_argument("path", metavar="DIR", help="the directory that holds dataset_info.json")
    index.add_argument("--in-cache", action="store_true", help="keep them in the user's cache, as where DIR is read-only")
    index.set_defaults(run=_index)

    verify.add_parsers(commands)
    convert.add_parsers(commands)
    export.add_parsers(commands)
    return parser


def _index(options: argparse.Namespace) -> None:
    for split, path in build_indexes(options.path, in_cache=options.in_cache or None):
        print(f"{split}: {path}")
