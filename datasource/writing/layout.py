"""Where a source is cut into shards, before anything of it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..errors import SchemaError
from .codec import AUTO, choose_codec
from .columns import count_rows, take_row
from .encoder import RecordEncoder
from .limits import ShardLimits

__all__ = ["Layout", "Source", "cut_evenly", "first_example", "lay_out"]

Example: TypeAlias = Mapping[str, Any]
Counted: TypeAlias = Mapping[str, Any] | Sequence[Example]
#: Columns; examples by number; or a function that gives the examples of one shard of so many.
Source: TypeAlias = Counted | Callable[[int, int], Iterable[Example]]

#: Examples that are looked at to tell how large records are, and whether compressing them pays.
_SAMPLE = 256


@dataclass(frozen=True, slots=True)
class Layout:
    """How a split becomes shards.

    Attributes:
      bounds: Shard ``k`` holds examples ``bounds[k] <= index < bounds[k + 1]``.
      limits: While it is written.
      num_bytes: Of all records, about.
      is_counted: Whether bounds and bytes say how many examples there are; those that a function gives nobody has counted.
    """

    bounds: tuple[int, ...]
    limits: ShardLimits
    num_bytes: int
    is_counted: bool = True

    @property
    def num_shards(self) -> int:
        """How many shards are written by themselves."""
        return len(self.bounds) - 1


def lay_out(split: str, source: Source, encoder: RecordEncoder, limits: ShardLimits, num_shards: int | None) -> Layout:
    """Return how to cut a source: into ``num_shards`` equal shards, or as few equal ones as the limits allow.

    Equal means off by one at most; shards of so many records have just that many, but for the last. How many bytes a record
    has, and whether ``"auto"`` compresses, is told from up to 256 examples from all over the source; so a shard's bytes
    may be past the limit by a little.

    Raises:
      TypeError: It is no source.
      ValueError: It is a function, and ``num_shards`` is not given; or that is less than 1.
      SchemaError: One of the examples does not fit.
    """
    if num_shards is not None and num_shards < 1:
        raise ValueError(f"num_shards must be 1 or more, got {num_shards} for split {split!r}")
    counted = _count_on(split, source)
    if counted is None:
        if num_shards is None:
            raise ValueError(f"split {split!r} is given by a function, for which num_shards must say how often to call it")
        return Layout(tuple(range(num_shards + 1)), limits, 0, is_counted=False)
    length = _length(counted)
    sample = [_encode(split, counted, index, encoder) for index in _spread(length)]
    record_bytes = sum(map(len, sample)) / max(len(sample), 1)
    codec = choose_codec(sample) if limits.codec == AUTO else limits.codec
    bounds = cut_evenly(length, record_bytes, limits, num_shards)
    return Layout(bounds, ShardLimits(None, None, codec), round(length * record_bytes))


def first_example(split: str, source: Any) -> Example | None:
    """Return the first example of a source; None if it has none.

    Raises:
      TypeError: It is no source.
    """
    counted = _count_on(split, source)
    if counted is None:
        return next(iter(source(0, 1)), None)
    return _take(counted, 0) if _length(counted) else None


def _count_on(split: str, source: Any) -> Counted | None:
    """Return a source that has its examples by number; None for a function."""
    if hasattr(source, "__len__") and hasattr(source, "__getitem__"):
        counted: Counted = source
        return counted
    if not callable(source):
        raise TypeError(
            f"split {split!r}: columns, a sequence of examples or a function expected, got {type(source).__name__}; what "
            "can only be read once, from beginning to end, DatasetWriter.write_all() writes"
        )
    return None


def _length(source: Counted) -> int:
    return count_rows(source) if isinstance(source, Mapping) else len(source)


def _take(source: Counted, index: int) -> Example:
    example: Example = take_row(source, index) if isinstance(source, Mapping) else source[index]
    return example


def _spread(length: int) -> list[int]:
    """Return up to 256 indices, evenly over all."""
    count = min(length, _SAMPLE)
    return [index * length // count for index in range(count)]


def _encode(split: str, source: Counted, index: int, encoder: RecordEncoder) -> bytes:
    try:
        return encoder.encode(_take(source, index))
    except SchemaError as error:
        raise SchemaError(f"example {index} of split {split!r}: {error.message}. Nothing was written") from error.__cause__


def cut_evenly(length: int, record_bytes: float, limits: ShardLimits, num_shards: int | None) -> tuple[int, ...]:
    """Return the bounds of ``num_shards`` equal shards of ``length`` records, or of as few equal ones as the limits allow."""
    if num_shards is None:
        most = limits.shard_records or length
        if limits.shard_bytes is not None and record_bytes:
            most = min(most, int(limits.shard_bytes / record_bytes))
        most = max(most, 1)
        if most == limits.shard_records:
            return (*range(0, length, most), length)
        num_shards = -(-length // most)
    num_shards = min(num_shards, length)
    return tuple(length * shard // num_shards for shard in range(num_shards + 1)) if num_shards else (0,)
