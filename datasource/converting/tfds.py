"""A data set that TFDS prepared in TFRecord format: the same records, features, splits, class names and description."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Unpack

from ..errors import DatasetNotFoundError, ShardNotFoundError
from ..tfds import DatasetInfo
from ..tfds.info import shard_names
from .conversion import Conversion, Converted, Piece, describe_inputs
from .options import ConvertOptions
from .run import run_conversion
from .tfrecord import FramesReader, plan_frames

__all__ = ["convert_tfds"]


def convert_tfds(
    directory: str | os.PathLike[str], path: str | os.PathLike[str], **options: Unpack[ConvertOptions]
) -> Converted:
    """Convert a data set that TFDS prepared with ``file_format="tfrecord"``, its default. Needs neither TFDS nor TensorFlow.

    Every record is stored as it is. Shards stay as they are cut, unless an option says how large they should be.

    Args:
      directory: Holds ``dataset_info.json`` and the shards.
      path: The directory to be.
      options: See ``ConvertOptions``.

    Raises:
      DatasetNotFoundError: There is no data set, or one in another format.
      ShardNotFoundError: A shard is missing.
      CorruptShardError: A shard is damaged.
      DatasetExistsError, ValueError, TypeError: As ``DatasetWriter``.
    """
    info = DatasetInfo.read(directory)
    if "tfrecord" not in (info.file_format, *info.alternative_file_formats):
        raise DatasetNotFoundError(
            f"its shards are in {info.file_format} format, not tfrecord"
            + "; convert_arrayrecord() writes them anew" * (info.file_format == "array_record"),
            os.fspath(directory),
        )
    splits = {}
    for split in info.splits:
        names = shard_names(info, split, "tfrecord")
        # TFDS writes no file for a shard without records.
        paths = [os.fspath(Path(directory, name)) for name, length in zip(names, split.shard_lengths, strict=True) if length]
        missing = [path for path in paths if not os.path.exists(path)]
        if missing:
            raise ShardNotFoundError(f"{len(missing)} of {len(paths)} shards of split {split.name!r} are missing", missing[0])
        splits[split.name] = paths
    if options.keys() & {"num_shards", "shard_bytes", "shard_records"}:
        pieces, is_cut = plan_frames(splits, "auto", options)
    else:
        pieces = [Piece(name, (path,), os.path.getsize(path)) for name, paths in splits.items() for path in paths]
        is_cut = True
    conversion = Conversion(
        features=info.features,
        pieces=pieces,
        read=FramesReader("auto"),
        splits=tuple(splits),
        unit="B",
        is_cut=is_cut,
        info=info,
        identity=("tfds", describe_inputs(path for paths in splits.values() for path in paths)),
    )
    return run_conversion(path, conversion, options)
