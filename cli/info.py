"""``arrayfeed info``: what is in a data set, from its description and the sizes of its files. Reads no record."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from .. import ShardNotFoundError
from .. import open as open_dataset
from ..datasource.manifest import MANIFEST_FILE, Manifest
from ..datasource.tfds import DatasetInfo, shard_paths

__all__ = ["describe", "format_description"]


def describe(path: str) -> dict[str, Any]:
    """Return what the data set in a directory is made of, ready for JSON.

        name, version       text
        root                the hash in its manifest, or None where it has none; `arrayfeed verify` compares it
        features            name -> the feature as Python writes it
        splits              name -> {"records", "shards", "bytes"}; the bytes of the files, compressed as they are

    Raises:
      DataError: There is no data set, it cannot be understood, or a shard of it is missing.
    """
    sources = open_dataset(path)
    info = DatasetInfo.read(path)
    splits = {}
    for name, source in sources.items():
        shards = shard_paths(path, info, name)
        splits[name] = {"records": len(source), "shards": len(shards), "bytes": sum(map(_file_bytes, shards))}
    features = {name: repr(feature) for name, feature in sorted(info.features.items())}
    manifest = Manifest.read(os.path.join(path, MANIFEST_FILE))
    root = None if manifest is None else manifest.root
    return {"name": info.name, "version": info.version, "root": root, "features": features, "splits": splits}


def format_description(description: dict[str, Any]) -> str:
    """Return a description as lines for people."""
    splits = [(name, *map("{:,}".format, split.values())) for name, split in description["splits"].items()]
    return "\n".join(
        [
            f"{description['name']} {description['version']}",
            f"root {description['root'] or 'unknown, it has no manifest'}",
            "",
            *_table(("feature", "type"), description["features"].items()),
            "",
            *_table(("split", "records", "shards", "bytes"), splits),
        ]
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return aligned lines; columns of numbers stand to the right."""
    rows = [head, *rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    right = [column > 0 and rows[-1][column][:1].isdigit() for column in range(len(head))]
    cells = [[text.rjust(w) if r else text.ljust(w) for text, w, r in zip(row, widths, right, strict=True)] for row in rows]
    return ["  ".join(row).rstrip() for row in cells]


def _file_bytes(path: str | os.PathLike[str]) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        raise ShardNotFoundError("this shard is missing; copy the data set again, or write it again", os.fspath(path)) from None
