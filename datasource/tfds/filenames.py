"""Names of shard files, from templates such as ``{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}``."""

from __future__ import annotations

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
    digits = max(5, len(str(num_shards)))
    variables = {
        "DATASET": dataset,
        "SPLIT": split,
        "FILEFORMAT": file_format,
        "SHARD_INDEX": f"{shard:0{digits}}",
        "NUM_SHARDS": f"{num_shards:0{digits}}",
        "SHARD_X_OF_Y": f"{shard:0{digits}}-of-{num_shards:0{digits}}",
    }

    def substitute(match: re.Match[str]) -> str:
        if match[1] not in variables:
            raise SchemaError(f"shard names {template!r}: no variable {match[0]}; there are {sorted(variables)}")
        return variables[match[1]]

    # Not str.format: a template may come from anywhere, and "{DATASET:>999999999}" would be carried out.
    name = re.sub(r"\{([^{}]*)\}", substitute, template or DEFAULT_TEMPLATE)
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise SchemaError(f"shard names {template!r} lead out of the dataset's directory: {name!r}")
    return name


def shard_filenames(
    num_shards: int, *, dataset: str, split: str, file_format: str, template: str = DEFAULT_TEMPLATE
) -> list[str]:
    """Return the names of all shards, in the order in which a split's shard lengths count them: sorted as strings.

    Raises:
      SchemaError: As ``shard_filename``, or two shards would have the same name.
    """
    names = sorted(
        shard_filename(shard, num_shards, dataset=dataset, split=split, file_format=file_format, template=template)
        for shard in range(num_shards)
    )
    if len(set(names)) < num_shards:
        raise SchemaError(f"shard names {template!r} are the same for all {num_shards} shards")
    return names


def check_split_name(name: str) -> str:
    """Return ``name`` if a split may be called so, and be asked for in a split string: letters, digits, ``_`` and ``-``.

    Raises:
      ValueError: It may not.
    """
    if not re.fullmatch(r"[\w-]*[^\W_][\w-]*", name) or name == "all":
        raise ValueError(f"a split is called by letters, digits, '_' and '-', and not 'all'; got {name!r}")
    return name
