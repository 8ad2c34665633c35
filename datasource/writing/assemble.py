"""From finished shards to a data set's directory: final names, record indexes, the description, the manifest."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from functools import partial

from ..arrayrecord.record_index import write_record_index
from ..indexing import index_path
from ..manifest import MANIFEST_FILE, Manifest, content_files, describe_file
from ..tfds import DatasetInfo, SplitInfo, shard_paths
from .shards import GrowingSplit, WrittenShard, describe_shard

__all__ = ["assemble", "make_empty_shard"]


def assemble(directory: str, info: DatasetInfo, splits: Mapping[str, Sequence[WrittenShard]]) -> Manifest:
    """Turn a directory that holds finished shards into a data set, and return its manifest, which is written last.

    Shards get their final names, which tell how many there are; the records of each split are indexed.

    Args:
      info: What the data set is, but for its splits.
      splits: The shards of each split, in the order of their records.
    """
    described = tuple(
        SplitInfo(name, tuple(shard.num_records for shard in shards), sum(shard.num_bytes for shard in shards))
        for name, shards in splits.items()
    )
    info = dataclasses.replace(info, splits=described)
    entries = {}
    for split, shards in splits.items():
        indexed = {}
        for shard, path in zip(shards, shard_paths(directory, info, split), strict=True):
            os.rename(shard.path, path)
            entries[path.name] = shard.entry
            indexed[path.name] = partial(describe_shard, os.fspath(path), shard.checksums)
        write_record_index(os.fspath(index_path(directory, info, split)), indexed)
    info.write(directory)
    for name, records in content_files(directory, info).items():
        if records is None:
            entries[name] = describe_file(os.path.join(directory, name))
    manifest = Manifest(entries)
    manifest.write(os.path.join(directory, MANIFEST_FILE))
    return manifest


def make_empty_shard(directory: str, split: str) -> WrittenShard:
    """Write the one shard that a split of no records has."""
    growing = GrowingSplit(directory, split, shard_bytes=None, shard_records=None, codec="none")
    growing.finish()
    return growing.shards[0]
