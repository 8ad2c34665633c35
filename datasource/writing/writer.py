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
from typing import Any, Literal

from ..errors import DataError, SchemaError
from ..features import FeaturesDict
from ..features.features_dict import FeatureLike
from ..manifest import FileEntry
from ..tfds import DatasetInfo
from ..tfds.info import SupervisedKeys
from ..tfds.labels import collect_labels, write_labels
from . import parts
from .assemble import describe_dataset, place_shards
from .checks import check_metadata, check_name, check_version, default_name
from .codec import AUTO
from .encoder import RecordEncoder
from .example_writer import ExampleWriter
from .existing import Existing
from .inference import warn_of_inference
from .limits import ShardLimits
from .parts import PartWriter
from .publish import Staging, find_leftovers, is_blank
from .replacing import Replaced
from .shards import WrittenShard

__all__ = ["DatasetWriter"]

# What is written here, for whoever goes on after an interruption.
_PLAN = "arrayfeed.plan.json"


class DatasetWriter(ExampleWriter):
    """Writes a data set: a directory of ArrayRecord shards with their description, just as TFDS lays it out.

        with DatasetWriter("digits", {"image": Image(shape=(8, 8, 1)), "label": ClassLabel(10)}) as writer:
            writer.write({"image": pixels, "label": 3}, split="train")
            writer.write_columns({"image": images, "label": labels}, split="test")

        with DatasetWriter("digits", mode="append") as writer:
            writer.write_columns({"image": more, "label": others}, split="train")

    The directory appears under its name when the block ends, whole and on the disk. Until then everything is written
    beside it, in ``<path>.incomplete-...``; an exception in the block removes that, a killed process leaves it behind,
    and in neither case is there anything to open at ``path``. Nothing that exists is ever overwritten.

    What is appended to opens as it was until the block ends, and as the new one from then on; no moment between. Its shards
    are not copied but linked. Whoever has it open reads on, but where a split has grown, shards have other names: open it
    again.

    Threads may share a writer (whose example comes first is then up to them). A forked child must not use it. Not
    picklable. Many may write at once, each a ``part`` of its own.

    Args:
      path: The directory to be. Its parents are made; it may exist if it is empty.
      features: What an example is made of: a ``FeaturesDict`` or a dict for one. None tells it from the first example (see
        ``infer_features``), says so in a warning, and holds the others to it; to append, it is what it was.
      mode: "create", or "append" for more shards of the data set at ``path``, or more splits.
      name: Begins the names of the shards; made from ``path`` if not given. This and what follows is, to append, what it
        was if not given; the name cannot be another.
      version: "MAJOR.MINOR.PATCH"; "1.0.0" if not given.
      description, citation, license: For people.
      metadata: Anything that JSON holds; comes back as ``DatasetInfo.metadata``.
      supervised_keys: The features that are a model's input and target: ``("image", "label")``.
      shard_bytes: A shard is full when the next record would take its records past this, before compression. 100 MB if
        neither limit is given.
      shard_records: A shard is full with so many records.
      codec: ``"auto"`` (zstd where it saves a quarter or more of a split's first records, else none), ``"none"``,
        ``"zstd[:level]"``, ``"brotli[:level]"`` or ``"snappy"``.
      fingerprint: Of what the data set is made from, to be found in its manifest; see ``write_dataset``.
      resume: Go on with what an interrupted writer of the same features, limits, codec and ``plan`` left: the parts that it
        had finished are kept, see ``finished_parts``. And if this one is ended by an exception, leave them in turn.
      plan: What else decides what is in which part: anything that JSON holds.

    Attributes:
      root: The hash that pins the data set, once it is closed; see ``manifest``.

    Raises:
      DatasetExistsError: There is something at ``path``.
      DatasetNotFoundError: There is nothing to append to.
      DataError: What there is cannot be appended to: it is damaged, or somebody else appends to it.
      SchemaError: The features cannot be stored, or are others than those of what is appended to.
      ValueError, TypeError: Another argument is not as described; names it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        features: FeaturesDict | Mapping[str, FeatureLike] | None = None,
        *,
        mode: Literal["create", "append"] = "create",
        name: str | None = None,
        version: str | None = None,
        description: str | None = None,
        citation: str | None = None,
        license: str | None = None,
        metadata: Any = None,
        supervised_keys: SupervisedKeys | None = None,
        shard_bytes: int | None = None,
        shard_records: int | None = None,
        codec: str = AUTO,
        fingerprint: str = "",
        resume: bool = False,
        plan: Any = None,
    ) -> None:
        self.path = os.fspath(path)
        self.root = ""
        if features is not None and not isinstance(features, FeaturesDict):
            features = FeaturesDict(features)
        super().__init__(features, ShardLimits.check(shard_bytes, shard_records, codec))
        if mode not in ("create", "append"):
            raise ValueError(f"mode must be 'create' or 'append', got {mode!r}")
        if resume and features is None and mode == "create":
            raise ValueError("to resume, features must be given: they decide whether what was left fits")
        check_metadata(metadata)
        check_metadata(plan, "plan")
        given = {
            "name": None if name is None else check_name(name),
            "version": None if version is None else check_version(version),
            "description": description,
            "citation": citation,
            "license": license,
            "metadata": metadata,
            "supervised_keys": supervised_keys,
        }
        self._given = {key: value for key, value in given.items() if value is not None}
        self._fingerprint = fingerprint
        self._resume = resume
        self._existing: Existing | None = None
        replaced = Replaced(os.path.realpath(path)) if mode == "append" else None
        try:
            if replaced is not None:
                self._existing = Existing.read(replaced.target)
                self._take_features(self._existing.info)
            text = self._format_plan(plan)

            def adopt(found: str) -> bool:
                return resume and (_read(found, _PLAN) == text or is_blank(found))

            self._staging = Staging(path, adopt=adopt, replaced=replaced)
        except BaseException:
            if replaced is not None:
                replaced.release()
            raise
        self._state = "open"
        try:
            # What was finished stays; the rest is as good as never begun.
            parts.remove_unfinished(self.directory, but=_PLAN)
            if _read(self.directory, _PLAN) != text:  # else it stays: without it, nobody could go on with what is there
                Path(self.directory, _PLAN).write_text(text, "utf-8")
            self._warn_of_leftovers()
            if self._features is not None:
                # Names that cannot be stored are found now, not after hours of writing.
                write_labels(self._features, self.directory)
        except BaseException:
            self.abort()
            raise

    def _take_features(self, info: DatasetInfo) -> None:
        """Take over the features of what is appended to; others would not do."""
        if self._features is not None and (
            self._features != info.features or collect_labels(self._features) != collect_labels(info.features)
        ):
            raise SchemaError(f"the data set has other features, {info.features!r}; leave them out to append", self.path)
        if self._given.get("name", info.name) != info.name:
            raise ValueError(f"the data set is called {info.name!r}, and cannot be called {self._given['name']!r} from now on")
        self._settle_features(info.features)

    def _infer(self, example: Mapping[str, Any]) -> RecordEncoder:
        encoder = super()._infer(example)
        warn_of_inference(self.path, self.features, stacklevel=3)
        return encoder

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

        Raises:
          ValueError: It is less; or the features are not known yet.
        """
        number = operator.index(number)
        if number < 0:
            raise ValueError(f"parts are numbered from 0, got {number}")
        features = self.features
        with self._lock:
            self._ensure_open()
            parts.mark_wanted(self.directory, number)
        return PartWriter(self.directory, number, features, self._limits)

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
            split.finish()
            splits[name] = split.shards
        for number in sorted(parts.finished_parts(self.directory)):
            for name, shards in parts.read_part(self.directory, number).items():
                splits.setdefault(name, []).extend(shards)
        info, entries = self._describe_before(splits)
        info, placed = place_shards(self.directory, info, splits)
        if self._existing is not None:
            self._existing.link_rest(self.directory, splits)
        self.root = describe_dataset(self.directory, info, {**entries, **placed}, self._fingerprint).root
        # As late as can be: a writer that is killed before it is done can go on from its parts.
        parts.remove_parts(self.directory)
        self._staging.publish(without=_PLAN)

    def _describe_before(self, splits: dict[str, list[WrittenShard]]) -> tuple[DatasetInfo, dict[str, FileEntry]]:
        """Return the description without what was written, and put the shards that a split had in front of its new ones."""
        if self._existing is None:
            name = self._given.get("name") or default_name(self.path)
            return DatasetInfo(**{"version": "1.0.0", **self._given, "name": name, "features": self.features}), {}
        entries = self._existing.entries()
        old = {split.name for split in self._existing.info.splits}
        for name in splits.keys() & old:
            splits[name][:0] = self._existing.link_split(name, self.directory, entries)
        return dataclasses.replace(self._existing.info, **self._given), entries

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
        form = {"limits": dataclasses.asdict(self._limits), "plan": plan}
        if self._features is not None:
            form |= {"features": self._features.to_json(), "labels": collect_labels(self._features)}
        if self._existing is not None:
            form["appends_to"] = self._existing.identity
        return json.dumps(form, sort_keys=True)

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
