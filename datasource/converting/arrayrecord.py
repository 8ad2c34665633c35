"""ArrayRecord, written anew: in other shards, other groups, another codec; no record is decoded."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Unpack

from .. import dataset
from ..arrayrecord import ArrayRecordDataSource
from ..errors import CorruptShardError
from ..shards import Paths, Shard
from ..tfds import DatasetInfo, shard_paths
from ..tfds.info import INFO_FILE
from .conversion import Conversion, Converted, Item, Piece, Read, describe_inputs
from .export import ExportOptions
from .inputs import expand_splits
from .options import ConvertOptions, Features, as_features
from .pieces import Counted, cut_counted, cut_ranges
from .run import run_conversion

__all__ = ["Records", "convert_arrayrecord", "open_records"]

#: Records are read so many, or about so many bytes, at a time.
_BLOCK_RECORDS = 1024
_BLOCK_BYTES = 1 << 22


def convert_arrayrecord(
    source: Paths | Mapping[str, Paths],
    path: str | os.PathLike[str],
    *,
    features: Features | None = None,
    split: str = "train",
    group_size: int = 1,
    **options: Unpack[ConvertOptions],
) -> Converted:
    """Write ArrayRecord files anew: with other shards or another codec. Records are copied as they are.

        convert_arrayrecord("mnist/3.0.1", "mnist-plain/3.0.1", codec="none", num_shards=8)
        convert_arrayrecord("logs/*.arrayrecord", "logs-packed", codec="zstd:9", group_size=100)
        convert_arrayrecord("bare/*", "described", features={"x": np.int64})

    Args:
      source: The directory of a data set, by TFDS or arrayfeed: becomes a data set of the same description. Or bare files: a
        path, a directory, a glob, ``prefix@16``, a list, or such by split: become bare files, of any group size.
      path: The directory to be.
      features: What bare records hold; then they become a data set. Whether they do is not looked at: ``verify`` does.
      split: The name of the split, where ``source`` does not name any.
      group_size: Of bare files: how many records are compressed together.
      options: See ``ConvertOptions``.

    Raises:
      ShardNotFoundError: A file is missing.
      CorruptShardError: A file is damaged.
      DatasetExistsError, ValueError, TypeError: As ``DatasetWriter``.
    """
    if isinstance(source, (str, os.PathLike)) and os.path.exists(os.path.join(source, INFO_FILE)):
        if features is not None or group_size != 1:
            raise ValueError(
                "a data set keeps its features, and has one record in each chunk, as TFDS and Grain expect; features and "
                "group_size are for bare files, as source/*.array_record*"
            )
        return _convert_dataset(os.fspath(source), path, options)
    if group_size < 1 or (features is not None and group_size != 1):
        raise ValueError(f"group_size must be 1 or more, and 1 for a data set, got {group_size}")
    splits, counted = _count(source, split)
    conversion = Conversion(
        features=None if features is None else as_features(features),
        pieces=cut_counted(counted, options),
        read=_read_files,
        splits=tuple(splits),
        unit="examples",
        is_cut=True,
        identity=("arrayrecord", describe_inputs(each for paths in splits.values() for each in paths)),
    )
    return run_conversion(path, conversion, {**options, "group_size": group_size})


def _count(source: Paths | Mapping[str, Paths], split: str) -> tuple[dict[str, list[str]], dict[str, Counted]]:
    splits = expand_splits(source, split, (".array_record", ".arrayrecord"))
    return splits, {
        name: Counted(paths, [len(ArrayRecordDataSource(each)) for each in paths], sum(map(os.path.getsize, paths)))
        for name, paths in splits.items()
    }


def _convert_dataset(source: str, path: str | os.PathLike[str], options: ConvertOptions) -> Converted:
    info = DatasetInfo.read(source)
    conversion = Conversion(
        features=info.features,
        pieces=_cut_dataset(info, options),
        read=DatasetReader(source),
        splits=tuple(split.name for split in info.splits),
        unit="examples",
        is_cut=True,
        info=info,
        identity=("arrayrecord dataset", _describe_dataset(source, info)),
    )
    return run_conversion(path, conversion, options)


@dataclass(frozen=True, slots=True)
class Records:
    """Records to be written elsewhere.

    Attributes:
      info: The description of the data set that they are; None for bare files.
      pieces: Those of one file to be, each.
    """

    info: DatasetInfo | None
    splits: tuple[str, ...]
    pieces: tuple[Piece, ...]
    read: Read
    identity: Any


def open_records(source: Paths, options: ExportOptions) -> Records:
    """Return the records of a data set's directory, or of bare files, cut as they are unless options say otherwise.

    Raises:
      DatasetNotFoundError, ShardNotFoundError: There is no such source.
    """
    is_cut_anew = bool(options.keys() & {"num_shards", "shard_bytes", "shard_records"})
    if isinstance(source, (str, os.PathLike)) and os.path.exists(os.path.join(source, INFO_FILE)):
        directory = os.fspath(source)
        info = DatasetInfo.read(directory)
        pieces = _cut_dataset(info, options) if is_cut_anew else _shards_of(info)
        splits = tuple(split.name for split in info.splits)
        return Records(info, splits, tuple(pieces), DatasetReader(directory), _describe_dataset(directory, info))
    splits_found, counted = _count(source, "train")
    pieces = cut_counted(counted, options) if is_cut_anew else _files_of(counted)
    identity = describe_inputs(each for paths in splits_found.values() for each in paths)
    return Records(None, tuple(counted), tuple(pieces), _read_files, identity)


def _cut_dataset(info: DatasetInfo, options: Mapping[str, Any]) -> list[Piece]:
    return [
        Piece(split.name, (start, stop), stop - start)
        for split in info.splits
        for start, stop in cut_ranges(split.num_records, split.num_bytes, options)
    ]


def _shards_of(info: DatasetInfo) -> list[Piece]:
    return [
        Piece(split.name, (stop - length, stop), length)
        for split in info.splits
        for length, stop in zip(split.shard_lengths, accumulate(split.shard_lengths), strict=True)
    ]


def _files_of(counted: Mapping[str, Counted]) -> list[Piece]:
    return [
        Piece(split, [Shard(path)], length)
        for split, files in counted.items()
        for path, length in zip(files.paths, files.lengths, strict=True)
    ]


def _describe_dataset(directory: str, info: DatasetInfo) -> Any:
    paths = [os.fspath(each) for split in info.splits for each in shard_paths(directory, info, split.name)]
    return describe_inputs(each for each in paths if os.path.exists(each))


@dataclass(frozen=True, slots=True)
class DatasetReader:
    """Reads ranges of the records of a data set's splits."""

    directory: str

    def __call__(self, piece: Piece) -> Iterator[Item]:
        start, stop = piece.source
        with dataset.open(self.directory, split=piece.split, raw=True, io="pread") as records:
            yield from _read(records, start, stop)


def _read_files(piece: Piece) -> Iterator[Item]:
    shards: list[Shard] = piece.source
    for shard in shards:
        with ArrayRecordDataSource(shard.path, io="pread") as records:
            yield from _read(records, shard.start, len(records) if shard.end is None else shard.end)


def _read(records: ArrayRecordDataSource, start: int, stop: int) -> Iterator[Item]:
    block = 1
    while start < stop:
        end = min(start + block, stop)
        found: list[bytes | CorruptShardError]
        try:
            found = records.__getitems__(range(start, end))  # type: ignore[assignment]  # bytes, all of them
        except CorruptShardError:
            found = [_read_one(records, index) for index in range(start, end)]
        for index, value in zip(range(start, end), found, strict=True):
            yield Item(*records.locate(index), value)
        # As many next time as have some 4 MB between them.
        num_bytes = sum(len(value) for value in found if isinstance(value, bytes))
        block = max(1, min(2 * block, _BLOCK_RECORDS, _BLOCK_BYTES * len(found) // max(num_bytes, 1)))
        start = end


def _read_one(records: ArrayRecordDataSource, index: int) -> bytes | CorruptShardError:
    try:
        return records[index]
    except CorruptShardError as error:
        return error
