"""From finished shards to a data set's directory: final names, record indexes, the description, the manifest."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from functools import partial

from ..arrayrecord.index_writing import write_record_index
from ..indexing import index_path
from ..manifest import MANIFEST_FILE, FileEntry, Manifest, content_files, describe_file
from ..tfds import DatasetInfo, SplitInfo, shard_paths
from .shards import WrittenShard, describe_shard

__all__ = ["describe_dataset", "link_or_rename", "place_shards"]


def place_shards(
    directory: str, info: DatasetInfo, splits: Mapping[str, Sequence[WrittenShard]]
) -> tuple[DatasetInfo, dict[str, FileEntry]]:
    """Give shards their final names, which tell how many there are, and index the records of each split.

    Args:
      info: What the data set is. Splits that it has already stay, unless ``splits`` has them.
      splits: The shards of each split, in the order of their records.

    Returns:
      The description with these splits, and what is known of each shard.
    """
    described = {split.name: split for split in info.splits}
    for name, shards in splits.items():
        described[name] = dataclasses.replace(
            described.get(name, SplitInfo(name, ())),
            shard_lengths=tuple(shard.num_records for shard in shards),
            num_bytes=sum(shard.num_bytes for shard in shards),
        )
    info = dataclasses.replace(info, splits=tuple(described.values()))
    entries = {}
    for split, shards in splits.items():
        indexed = {}
        for shard, place in zip(shards, shard_paths("", info, split), strict=True):
            path = os.path.join(directory, place)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            move = os.rename if os.path.dirname(shard.path) == directory else link_or_rename
            move(shard.path, path)
            entries[place.as_posix()] = shard.entry
            indexed[place.name] = partial(describe_shard, path, shard)
        # What others wrote may be grouped, or of equal names in several folders: those are read without an index.
        if shards and len(indexed) == len(shards) and not any(shard.is_grouped for shard in shards):
            write_record_index(os.fspath(index_path(directory, info, split)), indexed)
    return info, entries


def link_or_rename(path: str, new_path: str) -> None:
    """Give a part's file a second name where files can have two: so the part stays whole until all is finished."""
    try:
        os.link(path, new_path)
    except OSError:  # not on this file system
        os.rename(path, new_path)


def describe_dataset(directory: str, info: DatasetInfo, entries: Mapping[str, FileEntry], fingerprint: str = "") -> Manifest:
    """Write what the data set in a directory is, the manifest last, and return that.

    Args:
      entries: What is known of each shard.
      fingerprint: See ``Manifest``.
    """
    info.write(directory)
    files = {
        name: describe_file(os.path.join(directory, name)) if records is None else entries[name]
        for name, records in content_files(directory, info).items()
    }
    manifest = Manifest(files, fingerprint)
    manifest.write(os.path.join(directory, MANIFEST_FILE))
    return manifest
