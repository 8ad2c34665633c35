"""Examples in, a data set out."""

from __future__ import annotations

import dataclasses
import json
import operator
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from ..errors import DataError
from ..features import FeaturesDict
from ..features.features_dict import FeatureLike
from ..tfds import DatasetInfo
from ..tfds.info import SupervisedKeys
from ..tfds.labels import collect_labels, write_labels
from . import parts
from .assemble import assemble, make_empty_shard
from .checks import check_metadata, check_name, check_version, default_name
from .codec import AUTO
from .example_writer import ExampleWriter, ShardLimits
from .parts import PartWriter
from .publish import Staging, find_leftovers
from .shards import WrittenShard

__all__ = ["DatasetWriter"]

# What is written here, for whoever goes on after an interruption.
_PLAN = "plan.json"


class DatasetWriter(ExampleWriter):
    """Writes a data set: a directory of ArrayRecord shards with their description, just as TFDS lays it out.

        with DatasetWriter("digits", {"image": Image(shape=(8, 8, 1)), "label": ClassLabel(10)}) as writer:
            writer.write({"image": pixels, "label": 3}, split="train")
            writer.write_columns({"image": images, "label": labels}, split="test")

    The directory appears under its name when the block ends, whole and on the disk. Until then everything is written
    beside it, in ``<path>.incomplete-...``; an exception in the block removes that, a killed process leaves it behind,
    and in neither case is there anything to open at ``path``. Nothing that exists is ever overwritten.

    Threads may share a writer (whose example comes first is then up to them). A forked child must not use it. Not
    picklable. Many may write at once, each a ``part`` of its own.

    Args:
      path: The directory to be. Its parents are made; it may exist if it is empty.
      features: What an example is made of: a ``FeaturesDict`` or a dict for one.
      name: Begins the names of the shards; made from ``path`` if not given.
      version: "MAJOR.MINOR.PATCH".
      description, citation, license: For people.
      metadata: Anything that JSON holds; comes back as ``DatasetInfo.metadata``.
      supervised_keys: The features that are a model's input and target: ``("image", "label")``.
      shard_bytes: A shard is full when the next record would take its records past this, before compression. 100 MB if
        neither limit is given.
      shard_records: A shard is full with so many records.
      codec: ``"auto"`` (zstd where it saves a quarter or more of a split's first records, else none), ``"none"``,
        ``"zstd[:level]"``, ``"brotli[:level]"`` or ``"snappy"``.
      resume: Go on with what an interrupted writer of the same features, limits, codec and ``plan`` left: the parts that it
        had finished are kept, see ``finished_parts``. And if this one is ended by an exception, leave them in turn.
      plan: What else decides what is in which part: anything that JSON holds.

    Attributes:
      root: The hash that pins the data set, once it is closed; see ``manifest``.

    Raises:
      DatasetExistsError: There is something at ``path``.
      SchemaError: The features cannot be stored.
      ValueError, TypeError: Another argument is not as described; names it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        features: FeaturesDict | Mapping[str, FeatureLike],
        *,
        name: str | None = None,
        version: str = "1.0.0",
        description: str = "",
        citation: str = "",
        license: str = "",
        metadata: Any = None,
        supervised_keys: SupervisedKeys | None = None,
        shard_bytes: int | None = None,
        shard_records: int | None = None,
        codec: str = AUTO,
        resume: bool = False,
        plan: Any = None,
    ) -> None:
        self.path = os.fspath(path)
        super().__init__(
            features if isinstance(features, FeaturesDict) else FeaturesDict(features),
            ShardLimits.check(shard_bytes, shard_records, codec),
        )
        check_metadata(metadata)
        self._info = DatasetInfo(
            name=default_name(self.path) if name is None else check_name(name),
            version=check_version(version),
            features=self.features,
            description=description,
            citation=citation,
            license=license,
            metadata=metadata,
            supervised_keys=supervised_keys,
        )
        check_metadata(plan, "plan")
        self._resume = resume
        self.root = ""
        text = self._format_plan(plan)
        self._staging = Staging(path, adopt=lambda directory: resume and _read(directory, _PLAN) == text)
        self._state = "open"
        try:
            # What was finished stays; the rest is as good as never begun.
            parts.remove_unfinished(self.directory)
            Path(self.directory, _PLAN).write_text(text, "utf-8")
            self._warn_of_leftovers()
            # Names that cannot be stored are found now, not after hours of writing.
            write_labels(self.features, self.directory)
        except BaseException:
            self.abort()
            raise

    @property
    def directory(self) -> str:
        """Where everything is until it is published."""
        return self._staging.directory

    # -- parts ----------------------------------------------------------------------------------------------------

    def part(self, number: int) -> PartWriter:
        """Return a writer of one part of this data set.

            handles = [writer.part(number) for number in range(4)]    # one a thread, process or machine
            with handles[3] as part:                                  # there
                part.write(example)

        Parts are written independently of each other, in any order, and joined when this writer closes: behind what was
        written to it directly, in the order of their numbers. So what the data set holds does not depend on who was first.
        A part that dies can be asked for and written again. Each begins a shard of its own.

        Args:
          number: 0 or more; numbers may be left out.
        """
        number = operator.index(number)
        if number < 0:
            raise ValueError(f"parts are numbered from 0, got {number}")
        with self._lock:
            self._ensure_open()
            parts.mark_wanted(self.directory, number)
        return PartWriter(self.directory, number, self.features, self._limits)

    @property
    def finished_parts(self) -> frozenset[int]:
        """The numbers of the parts that are finished; with ``resume``, those of the interrupted writer among them."""
        return frozenset(parts.finished_parts(self.directory)) if self._state == "open" else frozenset()

    # -- ending ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Finish the shards, join the parts, check all of it, and publish the data set. A second time it does nothing.

        Raises:
          DataError: A part is not finished: the writer stays open, and can be closed when it is. Or a shard cannot be written,
            or does not hold what it should; nothing is published.
          DatasetExistsError: Something appeared at ``path`` meanwhile. The finished data set is where the error says.
        """
        if self._state == "open" and os.getpid() == self._owner:
            missing = sorted(parts.wanted_parts(self.directory) - parts.finished_parts(self.directory))
            if missing:
                named = ", ".join(map(str, missing[:10])) + ", ..." * (len(missing) > 10)
                raise DataError(
                    f"{len(missing)} parts are not finished: {named}. Write them and close again, or abort()", self.directory
                )
        super().close()

    def _publish(self) -> None:
        splits: dict[str, list[WrittenShard]] = {}
        for name, split in self._splits.items():
            split.finish(may_be_empty=True)
            splits[name] = split.shards
        for number in sorted(parts.finished_parts(self.directory)):
            for name, shards in parts.read_part(self.directory, number).items():
                splits.setdefault(name, []).extend(shards)
        for name, shards in splits.items():
            if not shards:
                shards.append(make_empty_shard(self.directory, name))
        self.root = assemble(self.directory, self._info, splits).root
        parts.remove_parts(self.directory)
        os.remove(os.path.join(self.directory, _PLAN))
        self._staging.publish()

    def _open(self) -> None:
        raise AssertionError("opened when it was made")

    def _discard(self) -> None:
        self._staging.discard()

    def leave(self) -> None:
        """Stop, and leave the finished parts for a writer with ``resume=True``. After ``close`` it does nothing."""
        with self._lock:
            if self._state in ("open", "failed") and os.getpid() == self._owner:
                self._state = "aborted"
                for split in self._splits.values():
                    split.abandon()
                self._staging.leave()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self.close()
        finally:
            # Neither does anything where close() came to an end.
            if self._resume:
                self.leave()
            else:
                self.abort()

    # -- telling --------------------------------------------------------------------------------------------------

    def _format_plan(self, plan: Any) -> str:
        """Return what two writers must share for one to go on with the other's parts."""
        features, labels = self.features.to_json(), collect_labels(self.features)
        limits = dataclasses.asdict(self._limits)
        return json.dumps({"features": features, "labels": labels, "limits": limits, "plan": plan}, sort_keys=True)

    def _warn_of_leftovers(self) -> None:
        dead = [leftover.directory for leftover in find_leftovers(self.path) if not leftover.alive]
        if dead:
            warnings.warn(
                f"{self.path}: an earlier run was interrupted and left {', '.join(dead)}; "
                "arrayfeed.datasource.writing.remove_leftovers(path) deletes it",
                stacklevel=3,
            )

    def __repr__(self) -> str:
        return f"<DatasetWriter to {self.path!r}, {self._describe()}>"


def _read(directory: str, name: str) -> str:
    try:
        return Path(directory, name).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
