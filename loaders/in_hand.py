"""Which record a thread is at work on, for whoever waits for it too long. 80 ns a record."""

from __future__ import annotations

import threading

__all__ = ["NOTHING", "describe_at", "mark", "show_in"]

#: What stands there while no single record is at work: several are read at once, or the batch is put together.
NOTHING = -1


class _Local(threading.local):
    cell: memoryview | None = None


_local = _Local()


def show_in(cell: memoryview) -> None:
    """Let ``mark`` write to ``cell``, one int64, what this thread is at from now on."""
    _local.cell = cell


def mark(record: int) -> None:
    """Note that this thread begins to work on a record, or ``NOTHING``."""
    cell = _local.cell
    if cell is not None:
        cell[0] = record


def describe_at(record: int) -> str:
    """Return what a thread is doing, by what it has marked."""
    return "reading several records at once, or putting the batch together" if record == NOTHING else f"at record {record}"
