"""What every converter is made of: inputs cut into pieces, and a function that reads one piece, record by record."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ..errors import DataError
from ..features import FeaturesDict
from ..tfds import DatasetInfo

__all__ = ["Conversion", "Converted", "Item", "OnError", "Piece", "Read", "Skipped", "describe_inputs"]

#: What becomes of a record that cannot be read, or does not fit: the conversion ends, or goes on without it.
OnError: TypeAlias = Literal["raise", "skip"]


@dataclass(frozen=True, slots=True)
class Item:
    """One record of an input.

    Attributes:
      path: The file that it comes from.
      record: Its number there; None where the file is one record.
      value: An example, to be encoded; a record as it is to be stored; or what is wrong with it.
      size: What of its piece is done with it, in the conversion's unit.
    """

    path: str
    record: int | None
    value: Mapping[str, Any] | bytes | DataError
    size: int = 1


@dataclass(frozen=True, slots=True)
class Piece:
    """Some inputs of one split: a part of the data set to be, written by itself, and by itself redone.

    Attributes:
      source: What they are, for the function that reads them. Its ``repr`` tells it from others.
      size: How much it is, in the conversion's unit.
    """

    split: str
    source: Any
    size: int

    def __str__(self) -> str:
        return f"a part of split {self.split!r}"


#: Reads a piece. Pickles, to be sent to processes.
Read: TypeAlias = Callable[[Piece], Iterator[Item]]


@dataclass(frozen=True, slots=True)
class Conversion:
    """All that a conversion does, decided before anything is written.

    Attributes:
      features: Of the data set to be; None for records that are kept as they are, in bare files.
      pieces: In the order of their records.
      read: Reads one of them.
      splits: In their order, those without pieces too.
      unit: Of pieces' sizes: "B" or "examples".
      is_cut: Whether each piece is one shard; else a piece becomes as many as the limits demand.
      info: A description to be taken over.
      identity: What decides what the pieces hold, besides themselves: anything that JSON holds.
    """

    features: FeaturesDict | None
    pieces: Sequence[Piece]
    read: Read
    splits: tuple[str, ...]
    unit: Literal["B", "examples"]
    is_cut: bool
    info: DatasetInfo | None = None
    identity: Any = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """A record that was left out.

    Attributes:
      path: The input file.
      record: The record's number in it; None where the file is one record, or all that follows is lost.
      reason: What is wrong with it.
    """

    path: str
    record: int | None
    reason: str

    def __str__(self) -> str:
        return str(DataError(self.reason, self.path, self.record))


@dataclass(frozen=True, slots=True)
class Converted:
    """What a conversion or an export made.

    Attributes:
      path: Its directory.
      root: The hash that pins the data set; empty where it is none.
      num_records: By split.
      skipped: What was left out, in the inputs' order; also in ``<path>.skipped.json``, if anything was.
    """

    path: str
    root: str
    num_records: Mapping[str, int] = field(default_factory=dict)
    skipped: tuple[Skipped, ...] = ()


def describe_inputs(paths: Iterable[str]) -> list[tuple[str, int, int]]:
    """Return path, size and time of modification of each file: by these a run knows the inputs of an interrupted one."""
    return [(os.path.abspath(path), (found := os.stat(path)).st_size, found.st_mtime_ns) for path in paths]
