"""Examples in, a data set out."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterable, Mapping, Sequence, Sized
from types import TracebackType
from typing import Any, Self

from ..errors import DataError, DatasetExistsError, SchemaError
from ..features import FeaturesDict
from ..features.features_dict import FeatureLike
from ..tfds import DatasetInfo
from ..tfds.filenames import check_split_name
from ..tfds.info import SupervisedKeys
from ..tfds.labels import write_labels
from .assemble import assemble
from .checks import check_limit, check_metadata, check_name, check_version, default_name
from .codec import AUTO, check_codec
from .columns import count_rows, slice_rows
from .encoder import RecordEncoder
from .publish import Staging, find_leftovers
from .shards import GrowingSplit

__all__ = ["DatasetWriter"]

# About what object stores and file systems like best, and few enough files at a terabyte.
_SHARD_BYTES = 100_000_000
# Rows that are encoded before they are written: a few MB of small records.
_BLOCK_ROWS = 1024


class DatasetWriter:
    """Writes a data set: a directory of ArrayRecord shards with their description, just as TFDS lays it out.

        with DatasetWriter("digits", {"image": Image(shape=(8, 8, 1)), "label": ClassLabel(10)}) as writer:
            writer.write({"image": pixels, "label": 3}, split="train")
            writer.write_columns({"image": images, "label": labels}, split="test")

    The directory appears under its name when the block ends, whole and on the disk. Until then everything is written
    beside it, in ``<path>.incomplete-...``; an exception in the block removes that, a killed process leaves it behind,
    and in neither case is there anything to open at ``path``. Nothing that exists is ever overwritten.

    Threads may share a writer (whose example comes first is then up to them). A forked child must not use it. Not
    picklable.

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
    ) -> None:
        self._state = "unmade"
        self.path = os.fspath(path)
        self.features = features if isinstance(features, FeaturesDict) else FeaturesDict(features)
        self._codec = check_codec(codec)
        self._shard_records = check_limit("shard_records", shard_records)
        self._shard_bytes = check_limit("shard_bytes", shard_bytes)
        if shard_bytes is None and shard_records is None:
            self._shard_bytes = _SHARD_BYTES
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
        self._encoder = RecordEncoder(self.features)
        self._splits: dict[str, GrowingSplit] = {}
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._staging = Staging(path)
        self._state = "open"
        try:
            self._warn_of_leftovers()
            # Names that cannot be stored are found now, not after hours of writing.
            write_labels(self.features, self._staging.directory)
        except BaseException:
            self.abort()
            raise

    # -- writing --------------------------------------------------------------------------------------------------

    def write(self, example: Mapping[str, Any], *, split: str = "train") -> None:
        """Add one example to the end of a split.

        Raises:
          SchemaError: The example does not fit the features; names the example and the feature, what was expected, what
            came. Nothing of it is written; the writer goes on.
          DataError: A shard cannot be written; the writer is of no more use.
          ValueError: The writer is closed, or a split cannot be called so.
        """
        try:
            record = self._encoder.encode(example)
        except SchemaError as error:
            raise _explain(error, f"example {self._count(split)} of split {split!r}") from error.__cause__
        with self._lock:
            self._append(split, (record,))

    def write_all(self, examples: Iterable[Mapping[str, Any]], *, split: str = "train", progress: bool = False) -> None:
        """Add examples to the end of a split, which exists afterwards even if there are none.

        Args:
          progress: Show a bar (needs tqdm).

        Raises:
          SchemaError, DataError, ValueError: As ``write``; the examples before the one at fault are written.
        """
        with self._lock:
            self._append(split, ())
        if progress:
            from tqdm import tqdm

            total = len(examples) if isinstance(examples, Sized) else None
            examples = tqdm(examples, desc=split, total=total, unit=" examples")
        for example in examples:
            self.write(example, split=split)

    def write_columns(self, columns: Mapping[str, Any], *, split: str = "train") -> None:
        """Add examples that are given as columns: small ones in two thirds of the time that they take one by one.

        Args:
          columns: As one example, with a leading axis of n everywhere: arrays ``(n, ...)`` or lists of n values.

        Raises:
          SchemaError: The columns differ in length, and nothing is written. Or a row does not fit the features; the
            rows before it are written.
          DataError, ValueError: As ``write``.
        """
        count = count_rows(columns)
        with self._lock:
            self._append(split, ())
        for start in range(0, count, _BLOCK_ROWS):
            stop = min(start + _BLOCK_ROWS, count)
            records: list[bytes] = []
            try:
                records.extend(self._encoder.encode_columns(slice_rows(columns, start, stop), stop - start))
            except SchemaError as error:
                raise _explain(error, f"row {start + len(records)} of {count}") from error.__cause__
            finally:
                with self._lock:
                    self._append(split, records)

    def _append(self, name: str, records: Sequence[bytes]) -> None:
        """Add records to a split, which is made if need be; the lock is held."""
        if self._state != "open" or os.getpid() != self._owner:
            raise self._refusal()
        split = self._splits.get(name)
        if split is None:
            split = self._splits[name] = GrowingSplit(
                self._staging.directory,
                check_split_name(name),
                shard_bytes=self._shard_bytes,
                shard_records=self._shard_records,
                codec=self._codec,
            )
        try:
            split.extend(records)
        except BaseException:
            # What of the shard is on the disk is unknown now.
            self._state = "failed"
            raise

    def _refusal(self) -> Exception:
        if os.getpid() != self._owner:
            return RuntimeError(f"{self!r} belongs to process {self._owner}; make one writer in one process")
        if self._state == "failed":
            return DataError("writing failed before, this data set cannot be finished; start again", self.path)
        return ValueError(f"{self!r} takes no more examples")

    def _count(self, split: str) -> int:
        return self._splits[split].num_records if split in self._splits else 0

    # -- ending ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Finish the shards, check them, and publish the data set. A second time it does nothing.

        Raises:
          DataError: A shard cannot be written, or does not hold what it should; nothing is published.
          DatasetExistsError: Something appeared at ``path`` meanwhile. The finished data set is where the error says.
        """
        with self._lock:
            if self._state in ("closed", "aborted"):
                return
            if self._state != "open" or os.getpid() != self._owner:
                raise self._refusal()
            try:
                for split in self._splits.values():
                    split.finish()
                assemble(self._staging.directory, self._info, {name: split.shards for name, split in self._splits.items()})
                self._staging.publish()
            except DatasetExistsError:
                self._state = "closed"
                raise
            except BaseException:
                self._abandon()
                raise
            self._state = "closed"

    def abort(self) -> None:
        """Remove all that was written; nothing is published. After ``close`` it does nothing."""
        with self._lock:
            self._abandon()

    def _abandon(self) -> None:
        if self._state in ("open", "failed") and os.getpid() == self._owner:
            self._state = "aborted"
            for split in self._splits.values():
                split.abandon()
            self._staging.discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        forgotten = self._state == "open" and os.getpid() == self._owner
        self._abandon()
        if forgotten:
            warnings.warn(f"{self!r} was dropped without close(); nothing is published", ResourceWarning, stacklevel=1)

    # -- telling --------------------------------------------------------------------------------------------------

    @property
    def num_records(self) -> dict[str, int]:
        """Examples written so far, by split."""
        return {name: split.num_records for name, split in self._splits.items()}

    def _warn_of_leftovers(self) -> None:
        dead = [leftover.directory for leftover in find_leftovers(self.path) if not leftover.alive]
        if dead:
            warnings.warn(
                f"{self.path}: an earlier run was interrupted and left {', '.join(dead)}; "
                "arrayfeed.datasource.writing.remove_leftovers(path) deletes it",
                stacklevel=3,
            )

    def __repr__(self) -> str:
        counts = ", ".join(f"{name}: {count}" for name, count in self.num_records.items()) or "nothing yet"
        return f"<DatasetWriter to {self.path!r}, {self._state}, {counts}>"


def _explain(error: SchemaError, where: str) -> SchemaError:
    """Return ``error`` with the example at fault in front."""
    return SchemaError(f"{where}: {error.message}. It was not written")
