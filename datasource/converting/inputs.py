"""From what a user calls his inputs to the list of files of each split."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping

from ..errors import ShardNotFoundError
from ..shards import Paths, expand_paths, natural_key

__all__ = ["expand_splits"]

_MEMBER = re.compile(r"(?P<prefix>.*-)(?P<number>\d{5,})-of-(?P<count>\d{5,})(?P<suffix>[^/]*)", re.DOTALL)


def expand_splits(paths: Paths | Mapping[str, Paths], split: str, suffixes: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the files of each split, sorted naturally where a directory or a pattern names them.

    A directory stands for the files in it whose names contain one of ``suffixes``, if any do; else for all that are not
    hidden. Of files called ``...-00003-of-00016`` that a directory or a pattern gives, none may be missing.

    Raises:
      ShardNotFoundError: A file is missing, or a pattern matches none; lists them.
      ValueError: A slice of a file is asked for, or a file is named twice.
    """
    given = paths if isinstance(paths, Mapping) else {split: paths}
    return {name: _expand(each, suffixes) for name, each in given.items()}


def _expand(paths: Paths, suffixes: tuple[str, ...]) -> list[str]:
    names = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not names:
        raise ValueError("no input is named")
    found: list[str] = []
    for each in names:
        name = os.fspath(each)
        if os.path.isdir(name):
            files = _list_directory(name, suffixes)
            _refuse_gaps(files)
        else:
            shards = expand_paths(name)
            files = [shard.path for shard in shards]
            if any(shard.end is not None for shard in shards):
                raise ValueError(f"{name}: whole files are converted, not slices")
            if glob.has_magic(name) and not os.path.exists(name):
                _refuse_gaps(files)
        found += files
    missing = [path for path in found if not os.path.exists(path)]
    if missing:
        raise ShardNotFoundError(f"{len(missing)} of {len(found)} files are missing: {_name_some(missing)}")
    if len(set(found)) < len(found):
        doubled = next(path for number, path in enumerate(found) if path in found[:number])
        raise ValueError(f"{doubled} is named twice; so would its records be")
    return found


def _list_directory(directory: str, suffixes: tuple[str, ...]) -> list[str]:
    inside = [entry.name for entry in os.scandir(directory) if entry.is_file() and not entry.name.startswith(".")]
    chosen = [name for name in inside if any(suffix in name for suffix in suffixes)] or inside
    if not chosen:
        raise ShardNotFoundError("there is no file in this directory", directory)
    return sorted((os.path.join(directory, name) for name in chosen), key=natural_key)


def _refuse_gaps(files: list[str]) -> None:
    """Raise for files that say how many they are and are fewer."""
    sets: dict[tuple[str, str, str], set[int]] = {}
    for match in filter(None, map(_MEMBER.fullmatch, files)):
        sets.setdefault((match["prefix"], match["count"], match["suffix"]), set()).add(int(match["number"]))
    for (prefix, count, suffix), numbers in sets.items():
        missing = [number for number in range(int(count)) if number not in numbers]
        if missing:
            names = [f"{prefix}{number:0{len(count)}d}-of-{count}{suffix}" for number in missing]
            raise ShardNotFoundError(
                f"{len(missing)} of {int(count)} files are missing: {_name_some(names)}. Name the files one by one if the "
                "others are to be converted without them"
            )


def _name_some(paths: list[str]) -> str:
    return ", ".join(paths[:5]) + f" and {len(paths) - 5} more" * (len(paths) > 5)
