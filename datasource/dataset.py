"""Opens what is on the disk: a directory that TFDS or ``DatasetWriter`` prepared, or bare shards."""

from __future__ import annotations

import os
from pathlib import Path
from typing import overload

from .arrayrecord import ArrayRecordDataSource
from .arrayrecord.file import Io
from .arrayrecord.reader import Check
from .errors import DatasetIncompleteError, DatasetNotFoundError
from .examples import ExampleDataSource
from .tfds import DatasetInfo, shard_paths
from .writing.publish import find_leftovers

__all__ = ["open"]


@overload
def open(
    path: str | os.PathLike[str], *, split: None = None, io: Io = "mmap", check: Check = "structure"
) -> dict[str, ExampleDataSource]: ...
@overload
def open(path: str | os.PathLike[str], *, split: str, io: Io = "mmap", check: Check = "structure") -> ExampleDataSource: ...


def open(
    path: str | os.PathLike[str], *, split: str | None = None, io: Io = "mmap", check: Check = "structure"
) -> ExampleDataSource | dict[str, ExampleDataSource]:
    """Open the data set in a directory, one that TFDS prepared or ``DatasetWriter`` wrote. Needs no TensorFlow.

    Reads the description only; shards are opened when a record of theirs is first read.

        open("mnist/3.0.1", split="train")      the examples of one split
        open("mnist/3.0.1")                     {"train": ..., "test": ...}

    Args:
      path: The directory that holds ``dataset_info.json``.
      split: A split's name; None for a dict of all.
      io, check: How shards are read and how closely they are checked; see ``ArrayRecordDataSource``.

    Raises:
      DatasetNotFoundError: The path is no data set; says what is there instead.
      DatasetIncompleteError: A writer began it and did not finish.
      DataError: A file of the description cannot be understood; names it.
      ValueError: There is no such split; lists those there are.
    """
    directory = Path(path)
    if not directory.exists() and (leftovers := find_leftovers(directory)):
        names = ", ".join(leftover.directory for leftover in leftovers)
        raise DatasetIncompleteError(
            f"incomplete: written by an interrupted run, or still being written, in {names}. Write it again; what a dead "
            "writer left can be deleted",
            os.fspath(directory),
        )
    if directory.is_file():
        raise DatasetNotFoundError(
            "this is a file, not a data set's directory; ArrayRecordDataSource opens shards", os.fspath(directory)
        )
    info = DatasetInfo.read(directory)
    if split is not None:
        return _open_split(directory, info, split, io, check)
    return {each.name: _open_split(directory, info, each.name, io, check) for each in info.splits}


def _open_split(directory: Path, info: DatasetInfo, split: str, io: Io, check: Check) -> ExampleDataSource:
    paths = [os.fspath(path) for path in shard_paths(directory, info, split)]
    records = ArrayRecordDataSource.from_lengths(paths, info.split(split).shard_lengths, io=io, check=check)
    return ExampleDataSource(records, info.features, name=f"{info.name}/{split}")
