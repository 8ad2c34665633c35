"""``verify``: a data set's directory against its manifest, its description and itself."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

import numpy as np

from ..arrayrecord import ArrayRecordDataSource
from ..errors import DataError, DatasetNotFoundError
from ..indexing import index_path
from ..manifest import MANIFEST_FILE, FileEntry, Manifest, content_files, describe_file
from ..processors import count_cpus
from ..progress import show_progress
from ..shards import Shard
from ..tasks import run_tasks
from ..tfds import DatasetInfo, shard_paths
from ..tfds.info import INFO_FILE
from ..writing.publish import find_leftovers
from .overlap import Hashes, find_overlaps
from .report import Overlap, Problem, Verification
from .shard_check import CheckedShard, ShardTask, check_shard, compare

__all__ = ["verify"]

Path = str | os.PathLike[str]

#: Processes start in 0.3 s, in which one hashes and decodes so much.
_WORTH_WORKERS_BYTES = 64 << 20


def verify(
    directory: Path,
    *,
    quick: bool = False,
    overlap: bool = False,
    root: str | None = None,
    num_workers: int | None = None,
    progress: bool = False,
) -> Verification:
    """Check a data set from end to end, and return what is wrong with it.

    Every file against its size and SHA-256 in the manifest, every shard's footer against the description, every record
    against its CRC32C in the record index, and whether it decodes. Where a shard is not what was written, or there is no
    manifest or index to say so, the hashes that ArrayRecord keeps of each of its chunks tell which records are damaged.
    Nothing is changed; a data set that others wrote can be verified, too.

    Args:
      directory: Holds ``dataset_info.json``.
      quick: Look at the files' sizes and the manifest's own root only; no file is read.
      overlap: Also look for records that stand, byte for byte, in two splits. Takes 24 bytes of memory a record.
      root: What the root is expected to be, from a paper or a log: 64 hexadecimal digits.
      num_workers: Processes, each at a shard; None for as many as there are processors, and none for small data sets.
      progress: Show a bar (needs tqdm).

    Raises:
      DatasetNotFoundError: There is no data set at all.
      ValueError: ``root`` is none, or both ``quick`` and ``overlap`` are asked for.
    """
    if root is not None and not re.fullmatch("[0-9a-fA-F]{64}", root):
        raise ValueError(f"root must be 64 hexadecimal digits, got {root!r}")
    if quick and overlap:
        raise ValueError("overlaps are found by reading all records, which quick=True does not")
    check = _Check(os.fspath(directory))
    overlaps: list[Overlap] = []
    if quick:
        check.compare_sizes()
    else:
        check.check_files()
        hashes = check.check_shards(overlap, num_workers, progress)
        if overlap:
            overlaps = check.find_overlaps(hashes)
    found_root = check.root(quick)
    if root is not None and found_root != root.lower():
        check.complain("", f"the root is {found_root or 'unknown'}, {root.lower()} was expected: this is not that data set")
    return Verification(
        check.directory,
        found_root,
        tuple(check.problems),
        tuple(overlaps),
        tuple(check.warnings),
        len(check.expected),
        sum(records or 0 for records in check.content.values()),
        sum(entry.bytes for entry in check.found.values()),
    )


class _Check:
    """A verification under way.

    Attributes:
      content: Every file of the data set, with the records of those that are shards.
      expected: What the manifest says of each; None where it says nothing.
      found: What each is, as far as that is known yet; of those that are there.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self.found: dict[str, FileEntry] = {}
        self.manifest = self._read_manifest()
        self.info, described = self._read_info()
        listed = {} if self.manifest is None else self.manifest.files
        self.content = {name: entry.records for name, entry in listed.items()}
        self.content.update(described)
        self.expected: dict[str, FileEntry | None] = {name: listed.get(name) for name in self.content}
        if self.manifest is not None:
            for name in self.content.keys() - listed.keys():
                self.complain(name, "it belongs to the data set, but is not in its manifest")
        elif not self.problems:
            self._warn("", f"there is no {MANIFEST_FILE}: what the files should be is not known")
        self._look_around()

    def complain(self, file: str, message: str, record: int | None = None) -> None:
        """Note a problem."""
        self.problems.append(Problem(file, record, message))

    def _warn(self, file: str, message: str) -> None:
        self.warnings.append(Problem(file, None, message))

    # -- what there is --------------------------------------------------------------------------------------------

    def _read_manifest(self) -> Manifest | None:
        try:
            return Manifest.read(os.path.join(self.directory, MANIFEST_FILE))
        except DataError as error:
            self.complain(MANIFEST_FILE, error.message)
            return None

    def _read_info(self) -> tuple[DatasetInfo | None, dict[str, int | None]]:
        """Return the description and the files that it leads to."""
        try:
            info = DatasetInfo.read(self.directory)
            return info, content_files(self.directory, info)
        except DatasetNotFoundError as error:
            if self.manifest is None:
                raise
            self.complain("", error.message)
        except DataError as error:
            self.complain(os.path.basename(error.path or "") or INFO_FILE, error.message)
        return None, {}

    def _look_around(self) -> None:
        """Warn of files that do not belong to the data set, and of what interrupted writers left beside it."""
        known = {name.partition("/")[0] for name in self.content} | {MANIFEST_FILE}
        if self.info is not None:
            known |= {index_path("", self.info, split.name).name for split in self.info.splits}
        for name in sorted(set(os.listdir(self.directory)) - known):
            self._warn(name, "it does not belong to the data set")
        for leftover in find_leftovers(self.directory):
            state = "is being written" if leftover.alive else "was left by an interrupted writer, remove_leftovers() deletes it"
            self._warn("", f"{leftover.directory} {state}")

    # -- against the manifest -------------------------------------------------------------------------------------

    def compare_sizes(self) -> None:
        """Compare the files' sizes, and open none of them."""
        for name, entry in self.expected.items():
            try:
                size = os.stat(os.path.join(self.directory, name)).st_size
            except OSError as error:
                self.complain(name, _missing(error))
                continue
            expected = entry or FileEntry(size, "", self.content[name])
            self.found[name] = FileEntry(size, expected.sha256, self.content[name], expected.metadata)
            self.problems += compare(name, expected, self.found[name])

    def check_files(self) -> None:
        """Compare size and hash of all files that are no shards."""
        for name in sorted(name for name, records in self.content.items() if records is None):
            try:
                self.found[name] = describe_file(os.path.join(self.directory, name))
            except OSError as error:
                self.complain(name, _missing(error))
                continue
            self.problems += compare(name, self.expected[name], self.found[name])

    def root(self, quick: bool) -> str:
        """Return the root of the files as they are; of what the manifest says they are, if they were not read."""
        if quick:
            return "" if self.manifest is None else self.manifest.root
        return Manifest(self.found).root if self.found.keys() == self.content.keys() else ""

    # -- shard by shard -------------------------------------------------------------------------------------------

    def check_shards(self, hash_records: bool, num_workers: int | None, progress: bool) -> dict[str, Hashes]:
        """Check every shard and every record, and return the records' hashes, split by split, where that is possible."""
        tasks, splits = self._make_tasks(hash_records)
        total = sum(map(_file_bytes, tasks))
        if num_workers is None:
            num_workers = count_cpus() if total >= _WORTH_WORKERS_BYTES and len(tasks) > 1 else 0
        with show_progress(progress, total=2 * total, unit="B", what="verify") as tick:
            checked = run_tasks(check_shard, tasks, num_workers=num_workers, tick=tick, describe=lambda task: task.name)
        hashes: dict[str, list[Hashes]] = {}
        for task, split, shard in zip(tasks, splits, checked, strict=True):
            self.problems += self._recognise(task, shard)
            if shard.found is not None:
                self.found[task.name] = shard.found
            if hash_records and split:
                hashes.setdefault(split, []).append(shard.hashes)
        counts = {split.name: split.num_records for split in self.info.splits} if self.info else {}
        found = {split: np.concatenate(parts) for split, parts in hashes.items()}
        return {split: found[split] for split, count in counts.items() if split in found and found[split].size == count}

    def _make_tasks(self, hash_records: bool) -> tuple[list[ShardTask], list[str]]:
        """Return a task for each shard, and the split that it belongs to: none, for a file that only the manifest knows."""
        split_of: dict[str, str] = {}
        indexes: dict[str, str] = {}
        for split in self.info.splits if self.info else ():
            assert self.info is not None
            split_of.update((path.as_posix(), split.name) for path in shard_paths("", self.info, split.name))
            path = os.fspath(index_path(self.directory, self.info, split.name))
            indexes[split.name] = path if os.path.exists(path) else ""
        names = [name for name, records in self.content.items() if records is not None]
        tasks = [
            ShardTask(
                self.directory,
                name,
                self.info.features if self.info and name in split_of else None,
                self.content[name] or 0,
                self.expected[name],
                indexes.get(split_of.get(name, ""), ""),
                hash_records,
            )
            for name in names
        ]
        return tasks, [split_of.get(name, "") for name in names]

    def _recognise(self, task: ShardTask, shard: CheckedShard) -> list[Problem]:
        """Return a shard's problems; of one that has the place of another, that it has."""
        found = shard.found
        if found is None or task.entry is None or found.sha256 == task.entry.sha256:
            return shard.problems
        for name, entry in self.expected.items():
            if entry is not None and entry.sha256 == found.sha256:
                message = f"this is what was written as {name}: files were exchanged"
                return [Problem(task.name, None, message), *shard.problems[1:]]
        return shard.problems

    def find_overlaps(self, hashes: dict[str, Hashes]) -> list[Overlap]:
        """Return what splits have in common, of those whose records could all be read."""
        info = self.info
        if info is None:
            return []
        for split in info.splits:
            if split.name not in hashes:
                self._warn("", f"split {split.name!r} was not compared with the others, because it cannot be read")
        sources = {}
        for split in info.splits:
            shards = [Shard(os.fspath(path)) for path in shard_paths(self.directory, info, split.name)]
            sources[split.name] = ArrayRecordDataSource.from_lengths(shards, split.shard_lengths, io="pread")

        def read(split: str, indices: Sequence[int]) -> list[bytes]:
            return sources[split].__getitems__(indices)

        return find_overlaps(hashes, read)


def _missing(error: OSError) -> str:
    return "it is missing" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"


def _file_bytes(task: ShardTask) -> int:
    try:
        return os.stat(os.path.join(task.directory, task.name)).st_size
    except OSError:
        return 0
