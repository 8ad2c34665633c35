"""Names of shard files, from templates such as ``{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}``."""

from __future__ import annotations

import os
import re
from pathlib import PurePosixPath

from ..errors import SchemaError

__all__ = ["DEFAULT_TEMPLATE", "check_split_name", "shard_filename", "shard_filenames"]

DEFAULT_TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"


def shard_filename(
    shard: int, num_shards: int, *, dataset: str, split: str, file_format: str, template: str = DEFAULT_TEMPLATE
) -> str:
    """Return the name of shard ``0 <= shard < num_shards``, relative to the dataset's directory.

        {DATASET} {SPLIT} {FILEFORMAT}      as given
        {SHARD_INDEX} {NUM_SHARDS}          at least five digits, as many as the number of shards needs
        {SHARD_X_OF_Y}                      {SHARD_INDEX}-of-{NUM_SHARDS}

    Raises:
      SchemaError: The template has another variable, or leads out of the directory.
    """
    around = _fill_in(num_shards, dataset=dataset, split=split, file_format=file_format, template=template)
    return f"{shard:0{_count_digits(num_shards)}}".join(around)


def shard_filenames(
    num_shards: int, *, dataset: str, split: str, file_format: str, template: str = DEFAULT_TEMPLATE
) -> list[str]:
    """Return the names of all shards, in the order in which a split's shard lengths count them: sorted as strings.

    Raises:
      SchemaError: As ``shard_filename``, or two shards would have the same name.
    """
    around = _fill_in(num_shards, dataset=dataset, split=split, file_format=file_format, template=template)
    if len(around) == 1 and num_shards > 1:
        raise SchemaError(f"shard names {template!r} are the same for all {num_shards} shards")
    digits = _count_digits(num_shards)
    # All numbers have as many digits: they are in the order of the strings.
    return [f"{shard:0{digits}}".join(around) for shard in range(num_shards)]


def _fill_in(num_shards: int, *, dataset: str, split: str, file_format: str, template: str) -> list[str]:
    """Return a template with everything in its place but the shard's number: what stands around that, once or more."""
    total = f"{num_shards:0{_count_digits(num_shards)}}"
    variables = {
        "DATASET": [dataset],
        "SPLIT": [split],
        "FILEFORMAT": [file_format],
        "NUM_SHARDS": [total],
        "SHARD_INDEX": ["", ""],
        "SHARD_X_OF_Y": ["", f"-of-{total}"],
    }
    around = [""]
    # Not str.format: a template may come from anywhere, and "{DATASET:>999999999}" would be carried out.
    for literal, variable in re.findall(r"([^{]*)(\{[^{}]*\}|\{|$)", template or DEFAULT_TEMPLATE):
        around[-1] += literal
        if variable in ("", "{"):
            around[-1] += variable
            continue
        if variable[1:-1] not in variables:
            raise SchemaError(f"shard names {template!r}: no variable {variable}; there are {sorted(variables)}")
        first, *more = variables[variable[1:-1]]
        around[-1] += first
        around += more
    path = PurePosixPath("0".join(around))
    if path.is_absolute() or ".." in path.parts:
        raise SchemaError(f"shard names {template!r} lead out of the dataset's directory: {os.fspath(path)!r}")
    return around


def _count_digits(num_shards: int) -> int:
    return max(5, len(str(num_shards)))


def check_split_name(name: str) -> str:
    """Return ``name`` if a split may be called so, and be asked for in a split string: letters, digits, ``_`` and ``-``.

    Raises:
      ValueError: It may not.
    """
    if not re.fullmatch(r"[\w-]*[^\W_][\w-]*", name) or name == "all":
        raise ValueError(f"a split is called by letters, digits, '_' and '-', and not 'all'; got {name!r}")
    return name
