"""When a shard is full, and how its records are compressed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from .checks import check_limit
from .codec import check_codec

__all__ = ["ShardLimits"]

# About what object stores and file systems like best, and few enough files at a terabyte.
_SHARD_BYTES = 100_000_000


@dataclass(frozen=True, slots=True)
class ShardLimits:
    """When a shard is full, and how its records are compressed; see ``DatasetWriter``."""

    shard_bytes: int | None
    shard_records: int | None
    codec: str
    # More than one record a chunk is for bare files only: TFDS, Grain and the record index expect one.
    group_size: int = 1

    @classmethod
    def check(cls, shard_bytes: int | None, shard_records: int | None, codec: str) -> Self:
        """Return these limits, if they are some; 100 MB if neither is given.

        Raises:
          ValueError: One is not; names it.
        """
        check_limit("shard_bytes", shard_bytes)
        check_limit("shard_records", shard_records)
        if shard_bytes is None and shard_records is None:
            shard_bytes = _SHARD_BYTES
        return cls(shard_bytes, shard_records, check_codec(codec))
