"""How inputs are cut into pieces: evenly where records can be counted, else by files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from ..shards import Shard, slice_shards
from ..writing.codec import AUTO
from ..writing.layout import cut_evenly
from ..writing.limits import ShardLimits
from .conversion import Piece

__all__ = ["Counted", "choose_block", "cut_counted", "cut_ranges", "group_files", "limits_of"]

#: Of inputs that cannot be cut, so many bytes make a piece.
_PIECE_BYTES = 100_000_000
_BLOCK_ROWS = 256
_BLOCK_BYTES = 1 << 22


def choose_block(length: int, num_bytes: int) -> int:
    """Return how many of so many rows to read at a time: up to 256, that have about 4 MB between them."""
    return max(1, min(_BLOCK_ROWS, _BLOCK_BYTES * length // max(num_bytes, 1)))


class Counted:
    """The files of one split, in their order, and how many records each has.

    Attributes:
      num_bytes: Of all records, about.
    """

    def __init__(self, paths: Sequence[str], lengths: Sequence[int], num_bytes: int) -> None:
        self.paths = paths
        self.lengths = lengths
        self.num_bytes = num_bytes


def limits_of(options: Mapping[str, Any]) -> ShardLimits:
    """Return when a shard is full, as options say; their defaults where they say nothing."""
    return ShardLimits.check(options.get("shard_bytes"), options.get("shard_records"), options.get("codec", AUTO))


def cut_ranges(length: int, num_bytes: int, options: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    """Yield start and stop of each shard of ``length`` records: ``num_shards`` equal ones, or as few as the limits allow.

    Raises:
      ValueError: An option is not as described.
    """
    num_shards = options.get("num_shards")
    if num_shards is not None and num_shards < 1:
        raise ValueError(f"num_shards must be 1 or more, got {num_shards}")
    yield from pairwise(cut_evenly(length, num_bytes / max(length, 1), limits_of(options), num_shards))


def cut_counted(
    splits: Mapping[str, Counted], options: Mapping[str, Any], locate: Callable[[list[Shard]], Any] = lambda shards: shards
) -> list[Piece]:
    """Return the pieces of splits whose records are counted, each a list of slices of files: the shards to be.

    Args:
      locate: Makes a piece's source of its slices.
    """
    pieces = []
    for split, files in splits.items():
        for start, stop in cut_ranges(sum(files.lengths), files.num_bytes, options):
            shards = [shard for shard, _ in slice_shards(files.paths, files.lengths, start, stop)]
            pieces.append(Piece(split, locate(shards), stop - start))
    return pieces


def group_files(split: str, sizes: Mapping[str, int], options: Mapping[str, Any]) -> list[Piece]:
    """Return the pieces of a split of which nothing is known but the files' sizes: each some whole files, in their order.

    Raises:
      ValueError: ``num_shards`` is given, which would need the records to be counted.
    """
    if options.get("num_shards") is not None:
        raise ValueError(
            f"num_shards cannot be kept for split {split!r}: how many records these files have is not known before they are "
            "read. Give shard_records or shard_bytes, or convert the outcome once more"
        )
    pieces: list[Piece] = []
    paths: list[str] = []
    size = 0
    for path, file_bytes in sizes.items():
        paths.append(path)
        size += file_bytes
        if size >= (options.get("shard_bytes") or _PIECE_BYTES):
            pieces.append(Piece(split, tuple(paths), size))
            paths, size = [], 0
    if paths:
        pieces.append(Piece(split, tuple(paths), size))
    return pieces
