"""The two kinds of directory that conversions end in: data sets, and bare ArrayRecord files."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from ..features import FeaturesDict
from ..manifest import FileEntry
from ..tfds import DatasetInfo
from ..tfds.filenames import shard_filename
from ..writing import DatasetWriter
from ..writing.assemble import link_or_rename
from ..writing.checks import default_name
from ..writing.parts import finished_parts, read_part, remove_parts
from ..writing.shards import WrittenShard

__all__ = ["BareWriter", "DescribedWriter"]

#: Fields of a description that options may replace, and those that are about the files it was read with.
_KEPT = ("name", "version", "description", "citation", "license", "metadata", "supervised_keys")
_OF_FILES: dict[str, Any] = {"splits": (), "file_format": "array_record", "alternative_file_formats": ()}


class DescribedWriter(DatasetWriter):
    """Writes a data set that takes over another's description, but for what is given here.

    Args:
      info: The other's description; None for none.
      options: As ``DatasetWriter`` takes them.
    """

    def __init__(self, path: str, features: FeaturesDict, info: DatasetInfo | None, **options: Any) -> None:
        kept = () if info is None else _KEPT
        options = {name: getattr(info, name) for name in kept} | options
        self._other = info
        super().__init__(path, features, **options)

    def _describe_before(self, splits: dict[str, list[WrittenShard]]) -> tuple[DatasetInfo, dict[str, FileEntry]]:
        info, entries = super()._describe_before(splits)
        if self._other is None:
            return info, entries
        given = {field: getattr(info, field) for field in (*_KEPT, "features")}
        return dataclasses.replace(self._other, **given, **_OF_FILES), entries


class BareWriter(DatasetWriter):
    """Writes ArrayRecord files without a description, whose records are not looked at.

        <path>/<name>-<split>.array_record-00000-of-00004 ...     name as of a data set

    Args:
      options: As ``DatasetWriter`` takes them.
    """

    def __init__(self, path: str, **options: Any) -> None:
        super().__init__(path, FeaturesDict({}), **options)

    def _publish(self) -> None:
        splits = {name: split.shards for name, split in self._splits.items()}
        for number in sorted(finished_parts(self.directory)):
            for name, shards in read_part(self.directory, number).items():
                splits.setdefault(name, []).extend(shards)
        dataset = self._given.get("name") or default_name(self.path)
        for name, shards in splits.items():
            for number, shard in enumerate(shards):
                final = shard_filename(number, len(shards), dataset=dataset, split=name, file_format="array_record")
                link_or_rename(shard.path, os.path.join(self.directory, final))
        remove_parts(self.directory)
        self._staging.publish(without="arrayfeed.plan.json")
