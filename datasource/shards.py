"""From what a user calls his files to a list of shards, and from a record's number to its shard."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .errors import ShardNotFoundError

__all__ = ["Paths", "Shard", "expand_paths", "natural_key", "slice_shards"]

#: A path, with ``[start:end]`` or without; a glob; ``prefix@4`` for ``prefix-00000-of-00004`` to ``-00003-of-00004``.
Paths: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

_SLICE = re.compile(r"(?P<path>.*)\[(?P<start>\d+):(?P<end>\d+)\]", re.DOTALL)
_COUNTED = re.compile(r"(?P<prefix>.*)@(?P<count>[1-9]\d{0,6})(?P<suffix>[^/@]*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Shard:
    """Records ``start <= record < end`` of a file; all of it where ``end`` is None."""

    path: str
    start: int = 0
    end: int | None = None


def expand_paths(paths: Paths) -> list[Shard]:
    """Return the shards that ``paths`` names: a list's in its order, a glob's in natural order (2 before 10).

        "train.arrayrecord"                      one file
        "train.arrayrecord[100:200]"             some of its records, as array_record writes it
        "data/train-*"                           a glob
        "data/train@4", "data/train.ar@4"        train-00000-of-00004 ... (all four must be there)
        ["a", "b*", Path("c")]                   all of these, one behind the other

    Whether a plain path exists is seen when it is opened.

    Raises:
      ShardNotFoundError: A pattern matches nothing, or files of a counted set are missing; names up to five of them.
      TypeError: Something in ``paths`` is no path.
      ValueError: ``paths`` is empty, a slice ends before it starts, or is one of a pattern instead of a file.
    """
    if not isinstance(paths, (str, os.PathLike, Iterable)) or isinstance(paths, bytes):
        raise TypeError(f"paths must be a path, a glob or a list of them, got {type(paths).__name__}")
    names = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not names:
        raise ValueError("paths is empty: name at least one shard")
    return [shard for name in names for shard in _expand(name)]


def slice_shards(paths: Sequence[str], lengths: Sequence[int], start: int, stop: int) -> list[tuple[Shard, int]]:
    """Return the shards, and how many records of each, that hold records ``start <= record < stop`` of all of them together.

    Shards of 8, 4, 0 and 5 records, from 6 to 13: records 6 and 7 of the first, all of the second, record 0 of the last.
    """
    found = []
    first = 0
    for path, length in zip(paths, lengths, strict=True):
        begin, end = max(start - first, 0), min(stop - first, length)
        if begin < end:
            whole = begin == 0 and end == length
            found.append((Shard(path) if whole else Shard(path, begin, end), end - begin))
        first += length
    return found


def _expand(name: object) -> list[Shard]:
    if not isinstance(name, (str, os.PathLike)):
        raise TypeError(f"a path must be a string or a pathlib.Path, got {type(name).__name__}")
    path = os.fspath(name)
    if not isinstance(path, str):
        raise TypeError(f"a path must be a string, got {type(path).__name__}")
    # A file may be called anything, "a[0:5]" and "b*" too: what exists is meant as it stands.
    if os.path.exists(path):
        return [Shard(path)]
    if match := _SLICE.fullmatch(path):
        start, end = int(match["start"]), int(match["end"])
        if end < start:
            raise ValueError(f"{path}: the slice ends before it starts")
        if not os.path.exists(match["path"]) and (glob.has_magic(match["path"]) or _COUNTED.fullmatch(match["path"])):
            raise ValueError(f"{path}: a slice is taken of one file; of several, slice the source: source[{start}:{end}]")
        return [Shard(match["path"], start, end)]
    if glob.has_magic(path):
        found = sorted(glob.glob(path, recursive=True), key=natural_key)
        if not found:
            raise ShardNotFoundError("no file matches this pattern", path)
        return [Shard(match) for match in found]
    if match := _COUNTED.fullmatch(path):
        return _expand_counted(match["prefix"] + match["suffix"], int(match["count"]))
    return [Shard(path)]


def _expand_counted(prefix: str, count: int) -> list[Shard]:
    digits = max(5, len(str(count)))
    found = [f"{prefix}-{shard:0{digits}d}-of-{count:0{digits}d}" for shard in range(count)]
    missing = [path for path in found if not os.path.exists(path)]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise ShardNotFoundError(f"{len(missing)} of {count} shards are missing: {', '.join(missing[:5])}{more}", prefix)
    return [Shard(path) for path in found]


def natural_key(path: str) -> tuple[list[tuple[int, str]], str]:
    """Return what to sort paths by in natural order."""
    # The path itself comes last, for "a01" and "a1": in which order the system lists them must not matter.
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", path)], path
