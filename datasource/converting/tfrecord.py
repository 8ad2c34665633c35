"""TFRecord files, of ``tf.train.Example`` or of anything."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from ..errors import DataError
from ..features import FeaturesDict
from ..shards import Paths, Shard
from ..tasks import Tick
from ..tfrecord.index import load_offsets
from .conversion import Conversion, Converted, Item, OnError, Piece, describe_inputs
from .infer_example import ExampleStats, parse_record
from .inputs import expand_splits
from .observe import observe
from .options import ConvertOptions, Features, as_features
from .pieces import Counted, cut_counted, group_files
from .recode import Recoder, stored_features
from .run import run_conversion
from .tfrecord_frames import Compression, detect_compression, read_frames

__all__ = ["FramesReader", "Slice", "convert_tfrecord", "plan_frames"]


def convert_tfrecord(
    paths: Paths | Mapping[str, Paths],
    path: str | os.PathLike[str],
    *,
    features: Features | None = None,
    raw: bool = False,
    split: str = "train",
    compression: Compression = "auto",
    group_size: int = 1,
    **options: Unpack[ConvertOptions],
) -> Converted:
    """Convert TFRecord files. Needs no TensorFlow.

        convert_tfrecord("train-*.tfrecord.gz", "digits")
        convert_tfrecord({"train": "train@16", "test": "test.tfrecord"}, "digits", features={"label": np.int64})
        convert_tfrecord("ages.tfrecord", "ages", features={"name": Text(), "age": Field(np.int64, default=-1)})
        convert_tfrecord("messages.tfrecord", "messages", raw=True)

    Plain files are cut into equal shards, whatever the files; a compressed file is read from end to end, and begins a shard of
    its own unless files are small. What was read of it when a run is interrupted is read again.

    Args:
      paths: A path, a directory, a glob, ``prefix@16``, or a list of them; see ``expand_paths``. Or such by split.
      path: The directory to be.
      features: What to keep of each record; a ``Field`` gives a default for what is missing. If not given, they are told from
        a first look at all records, which are then stored as they are, byte for byte.
      raw: Keep records of any kind, byte for byte, in bare ArrayRecord files, which ``ArrayRecordDataSource`` opens.
      split: The name of the split, where ``paths`` does not name any.
      compression: Of the files; ``"auto"`` looks at each.
      group_size: With ``raw``, how many records are compressed together.
      options: See ``ConvertOptions``.

    Raises:
      ShardNotFoundError: A file is missing, or a pattern matches none; lists them.
      CorruptShardError: A file is damaged, was cut short (inside a record's header, too) or is no TFRecord file;
        ``.path``, ``.record``, ``.offset``.
      DecodeError: A record is no ``tf.train.Example``, or not as ``features`` say.
      SchemaError: No features describe all records; names the key and two of them.
      DatasetExistsError, ValueError, TypeError: As ``DatasetWriter``.
    """
    if raw and features is not None:
        raise ValueError("raw=True keeps records as they are: features have no meaning for it")
    if group_size != 1 and not raw:
        raise ValueError("a data set has one record in each chunk, as TFDS and Grain expect; group_size needs raw=True")
    splits = expand_splits(paths, split, (".tfrecord", ".tfrec"))
    pieces, is_cut = plan_frames(splits, compression, options)
    files = [path for each in splits.values() for path in each]
    on_error: OnError = options.get("on_error", "raise")
    given = None if features is None else as_features(features)
    if not raw and given is None:
        look = _Observer(compression, on_error)
        stats = ExampleStats()
        found = observe(look, pieces, "B", num_workers=options.get("num_workers"), progress=options.get("progress", False))
        for each in found:
            stats.join(each)
        stored = stats.to_features()
    else:
        stored = FeaturesDict({}) if given is None else stored_features(given)
    conversion = Conversion(
        features=None if raw else stored,
        pieces=pieces,
        read=FramesReader(compression, given),
        splits=tuple(splits),
        unit="B",
        is_cut=is_cut,
        identity=("tfrecord", compression, repr(given), describe_inputs(files)),
    )
    return run_conversion(path, conversion, {**options, "group_size": group_size})


@dataclass(frozen=True, slots=True)
class Slice:
    """Bytes ``start <= byte < stop`` of a file, at which records begin, the first of them number ``first``."""

    path: str
    start: int = 0
    stop: int | None = None
    first: int = 0


@dataclass(frozen=True, slots=True)
class FramesReader:
    """Reads slices of TFRecord files; records as they are, or held to features."""

    compression: Compression
    features: FeaturesDict | None = None

    def __call__(self, piece: Piece) -> Iterator[Item]:
        recode = None if self.features is None else Recoder(self.features).recode
        for part in _slices(piece):
            for record, data, size in read_frames(
                part.path, self.compression, start=part.start, stop=part.stop, first=part.first
            ):
                if recode is not None and isinstance(data, bytes):
                    try:
                        data = recode(data, part.path, record)
                    except DataError as error:
                        data = error
                yield Item(part.path, record, data, size)


@dataclass(frozen=True, slots=True)
class _Observer:
    """Tells what the records of a piece have in common."""

    compression: Compression
    on_error: OnError

    def __call__(self, piece: Piece, tick: Tick) -> ExampleStats:
        stats = ExampleStats()
        for item in FramesReader(self.compression)(piece):
            tick(item.size)
            try:
                if isinstance(item.value, DataError):
                    raise item.value
                assert isinstance(item.value, bytes)
                wire = parse_record(item.value, item.path, item.record)
            except DataError:
                if self.on_error == "raise":
                    raise
                continue
            stats.add(wire, f"record {item.record} of {item.path}")
        return stats


def plan_frames(
    splits: Mapping[str, Iterable[str]], compression: Compression, options: Mapping[str, Any]
) -> tuple[list[Piece], bool]:
    """Return the pieces of TFRecord files, and whether each is a shard: if all are plain and no length in them is damaged."""
    sizes = {split: {path: os.path.getsize(path) for path in paths} for split, paths in splits.items()}
    found = compression
    if compression == "auto" and all(detect_compression(path) == "none" for paths in sizes.values() for path in paths):
        found = "none"
    try:
        if found == "none":
            return _cut_plain(sizes, options), True
    except DataError:
        pass  # damaged: it will be said, or skipped, when the record's turn comes
    return [piece for split, paths in sizes.items() for piece in group_files(split, paths, options)], False


def _cut_plain(sizes: Mapping[str, Mapping[str, int]], options: Mapping[str, Any]) -> list[Piece]:
    counted = {}
    for split, paths in sizes.items():
        lengths = [load_offsets(path, "memory").size - 1 for path in paths]
        counted[split] = Counted(list(paths), lengths, sum(paths.values()))
    # The offsets of one file at a time: of all files they might be too many.
    kept: dict[str, np.ndarray[Any, np.dtype[np.int64]]] = {}

    def locate(shards: list[Shard]) -> tuple[Slice, ...]:
        return tuple(map(locate_one, shards))

    def locate_one(shard: Shard) -> Slice:
        if shard.end is None:
            return Slice(shard.path)
        if shard.path not in kept:
            kept.clear()
            kept[shard.path] = load_offsets(shard.path, "memory")
        start, stop = kept[shard.path][[shard.start, shard.end]].tolist()
        return Slice(shard.path, start, stop, shard.start)

    pieces = cut_counted(counted, options, locate)
    totals = {path: size for paths in sizes.values() for path, size in paths.items()}
    return [Piece(piece.split, piece.source, sum(_bytes_of(part, totals) for part in piece.source)) for piece in pieces]


def _bytes_of(part: Slice, totals: Mapping[str, int]) -> int:
    return (totals[part.path] if part.stop is None else part.stop) - part.start


def _slices(piece: Piece) -> Iterator[Slice]:
    for source in piece.source:
        yield source if isinstance(source, Slice) else Slice(source)
