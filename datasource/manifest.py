"""What the files of a data set should be: size, SHA-256, records; and one hash over all of it.

``arrayfeed.json`` stands beside the shards. TFDS and Grain do not look at it::

    {"arrayfeed": 1,
     "root": "<SHA-256>",
     "fingerprint": "...",
     "files": {"digits-train.array_record-00000-of-00001": {"bytes": 131072, "records": 60, "sha256": "..."},
               "dataset_info.json": {"bytes": 427, "sha256": "..."}, ...}}

``files`` has the shards and every file that describes them: the same data set, byte for byte, is the same ``files``. The
**root** is the SHA-256 of ``files`` in a canonical form: JSON in ASCII, keys sorted, no spaces, as
``jq -acjS .files arrayfeed.json | sha256sum`` gives it too. A line in a paper that quotes the root pins every byte. Record
indexes are not among the files: they follow from the shards, and may be made again. The **fingerprint**, if there is one, is
what the writer said the data set was made from; the root does not depend on it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Self

from .errors import DataError, DatasetExistsError, ShardNotFoundError
from .processors import count_cpus
from .tfds import DatasetInfo, shard_paths
from .tfds.info import EMPTY_SPLITS_FILE, FEATURES_FILE, INFO_FILE, LICENSE_FILE, METADATA_FILE
from .tfds.labels import LABELS_SUFFIX

__all__ = [
    "MANIFEST_FILE",
    "FileEntry",
    "Manifest",
    "content_files",
    "describe_file",
    "make_manifest",
    "write_manifest",
]

MANIFEST_FILE = "arrayfeed.json"

_DESCRIBING = {INFO_FILE, FEATURES_FILE, METADATA_FILE, EMPTY_SPLITS_FILE, LICENSE_FILE}
_VERSION = 1
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class FileEntry:
    """What one file should be.

    Attributes:
      bytes: Its size.
      sha256: Of all of it, 64 hexadecimal digits.
      records: How many it holds; None for a file that is no shard.
      metadata: What its writer said of this shard: anything that JSON holds.
    """

    bytes: int
    sha256: str
    records: int | None = None
    metadata: Any = None

    def to_json(self) -> dict[str, Any]:
        """Return the entry as the manifest has it."""
        form: dict[str, Any] = {"bytes": self.bytes, "sha256": self.sha256}
        if self.records is not None:
            form["records"] = self.records
        if self.metadata is not None:
            form["metadata"] = self.metadata
        return form

    @classmethod
    def from_json(cls, form: Any) -> Self:
        """Return the entry that ``to_json`` gave.

        Raises:
          ValueError: It is none.
        """
        records = form.get("records") if isinstance(form, dict) else -1
        if not (
            isinstance(form, dict)
            and form.keys() <= {"bytes", "sha256", "records", "metadata"}
            and _is_count(form.get("bytes"))
            and (records is None or _is_count(records))
            and isinstance(form.get("sha256"), str)
        ):
            raise ValueError(f"no description of a file: {str(form)[:80]!r}")
        return cls(form["bytes"], form["sha256"], records, form.get("metadata"))


@dataclass(frozen=True, slots=True)
class Manifest:
    """What all files of a data set should be, by their names below its directory.

    Attributes:
      fingerprint: Of what it was made from, as its writer said; empty if it said nothing.
    """

    files: Mapping[str, FileEntry]
    fingerprint: str = ""

    @property
    def root(self) -> str:
        """The hash that pins the data set: 64 hexadecimal digits."""
        form = {name: entry.to_json() for name, entry in self.files.items()}
        text = json.dumps(form, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the manifest to a file, whole or not at all, and on the disk."""
        files = {name: entry.to_json() for name, entry in sorted(self.files.items())}
        form: dict[str, Any] = {"arrayfeed": _VERSION, "root": self.root, "files": files}
        if self.fingerprint:
            form["fingerprint"] = self.fingerprint
        temporary = f"{os.fspath(path)}.tmp"
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(form, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self | None:
        """Return the manifest in a file, or None where there is no such file.

        Raises:
          DataError: It is no manifest, or was changed since it was written: its root is not that of its files.
        """
        try:
            data = Path(path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            form = json.loads(data)
            if not isinstance(form, dict) or form.get("arrayfeed") != _VERSION or not isinstance(form.get("files"), dict):
                raise ValueError(f"no manifest of version {_VERSION}")
            files = {_check_name(name): FileEntry.from_json(entry) for name, entry in form["files"].items()}
            manifest = cls(files, str(form.get("fingerprint", "")))
            root = manifest.root
        except (ValueError, RecursionError) as error:
            raise DataError(f"cannot be understood: {error}", os.fspath(path)) from None
        if root != form.get("root"):
            raise DataError(
                f"it was edited or damaged: it states the root {str(form.get('root'))[:64]!r}, its files give {root}",
                os.fspath(path),
            )
        return manifest


def content_files(directory: str | os.PathLike[str], info: DatasetInfo) -> dict[str, int | None]:
    """Return the names of the files that make up a data set, with the records of those that are shards.

    Shards are listed whether they are there or not; of the describing files, those that are.

    Raises:
      DatasetNotFoundError, SchemaError: As ``shard_paths``.
    """
    files: dict[str, int | None] = {}
    for split in info.splits:
        for path, records in zip(shard_paths("", info, split.name), split.shard_lengths, strict=True):
            files[path.as_posix()] = records
    for name in os.listdir(directory):
        if name in _DESCRIBING or name.endswith(LABELS_SUFFIX):
            files[name] = None
    return files


def describe_file(
    path: str | os.PathLike[str], records: int | None = None, metadata: Any = None, *, tick: Callable[[int], None] | None = None
) -> FileEntry:
    """Return what a file is, having read all of it.

    Args:
      tick: Is told of every block how many bytes it had.
    """
    digest = hashlib.sha256()
    total = 0
    buffer = memoryview(bytearray(_BLOCK_BYTES))
    with open(path, "rb", buffering=0) as file:
        while size := file.readinto(buffer):
            digest.update(buffer[:size])
            total += size
            if tick is not None:
                tick(size)
    return FileEntry(total, digest.hexdigest(), records, metadata)


def make_manifest(directory: str | os.PathLike[str], info: DatasetInfo) -> Manifest:
    """Return the manifest of files as they are, having read all of them, several at a time.

    Raises:
      ShardNotFoundError: A shard is missing.
    """

    def describe(item: tuple[str, int | None]) -> FileEntry:
        path = os.path.join(directory, item[0])
        try:
            return describe_file(path, item[1])
        except FileNotFoundError:
            raise ShardNotFoundError("this shard is missing; copy the data set again, or write it again", path) from None

    files = sorted(content_files(directory, info).items())
    # Threads, because hashing does not hold the interpreter's lock.
    with ThreadPoolExecutor(count_cpus()) as threads:
        return Manifest(dict(zip((name for name, _ in files), threads.map(describe, files), strict=True)))


def write_manifest(directory: str | os.PathLike[str]) -> str:
    """Write the manifest of a data set that others wrote, which has none, and return its root.

    Raises:
      DatasetExistsError: It has one.
      DataError: There is no data set, or a shard of it is missing.
    """
    target = os.path.join(directory, MANIFEST_FILE)
    if os.path.lexists(target):
        raise DatasetExistsError("there is a manifest; verify the data set against it, or delete it first", target)
    manifest = make_manifest(directory, DatasetInfo.read(directory))
    manifest.write(target)
    return manifest.root


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _check_name(name: str) -> str:
    """Return ``name`` if it is that of a file below the directory: a manifest may come from anywhere."""
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in name:
        raise ValueError(f"{name!r} is no name of a file in this directory")
    return name
