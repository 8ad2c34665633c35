"""The two kinds of directory that conversions end in: data sets, and bare ArrayRecord files."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from ..features import FeaturesDict
from ..tfds import DatasetInfo
from ..tfds.filenames import shard_filename
from ..writing import DatasetWriter
from ..writing.assemble import make_empty_shard
from ..writing.parts import finished_parts, read_part, remove_parts

__all__ = ["BareWriter", "DescribedWriter"]

#: Fields of a description that are about the files of the data set it was read from.
_OF_FILES: dict[str, Any] = {"splits": (), "file_format": "array_record", "alternative_file_formats": ()}


class DescribedWriter(DatasetWriter):
    """Writes a data set that takes over another's description, but for what is given here.

    Args:
      info: The other's description; None for none.
      options: As ``DatasetWriter`` takes them.
    """

    def __init__(self, path: str, features: FeaturesDict, info: DatasetInfo | None, **options: Any) -> None:
        kept = () if info is None else ("name", "version", "description", "citation", "license", "metadata", "supervised_keys")
        options = {name: getattr(info, name) for name in kept} | options
        super().__init__(path, features, **options)
        if info is not None:
            given = {field: getattr(self._info, field) for field in (*kept, "features")}
            self._info = dataclasses.replace(info, **given, **_OF_FILES)


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
        for name, shards in splits.items():
            shards = shards or [make_empty_shard(self.directory, name)]
            for number, shard in enumerate(shards):
                final = shard_filename(number, len(shards), dataset=self._info.name, split=name, file_format="array_record")
                os.rename(shard.path, os.path.join(self.directory, final))
        remove_parts(self.directory)
        os.remove(os.path.join(self.directory, "plan.json"))
        self._staging.publish()
