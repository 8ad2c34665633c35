"""Opens what is on the disk: a directory that TFDS or ``DatasetWriter`` prepared, or bare shards."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable
from typing import Literal, TypeAlias, TypedDict, Unpack, overload

from .arrayrecord import ArrayRecordDataSource
from .arrayrecord.file import Io
from .arrayrecord.reader import Check
from .arrayrecord.record_index import RecordIndex
from .errors import DataError, DatasetIncompleteError, DatasetNotFoundError
from .examples import ExampleDataSource
from .features import Decoders, with_decoders, with_options
from .filesystems import choose_io
from .indexing import find_index
from .shards import slice_shards
from .tfds import DatasetInfo, shard_files
from .tfds.splits import Split, resolve_split
from .tfds.versions import find_dataset

__all__ = ["open"]

Path: TypeAlias = str | os.PathLike[str]
Opened: TypeAlias = ExampleDataSource | ArrayRecordDataSource


class Options(TypedDict, total=False):
    """The options of ``open`` that do not change what kind of thing it gives; see there."""

    name: str
    features: Iterable[str] | None
    decoders: Decoders | None
    text: Literal["bytes", "str"]
    sequences: Literal["list", "array"]
    channels: Literal["stored", "declared"]
    io: Literal["auto", "mmap", "pread"]
    check: Check


@overload
def open(
    path: Path, *, split: None = None, raw: Literal[False] = False, **options: Unpack[Options]
) -> dict[str, ExampleDataSource]: ...
@overload
def open(path: Path, *, split: str | Split, raw: Literal[False] = False, **options: Unpack[Options]) -> ExampleDataSource: ...
@overload
def open(
    path: Path, *, split: None = None, raw: Literal[True], **options: Unpack[Options]
) -> dict[str, ArrayRecordDataSource]: ...
@overload
def open(path: Path, *, split: str | Split, raw: Literal[True], **options: Unpack[Options]) -> ArrayRecordDataSource: ...


def open(
    path: Path,
    *,
    split: str | Split | None = None,
    raw: bool = False,
    name: str = "",
    features: Iterable[str] | None = None,
    decoders: Decoders | None = None,
    text: Literal["bytes", "str"] = "bytes",
    sequences: Literal["list", "array"] = "list",
    channels: Literal["stored", "declared"] = "stored",
    io: Literal["auto", "mmap", "pread"] = "auto",
    check: Check = "crc",
) -> Opened | dict[str, Opened] | dict[str, ExampleDataSource] | dict[str, ArrayRecordDataSource]:
    """Open a data set that TFDS prepared or ``DatasetWriter`` wrote. Needs no TensorFlow.

    Reads the description only; shards are opened when a record of theirs is first read.

        open("mnist/3.0.1", split="train")                  the examples of one split
        open("mnist/3.0.1")                                 {"train": ..., "test": ...}
        open("mnist/3.0.1", split="train[:80%]+test")       parts of splits, one behind the other
        open("mnist/3.0.1", split=even_splits("train", 4)[0])     the first of four parts
        open("/data", name="mnist:3.*.*")                   the newest such version below a root

    Args:
      path: The directory that holds ``dataset_info.json``; with ``name``, the root that data sets are kept in.
      split: A split string, or what ``even_splits`` gives; None for a dict of all splits. A selection of nothing is empty.
      name: ``"name"``, ``"name/config"``, ``"name:version"``, where parts of the version may be ``*``.
      raw: Give records as they are stored, ``bytes``, instead of examples.
      features: Names of the features to decode, ``"objects/bbox"`` for one inside another; None for all.
      decoders: By name of feature, nested as the features are: ``SkipDecoding()`` for the stored bytes, or a function of the
        stored value and the feature.
      text: ``"str"`` decodes texts from UTF-8.
      sequences: ``"array"`` joins sequences of equally shaped elements to one array.
      channels: ``"declared"`` gives images the number of channels that their feature states, whatever the file has.
      io: ``"mmap"`` or ``"pread"``, see ``ArrayRecordDataSource``; ``"auto"`` maps files, but not on network file systems.
      check: How closely records are checked, see there. ``"crc"`` compares each, when a process first reads it, with its
        checksum in the record index, where there is one; in batches together with its neighbours, up to 32 kB of them.

    Raises:
      DatasetNotFoundError: The path is no data set; says what is there instead.
      DatasetIncompleteError: A writer began it and did not finish.
      DataError: A file of the description cannot be understood; names it. Or its makers blocked this version; says why.
      ValueError: There is no such split or feature, lists those there are; or the split string cannot be read.
    """
    directory = find_dataset(path, name) if name else pathlib.Path(path)
    _refuse_other(directory)
    info = DatasetInfo.read(directory)
    if info.blocked:
        raise DataError(
            f"{info.name} {info.version} is blocked: {info.blocked}. Take another version; to read this one all the same, "
            'delete "isBlocked" from its dataset_info.json',
            os.fspath(directory),
        )
    how: Io = choose_io(directory) if io == "auto" else io
    wanted_features = info.features if features is None else info.features.select(features)
    if (text, sequences, channels) != ("bytes", "list", "stored"):
        wanted_features = with_options(wanted_features, text=text, sequences=sequences, channels=channels)
    if decoders:
        wanted_features = with_decoders(wanted_features, decoders)
    lengths = {each.name: each.shard_lengths for each in info.splits}

    def open_one(wanted: str | Split) -> Opened:
        shards, counts = [], []
        indexes: dict[str, RecordIndex | None] = {}
        for part in resolve_split(wanted, lengths):
            indexes[part.split] = indexes.get(part.split) or find_index(directory, info, part.split)
            files = shard_files(directory, info, part.split)
            for shard, count in slice_shards(files, lengths[part.split], part.start, part.stop):
                shards.append(shard)
                counts.append(count)
        found = [index for index in indexes.values() if index is not None]
        records = ArrayRecordDataSource.from_lengths(shards, counts, io=how, check=check, indexes=found)
        return records if raw else ExampleDataSource(records, wanted_features, name=f"{info.name}/{wanted}")

    return {each.name: open_one(each.name) for each in info.splits} if split is None else open_one(split)


def _refuse_other(directory: pathlib.Path) -> None:
    """Raise, with the way out, for what is no data set but looks as if the user took it for one."""
    if not directory.exists():
        from .writing.publish import find_aside, find_leftovers

        if aside := find_aside(directory):
            raise DatasetIncompleteError(
                f"incomplete: a run that appended to it was interrupted. What it was before is in {aside[0]}, whole: rename it "
                "back, or append again, which does so",
                os.fspath(directory),
            )
        if leftovers := find_leftovers(directory):
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
