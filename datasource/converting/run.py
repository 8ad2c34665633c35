"""Carries a conversion out: parts by all processors, what is finished kept, what is bad named."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from ..errors import DataError, SchemaError
from ..features import FeaturesDict
from ..processors import count_cpus
from ..progress import show_progress
from ..tasks import Tick, run_tasks
from ..writing import DatasetWriter
from ..writing.encoder import RecordEncoder
from ..writing.limits import ShardLimits
from ..writing.parts import PartWriter, finished_parts, mark_wanted, read_part
from .conversion import Conversion, Converted, Item, OnError, Piece, Read, Skipped
from .pieces import limits_of
from .skipped import read_skipped, report_skipped, write_skipped
from .writer import BareWriter, DescribedWriter

__all__ = ["choose_workers", "run_conversion"]

#: How often a part is begun, if its process dies.
_ATTEMPTS = 3
#: Processes start in 0.3 s; what one of them converts meanwhile.
_WORTH_WORKERS = {"B": 32 << 20, "examples": 20_000}
#: Records are handed to the writer so many, or so many bytes, at a time.
_BLOCK_RECORDS = 256
_BLOCK_BYTES = 1 << 20


def run_conversion(path: str | os.PathLike[str], conversion: Conversion, options: Mapping[str, Any]) -> Converted:
    """Write what ``conversion`` reads to the new directory ``path``.

    Args:
      options: As ``ConvertOptions`` describes them, and ``group_size`` for bare files.

    Raises:
      DataError: A record cannot be read or does not fit, or the input is damaged; names the file and the record. What was
        finished before is kept for the next run, unless ``resume=False``.
      DatasetExistsError: There is something at ``path``.
      ValueError, TypeError: An option is not as described.
    """
    path = os.fspath(path)
    given = dict(options)
    on_error: OnError = given.pop("on_error", "raise")
    if on_error not in ("raise", "skip"):
        raise ValueError(f"on_error must be 'raise' or 'skip', got {on_error!r}")
    num_workers, progress = given.pop("num_workers", None), given.pop("progress", False)
    group_size = given.pop("group_size", 1)
    given.pop("num_shards", None)  # the pieces are cut by it
    given.setdefault("resume", True)
    limits = limits_of(options)
    if conversion.is_cut:
        limits = ShardLimits(None, None, limits.codec, group_size)
    elif group_size > 1:
        limits = ShardLimits(limits.shard_bytes, limits.shard_records, limits.codec, group_size)
    plan = _digest(conversion, limits)
    with _open_writer(path, conversion, given | {"plan": plan}) as writer:
        for split in conversion.splits:  # in their order, and those without records too
            writer.write_records((), split=split)
        jobs = [_Job(_make_part(writer, number, limits), piece) for number, piece in enumerate(conversion.pieces)]
        finished = _usable_parts(writer, on_error)
        todo = [job for job in jobs if job.part.number not in finished]
        total = sum(piece.size for piece in conversion.pieces)
        if num_workers is None:
            num_workers = choose_workers(total, conversion.unit)
        with show_progress(progress, total=total, unit=conversion.unit, what=os.path.basename(path)) as tick:
            tick(sum(job.piece.size for job in jobs if job.part.number in finished))
            write = partial(_write_part, conversion.read, conversion.features, on_error)
            run_tasks(write, todo, num_workers=num_workers, tick=tick, describe=str, attempts=_ATTEMPTS)
        skipped = tuple(each for job in jobs for each in read_skipped(writer.directory, job.part.number))
        counts = _count_records(writer, conversion.splits)
        report_skipped(path, skipped)
        writer.close()
    return Converted(path, writer.root, counts, skipped)


def choose_workers(total: int, unit: str) -> int:
    """Return how many processes so much work is worth."""
    return count_cpus() if total >= _WORTH_WORKERS[unit] else 0


@dataclass(frozen=True, slots=True)
class _Job:
    part: PartWriter
    piece: Piece

    def __str__(self) -> str:
        return f"part {self.part.number}, {self.piece}"


def _open_writer(path: str, conversion: Conversion, options: dict[str, Any]) -> BareWriter | DescribedWriter:
    if conversion.features is None:
        return BareWriter(path, **options)
    return DescribedWriter(path, conversion.features, conversion.info, **options)


def _make_part(writer: DatasetWriter, number: int, limits: ShardLimits) -> PartWriter:
    mark_wanted(writer.directory, number)
    return PartWriter(writer.directory, number, writer.features, limits)


def _usable_parts(writer: DatasetWriter, on_error: OnError) -> set[int]:
    """Return the parts that need not be written again: an earlier run may have skipped what is an error in this one."""
    finished = finished_parts(writer.directory)
    return {number for number in finished if on_error == "skip" or not read_skipped(writer.directory, number)}


def _count_records(writer: DatasetWriter, splits: Sequence[str]) -> dict[str, int]:
    counts = dict.fromkeys(splits, 0)
    for number in finished_parts(writer.directory):
        for split, shards in read_part(writer.directory, number).items():
            counts[split] += sum(shard.num_records for shard in shards)
    return counts


def _digest(conversion: Conversion, limits: ShardLimits) -> str:
    """Return what two runs must share for one to go on with the other's parts."""
    digest = hashlib.blake2b(digest_size=16)
    for each in (conversion.identity, conversion.splits, limits, *((piece.split, piece.source) for piece in conversion.pieces)):
        digest.update(repr(each).encode())
    return digest.hexdigest()


def _write_part(read: Read, features: FeaturesDict | None, on_error: OnError, job: _Job, tick: Tick) -> None:
    """Write one part: what a process does."""
    encode = cast(Callable[[Any], bytes], None if features is None else RecordEncoder(features).encode)
    skipped: list[Skipped] = []
    records: list[bytes] = []
    num_bytes = size = 0
    with job.part as part:
        part.write_records((), split=job.piece.split)
        for item in read(job.piece):
            size += item.size
            try:
                record = _encode(item, encode)
            except DataError as error:
                if on_error == "raise":
                    raise
                skipped.append(Skipped(error.path or item.path, error.record, error.message))
                continue
            records.append(record)
            num_bytes += len(record)
            if len(records) >= _BLOCK_RECORDS or num_bytes >= _BLOCK_BYTES:
                part.write_records(records, split=job.piece.split)
                tick(size)
                records, num_bytes, size = [], 0, 0
        part.write_records(records, split=job.piece.split)
        tick(size)
        write_skipped(part.directory, skipped)


def _encode(item: Item, encode: Callable[[Any], bytes]) -> bytes:
    if isinstance(item.value, bytes):
        return item.value
    if isinstance(item.value, DataError):
        raise item.value
    try:
        return encode(item.value)
    except SchemaError as error:
        raise SchemaError(error.message, item.path, item.record) from error.__cause__
