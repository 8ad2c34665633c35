"""What a verification found."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

__all__ = ["Overlap", "Problem", "Verification"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong.

    Attributes:
      file: Its name below the data set's directory; empty where no file is at fault.
      record: The record's number in that file, or None where no single record is at fault.
      message: What is wrong.
    """

    file: str
    record: int | None
    message: str

    def __str__(self) -> str:
        where = [self.file] if self.file else []
        if self.record is not None:
            where.append(f"record {self.record}")
        return f"{', '.join(where)}: {self.message}" if where else self.message


@dataclass(frozen=True, slots=True)
class Overlap:
    """Records that stand, byte for byte, in two splits.

    Attributes:
      first, second: The splits.
      count: How many records of the first stand in the second, too.
      indices: Some of them, at most 10: their index in the first split, and the lowest one in the second.
    """

    first: str
    second: str
    count: int
    indices: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        shown = ", ".join(f"{self.first}[{first}] = {self.second}[{second}]" for first, second in self.indices)
        more = ", ..." if self.count > len(self.indices) else ""
        return f"{self.count:,} records of split {self.first!r} stand in split {self.second!r}, too: {shown}{more}"


@dataclass(frozen=True, slots=True)
class Verification:
    """The outcome of ``verify``.

    Attributes:
      path: The data set's directory.
      root: The hash over all files as they are; see ``manifest``. With ``quick``, as the manifest has them. Empty where it
        cannot be told, as a file is missing.
      problems: What is wrong, by file and record. A shard's records past the hundredth damaged one are only counted.
      overlaps: With ``overlap``, one for each pair of splits that share records.
      warnings: What is odd, but does no harm.
      num_files, num_records, num_bytes: Of the data set, as its description has them.
    """

    path: str
    root: str
    problems: tuple[Problem, ...]
    overlaps: tuple[Overlap, ...]
    warnings: tuple[Problem, ...]
    num_files: int
    num_records: int
    num_bytes: int

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong and, if that was asked, no two splits share a record."""
        return not self.problems and not self.overlaps

    def to_json(self) -> dict[str, Any]:
        """Return all of it as JSON holds it."""
        return {"ok": self.ok, **dataclasses.asdict(self)}
