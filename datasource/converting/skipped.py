"""The list of what was left out: kept with each part, and beside the data set."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence

from .conversion import Skipped

__all__ = ["SKIPPED_SUFFIX", "read_skipped", "report_skipped", "write_skipped"]

_FILE = "skipped.json"
#: Beside the data set: ``<path>.skipped.json``.
SKIPPED_SUFFIX = ".skipped.json"


def write_skipped(directory: str, skipped: Sequence[Skipped]) -> None:
    """Note in an attempt's directory what was left out of its part."""
    if skipped:
        _write(os.path.join(directory, _FILE), skipped)


def read_skipped(home: str, number: int) -> list[Skipped]:
    """Return what was left out of a finished part of the data set that is written in ``home``."""
    with open(os.path.join(home, f"part-{number:05d}.json"), encoding="utf-8") as file:
        attempt = json.load(file)["directory"]
    try:
        with open(os.path.join(home, attempt, _FILE), encoding="utf-8") as file:
            return [Skipped(**entry) for entry in json.load(file)]
    except FileNotFoundError:
        return []


def report_skipped(path: str, skipped: Sequence[Skipped]) -> None:
    """Write the list beside a data set; of nothing there is none."""
    if skipped:
        _write(f"{path.rstrip(os.sep)}{SKIPPED_SUFFIX}", skipped)


def _write(path: str, skipped: Sequence[Skipped]) -> None:
    temporary = f"{path}.tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump([dataclasses.asdict(each) for each in skipped], file, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
