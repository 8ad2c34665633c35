"""Record indexes of whole data sets: where they are kept, and how they are made for shards that others wrote."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from hashlib import blake2b
from pathlib import Path

import numpy as np

from .arrayrecord.cache import GroupCache
from .arrayrecord.crc import load_crc32c
from .arrayrecord.index_writing import DescribedShard, write_record_index
from .arrayrecord.reader import ShardReader
from .arrayrecord.record_index import RecordIndex
from .errors import DataError
from .tfds import DatasetInfo, shard_paths

__all__ = ["build_indexes", "describe_shard_file", "find_index", "index_path"]

_BLOCK_RECORDS = 1024


def index_path(directory: str | os.PathLike[str], info: DatasetInfo, split: str, *, in_cache: bool = False) -> Path:
    """Return where the record index of a split is kept: beside the shards, or in the user's cache.

    The cache is ``$XDG_CACHE_HOME/arrayfeed`` (``~/.cache/arrayfeed``), a folder for each data set by its real path.
    """
    name = f"{info.name}-{split}.record_index"
    if not in_cache:
        return Path(directory, name)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "arrayfeed", "indexes")
    return cache / blake2b(os.path.realpath(directory).encode(), digest_size=12).hexdigest() / name


def find_index(directory: str | os.PathLike[str], info: DatasetInfo, split: str) -> RecordIndex | None:
    """Return the record index of a split, or None where there is none. One in the cache is as good as one in place.

    Raises:
      DataError: There is one, and it is damaged.
    """
    for in_cache in (False, True):
        try:
            return RecordIndex(os.fspath(index_path(directory, info, split, in_cache=in_cache)))
        except (FileNotFoundError, NotADirectoryError):
            continue
    return None


def build_indexes(directory: str | os.PathLike[str], *, in_cache: bool | None = None) -> Iterator[tuple[str, Path]]:
    """Make the record index of every split of a data set, one after the other, and yield each split and its index.

    Reads every record and checks its chunk's HighwayHash, so that no damage is taken for the truth.

    Args:
      in_cache: Keep them in the user's cache; None does so where the data set's directory cannot be written to.

    Raises:
      CorruptShardError: A record is damaged.
      DataError: A split cannot be indexed: its chunks hold several records, or two shards have the same name.
    """
    info = DatasetInfo.read(directory)
    if in_cache is None:
        in_cache = not os.access(directory, os.W_OK)
    for split in info.splits:
        paths = {path.name: os.fspath(path) for path in shard_paths(directory, info, split.name)}
        if len(paths) < len(split.shard_lengths):
            raise DataError(f"two shards of split {split.name!r} have the same file name", os.fspath(directory))
        target = index_path(directory, info, split.name, in_cache=in_cache)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_record_index(os.fspath(target), {name: partial(describe_shard_file, path) for name, path in paths.items()})
        yield split.name, target


def describe_shard_file(path: str) -> DescribedShard:
    """Return an open shard, where its records are, and their checksums."""
    reader = ShardReader(path, io="mmap", check="hash", max_chunk_bytes=1 << 31, cache=GroupCache())
    crc32c = load_crc32c()
    checksums = np.empty(reader.num_records, np.uint32)
    for start in range(0, reader.num_records, _BLOCK_RECORDS):
        records = np.arange(start, min(start + _BLOCK_RECORDS, reader.num_records))
        checksums[records] = [crc32c(record) for record in reader.read_many(records).tolist()]
    return DescribedShard(reader.file, reader.index, checksums)
