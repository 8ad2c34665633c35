"""The data set that is appended to: what it is, and how its files come to stand in the next one as well.

Its shards are linked, not copied: one file under two names, until the old directory goes.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..arrayrecord.record_index import RecordIndex
from ..errors import DataError
from ..indexing import describe_shard_file, find_index, index_path
from ..manifest import MANIFEST_FILE, FileEntry, Manifest, content_files, make_manifest
from ..tfds import DatasetInfo, shard_paths
from .shards import WrittenShard, open_shard

__all__ = ["Existing"]

# What says that a file system, or this pair of them, has no hard links.
_CANNOT_LINK = {errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


@dataclass(frozen=True, slots=True)
class Existing:
    """A data set as it is.

    Attributes:
      manifest: What its files should be; None where it has none, as of one that others wrote.
    """

    directory: str
    info: DatasetInfo
    manifest: Manifest | None

    @classmethod
    def read(cls, directory: str) -> Existing:
        """Return what stands in a directory.

        Raises:
          DataError: It cannot be understood, is not of ArrayRecord shards alone, or lacks files or parts of them.
          DatasetNotFoundError: There is none.
        """
        info = DatasetInfo.read(directory)
        formats = {info.file_format, *info.alternative_file_formats}
        if formats != {"array_record"}:
            raise DataError(
                f"only to a data set of ArrayRecord shards can be appended; this one has {sorted(formats)}", directory
            )
        manifest = Manifest.read(os.path.join(directory, MANIFEST_FILE))
        for name in content_files(directory, info):
            path = os.path.join(directory, name)
            entry = None if manifest is None else manifest.files.get(name)
            try:
                size = os.stat(path).st_size
            except OSError as error:
                raise DataError(
                    f"nothing can be appended, because a file of it cannot be read: {error.strerror}", path
                ) from error
            if manifest is not None and (entry is None or entry.bytes != size):
                stated = "does not list it" if entry is None else f"says {entry.bytes}"
                raise DataError(
                    f"nothing can be appended: it has {size} bytes, its manifest {stated}; see `arrayfeed verify`", path
                )
        return cls(directory, info, manifest)

    @property
    def identity(self) -> str:
        """What it is, to be told from any other."""
        return "" if self.manifest is None else self.manifest.root

    def entries(self) -> dict[str, FileEntry]:
        """Return what each of its files is, having read them all where there is no manifest."""
        return dict((self.manifest or make_manifest(self.directory, self.info)).files)

    def link_split(self, split: str, directory: str, entries: dict[str, FileEntry]) -> list[WrittenShard]:
        """Return the shards of a split as files of their own in ``directory``; none of a split that has no records.

        Raises:
          DataError: A shard is not what its record index says, or cannot be read.
        """
        if not self.info.split(split).num_records:
            return []
        index = find_index(self.directory, self.info, split)
        shards = []
        for number, name in enumerate(shard_paths("", self.info, split)):
            source = os.path.join(self.directory, name)
            target = os.path.join(directory, f"{split}-{number:05d}.kept")
            _link(os.path.realpath(source), target)
            reader = open_shard(target)
            num_bytes = int(reader.index.decoded_sizes.sum())
            is_grouped = reader.index.record_ends is not None
            known = _find_checksums(source, index)
            shards.append(
                WrittenShard(target, reader.num_records, num_bytes, known[0], entries[name.as_posix()], is_grouped, *known[1:])
            )
        return shards

    def link_rest(self, directory: str, changed: Collection[str]) -> None:
        """Put every other file into ``directory``: all but the shards of changed splits and of those without records, and what
        is derived from all files.

        Files that describe the data set are copied, for they are written anew, in place.
        """
        described = content_files(self.directory, self.info)
        left_out = {MANIFEST_FILE}
        for split in self.info.splits:
            if split.name in changed or not split.num_records:
                left_out |= {path.as_posix() for path in shard_paths("", self.info, split.name)}
                left_out.add(index_path("", self.info, split.name).name)
        for folder, folders, files in os.walk(self.directory):
            below = os.path.relpath(folder, self.directory)
            os.makedirs(os.path.join(directory, below), exist_ok=True)
            for file in files + [name for name in folders if os.path.islink(os.path.join(folder, name))]:
                name = os.path.normpath(os.path.join(below, file)).replace(os.sep, "/")
                if name in left_out:
                    continue
                source, target = os.path.join(self.directory, name), os.path.join(directory, name)
                if described.get(name, 0) is None:
                    shutil.copyfile(source, target)
                elif os.path.islink(source):
                    os.symlink(os.readlink(source), target)  # relative ones fit: both directories have the same parent
                else:
                    _link(source, target)


def _find_checksums(
    path: str, index: RecordIndex | None
) -> tuple[npt.NDArray[np.uint32], int, npt.NDArray[np.uint32] | None, npt.NDArray[np.uint8] | None]:
    """Return the CRC32C of each record of a shard, and what ``WrittenShard`` wants to know of neighbours and of all: as its
    index says, or as they are where it has none."""
    indexed = None if index is None else index.lookup(os.path.basename(path))
    if indexed is None:
        return describe_shard_file(path).checksums, 0, None, None
    if reason := indexed.mismatch(open_shard(path).file):
        raise DataError(f"nothing can be appended, because its record index does not fit it: {reason}", path)
    # Copies: the index that they are mapped from may be written anew.
    runs = indexed.runs.astype(np.uint32) if indexed.run else None
    return indexed.checksums.astype(np.uint32), indexed.run, runs, indexed.varies


def _link(source: str, target: str) -> None:
    """Give a file a second name; where that cannot be, copy it."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _CANNOT_LINK:
            raise
        shutil.copyfile(source, target)
