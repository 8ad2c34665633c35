"""Parts of a data set: each written by itself, by any process that sees the directory, and joined in their numbers' order.

In the directory of the writer that they are parts of::

    part-00003.wanted           somebody was given this part to write
    part-00003-1a2b3c4d/        one attempt at it: shards, and beside each the CRC32C of its records
    part-00003.json             the attempt that was finished last, with all that is known of its shards

The last appears by a rename when the attempt's files are on the disk. So a part that dies has left nothing that counts, a part
that is written twice counts once, and no writer ever touches the files of another.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from ..features import FeaturesDict
from ..manifest import FileEntry
from .example_writer import ExampleWriter
from .limits import ShardLimits
from .publish import sync
from .shards import WrittenShard

__all__ = [
    "PartWriter",
    "finished_parts",
    "mark_wanted",
    "read_part",
    "remove_parts",
    "remove_unfinished",
    "wanted_parts",
]

_FINISHED = re.compile(r"part-(\d{5,})\.json")
_WANTED = re.compile(r"part-(\d{5,})\.wanted")
_OF_PARTS = re.compile(r"part-\d{5,}(\.json|\.wanted|-[0-9a-f]{8})")
_CHECKSUMS = ".crc32c"


class PartWriter(ExampleWriter):
    """Writes one part of a data set; made by ``DatasetWriter.part``.

        with writer.part(3) as part:
            part.write(example, split="train")

    Before its first example it pickles, to be sent to another process, started by spawn or forkserver, or another machine
    with the same files. If it dies, or should be other than it is, write a part of the same number again: what was finished
    last counts.

    Threads may share it. It must be closed, as the end of the block does, before the data set is.

    Args:
      first: Which example of the whole split its first one is, to name examples in errors; None where that is not known.
    """

    def __init__(
        self, directory: str, number: int, features: FeaturesDict, limits: ShardLimits, first: int | None = None
    ) -> None:
        super().__init__(features, limits)
        self.number = number
        self._home = directory
        self._first = first
        self._attempt = ""

    @property
    def directory(self) -> str:
        return os.path.join(self._home, self._attempt)

    def _open(self) -> None:
        self._attempt = f"{_stem(self.number)}-{secrets.token_hex(4)}"
        try:
            os.mkdir(self.directory)
        except FileNotFoundError:
            raise DataError("the data set that this is a part of is no longer being written", self._home) from None

    def _publish(self) -> None:
        described = {}
        for name, split in self._splits.items():
            split.finish()
            described[name] = [_describe(shard) for shard in split.shards]
        sync(self.directory)
        temporary = os.path.join(self.directory, "part.json")
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump({"directory": self._attempt, "splits": described}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, os.path.join(self._home, f"{_stem(self.number)}.json"))
        sync(self._home)

    def _discard(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    def _name_example(self, split: str, number: int) -> str:
        if self._first is not None:
            return f"example {self._first + number} of split {split!r}"
        return f"example {number} of split {split!r} in part {self.number}"

    def _name_row(self, split: str, before: int, row: int, count: int) -> str:
        return self._name_example(split, before + row)

    def __reduce__(self) -> tuple[type[PartWriter], tuple[Any, ...]]:
        if self._state != "unopened":
            raise TypeError(f"{self!r} cannot be sent elsewhere once it is in use")
        return PartWriter, (self._home, self.number, self.features, self._limits, self._first)

    def __repr__(self) -> str:
        return f"<PartWriter {self.number} in {self._home!r}, {self._describe()}>"


def mark_wanted(directory: str, number: int) -> None:
    """Note that a part is to be written."""
    Path(directory, f"{_stem(number)}.wanted").touch()


def wanted_parts(directory: str) -> set[int]:
    """Return the numbers of the parts that somebody was given to write."""
    return {int(match[1]) for match in map(_WANTED.fullmatch, os.listdir(directory)) if match}


def finished_parts(directory: str) -> set[int]:
    """Return the numbers of the parts that are finished."""
    return {int(match[1]) for match in map(_FINISHED.fullmatch, os.listdir(directory)) if match}


def read_part(directory: str, number: int) -> dict[str, list[WrittenShard]]:
    """Return the shards of a finished part, split by split.

    Raises:
      DataError: What was noted of it cannot be understood.
    """
    path = os.path.join(directory, f"{_stem(number)}.json")
    try:
        form = json.loads(Path(path).read_bytes())
        home = os.path.join(directory, form["directory"])
        return {name: [_restore(home, shard) for shard in shards] for name, shards in form["splits"].items()}
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise DataError(f"this part cannot be joined: {error!r}; write it again", path) from error


def remove_unfinished(directory: str, *, but: str) -> None:
    """Remove everything but the parts that are finished and whole, and the file ``but``."""
    kept = {but}
    for number in finished_parts(directory):
        try:
            read_part(directory, number)
        except DataError:
            continue  # killed when it was being joined
        name = f"{_stem(number)}.json"
        kept |= {name, str(json.loads(Path(directory, name).read_bytes())["directory"])}
    for entry in os.scandir(directory):
        if entry.name not in kept:
            _remove(entry)


def remove_parts(directory: str) -> None:
    """Remove all that parts have left in ``directory``, their shards being elsewhere by now."""
    for entry in os.scandir(directory):
        if _OF_PARTS.fullmatch(entry.name):
            _remove(entry)


def _remove(entry: os.DirEntry[str]) -> None:
    if entry.is_dir(follow_symlinks=False):
        shutil.rmtree(entry.path, ignore_errors=True)
    else:
        os.remove(entry.path)


def _stem(number: int) -> str:
    return f"part-{number:05d}"


def _describe(shard: WrittenShard) -> dict[str, Any]:
    """Return what ``_restore`` needs, having put the checksums beside the shard."""
    path = shard.path + _CHECKSUMS
    shard.checksums.astype("<u4").tofile(path)
    sync(path)
    return {"file": os.path.basename(shard.path), "bytes": shard.num_bytes, "entry": shard.entry.to_json()}


def _restore(directory: str, form: Mapping[str, Any]) -> WrittenShard:
    path = os.path.join(directory, form["file"])
    entry = FileEntry.from_json(form["entry"])
    checksums = np.fromfile(path + _CHECKSUMS, "<u4").astype(np.uint32)
    if entry.records != checksums.size or os.stat(path).st_size != entry.bytes:
        raise ValueError(f"{path} is not what was written")
    return WrittenShard(path, checksums.size, int(form["bytes"]), checksums, entry)
