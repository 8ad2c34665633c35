"""``arrayfeed info``: what is in a data set, from its description and the heads of its files. Reads no record."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from .. import ShardNotFoundError
from .. import open as open_dataset
from ..datasource.arrayrecord.chunk import CHUNK_HEADER_BYTES
from ..datasource.arrayrecord.codecs import CODECS
from ..datasource.arrayrecord.index import FIRST_CHUNK
from ..datasource.manifest import MANIFEST_FILE, Manifest
from ..datasource.tfds import DatasetInfo, shard_paths

__all__ = ["add_parser", "describe", "format_description"]

# Shards outside of this are told of: many small ones cost an open file each, a huge one is copied as a whole or not at all.
_SMALL_BYTES, _LARGE_BYTES = 1_000_000, 2_000_000_000


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser("info", help="features, splits, records, shards, bytes, codec and hashes of a data set")
    parser.add_argument("path", metavar="DIR", help="the directory that holds dataset_info.json")
    parser.add_argument("--shards", action="store_true", help="also list every shard")
    parser.add_argument("--json", action="store_true", help="print JSON, every shard in it")
    parser.set_defaults(run=_info)


def _info(options: argparse.Namespace) -> None:
    description = describe(options.path)
    print(json.dumps(description, indent=2) if options.json else format_description(description, shards=options.shards))


def describe(path: str) -> dict[str, Any]:
    """Return what the data set in a directory is made of, ready for JSON.

        name, version       text; so are description, citation and license
        metadata            what its writer said of it
        supervised_keys     the features that are a model's input and target
        root                the hash in its manifest, or None where it has none; `arrayfeed verify` compares it
        features            name -> the feature as Python writes it
        splits              name -> {"records", "shards", "bytes", "codec", "files"}; the bytes of the files, compressed as
                            they are; "files" has {"name", "records", "bytes", "codec", "sha256", "metadata"} for each shard

    Raises:
      DataError: There is no data set, it cannot be understood, or a shard of it is missing.
    """
    open_dataset(path)  # which says best why it does not open
    info = DatasetInfo.read(path)
    manifest = Manifest.read(os.path.join(path, MANIFEST_FILE))
    splits = {}
    for split in info.splits:
        files: list[dict[str, Any]] = []
        for name, records in zip(shard_paths("", info, split.name), split.shard_lengths, strict=True):
            entry = None if manifest is None else manifest.files.get(name.as_posix())
            num_bytes, codec = _look_into(os.path.join(path, name), records)
            files.append(
                {
                    "name": name.as_posix(),
                    "records": records,
                    "bytes": num_bytes,
                    "codec": codec,
                    "sha256": entry and entry.sha256,
                    "metadata": entry and entry.metadata,
                }
            )
        codecs = {file["codec"] for file in files if file["codec"]}
        splits[split.name] = {
            "records": split.num_records,
            "shards": len(files),
            "bytes": sum(file["bytes"] for file in files),
            "codec": ", ".join(sorted(codecs)),
            "files": files,
        }
    said = ("name", "version", "description", "citation", "license", "metadata", "supervised_keys")
    return {
        **{key: getattr(info, key) for key in said},
        "root": manifest and manifest.root,
        "features": {name: repr(feature) for name, feature in sorted(info.features.items())},
        "splits": splits,
    }


def format_description(description: dict[str, Any], *, shards: bool = False) -> str:
    """Return a description as lines for people.

    Args:
      shards: Whether to list each of them.
    """
    splits = description["splits"]
    numbers = ("records", "shards", "bytes")
    rows = [(name, *(f"{split[key]:,}" for key in numbers), split["codec"]) for name, split in splits.items()]
    lines = [f"{description['name']} {description['version']}"]
    lines += [f"{key} {description[key]}" for key in ("description", "license", "citation") if description[key]]
    for key in ("metadata", "supervised_keys"):
        if description[key] is not None:
            lines.append(f"{key} {json.dumps(description[key])}")
    lines += [f"root {description['root'] or 'unknown, it has no manifest'}", ""]
    lines += [*_table(("feature", "type"), description["features"].items()), ""]
    lines += _table(("split", "records", "shards", "bytes", "codec"), rows)
    if shards:
        head = ("shard", "records", "bytes", "codec", "sha256")
        files = [file for split in splits.values() for file in split["files"]]
        cells = ((file["name"], *(f"{file[key]:,}" for key in head[1:3]), file["codec"], file["sha256"]) for file in files)
        lines += ["", *_table(head, [[cell or "" for cell in row] for row in cells])]
    return "\n".join([*lines, *_advise(splits)])


def _advise(splits: dict[str, Any]) -> Iterator[str]:
    for name, split in splits.items():
        mean = split["bytes"] / max(split["shards"], 1)
        if split["shards"] > 1 and mean < _SMALL_BYTES:
            yield f"note: split {name!r} has many small shards, of {mean:,.0f} bytes; about 100 MB each open and copy faster"
        if any(file["bytes"] > _LARGE_BYTES for file in split["files"]):
            yield f"note: split {name!r} has shards of more than 2 GB; about 100 MB each can be copied and mended one by one"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return aligned lines; columns of numbers stand to the right."""
    rows = [head, *rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    right = [title in ("records", "shards", "bytes") for title in head]
    cells = [[text.rjust(w) if r else text.ljust(w) for text, w, r in zip(row, widths, right, strict=True)] for row in rows]
    return ["  ".join(row).rstrip() for row in cells]


def _look_into(path: str, records: int) -> tuple[int, str]:
    """Return a shard's size and how its first record is compressed; empty where it has none, "?" if that cannot be told."""
    try:
        with open(path, "rb") as file:
            head = file.read(FIRST_CHUNK + CHUNK_HEADER_BYTES + 1)
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        raise ShardNotFoundError("this shard is missing; copy the data set again, or write it again", path) from None
    return size, CODECS.get(head[-1] if len(head) > FIRST_CHUNK + CHUNK_HEADER_BYTES else -1, "?") if records else ""
