"""What every writer does, of a whole data set or a part of one: examples in, encoded, appended to splits."""

from __future__ import annotations

import dataclasses
import os
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from types import TracebackType
from typing import Any, Literal, Self

from ..errors import DataError, DatasetExistsError, SchemaError
from ..features import FeaturesDict
from ..progress import show_progress
from ..tfds.filenames import check_split_name
from .checks import check_metadata
from .columns import count_rows, slice_rows, take_row
from .encoder import RecordEncoder
from .inference import infer_features
from .keyed import Key, key_bytes
from .limits import ShardLimits
from .shards import GrowingSplit

__all__ = ["ExampleWriter", "State"]

# Rows that are encoded before they are written: a few MB of small records.
_BLOCK_ROWS = 1024

State = Literal["unopened", "open", "failed", "closed", "aborted"]


class ExampleWriter(ABC):
    """Encodes examples and appends them to splits, in files of a directory that the subclass gives.

    Threads may share a writer (whose example comes first is then up to them). A forked child must not use one that is open.

    Args:
      features: What an example is made of; None to tell that from the first example.
    """

    def __init__(self, features: FeaturesDict | None, limits: ShardLimits) -> None:
        self._features: FeaturesDict | None = None
        self._encoder: RecordEncoder | None = None
        if features is not None:
            self._settle_features(features)
        self._limits = limits
        self._splits: dict[str, GrowingSplit] = {}
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._state: State = "unopened"

    @property
    def features(self) -> FeaturesDict:
        """What an example is made of.

        Raises:
          ValueError: That was not said, and there was no example yet.
        """
        if self._features is None:
            raise ValueError("features are told from the first example, and there was none yet")
        return self._features

    # -- what a subclass gives ------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def directory(self) -> str:
        """Where the files are written."""

    @abstractmethod
    def _open(self) -> None:
        """Make the directory; called once, before the first example, the lock held."""

    @abstractmethod
    def _publish(self) -> None:
        """Finish what was written; the lock is held."""

    @abstractmethod
    def _discard(self) -> None:
        """Remove what was written; all files are closed."""

    def _settle_features(self, features: FeaturesDict) -> None:
        """Hold all examples to these features."""
        self._features, self._encoder = features, RecordEncoder(features)

    def _name_example(self, split: str, number: int) -> str:
        """Return how to call the example of that number in an error."""
        return f"example {number} of split {split!r}"

    def _name_row(self, split: str, before: int, row: int, count: int) -> str:
        """Return how to call a row of columns in an error; ``before`` examples of the split came before them."""
        return f"row {row} of {count}"

    # -- writing --------------------------------------------------------------------------------------------------

    def write(self, example: Mapping[str, Any], *, split: str = "train", key: Key | None = None) -> None:
        """Add one example to the end of a split.

        Args:
          key: Shuffles the split: its examples come in the order of their keys' hashes, so in the same order whoever wrote
            what first, and in TFDS's for TFDS's keys. Every example of the split has one, or none has.

        Raises:
          SchemaError: The example does not fit the features; names the example and the feature, what was expected, what
            came. Nothing of it is written; the writer goes on.
          DataError: A shard cannot be written; the writer is of no more use.
          ValueError: The writer is closed, a split cannot be called so, or has examples with keys and others without.
        """
        encoder = self._encoder or self._infer(example)
        try:
            record = encoder.encode(example)
        except SchemaError as error:
            raise _explain(error, self._name_example(split, self._count(split))) from error.__cause__
        with self._lock:
            self._append(split, (record,), None if key is None else (key_bytes(key),))

    def write_all(
        self,
        examples: Iterable[Mapping[str, Any]],
        *,
        split: str = "train",
        key: Callable[[Any], Key] | None = None,
        progress: bool = False,
    ) -> None:
        """Add examples to the end of a split, which exists afterwards even if there are none.

        Args:
          key: Gives an example's key, see ``write``.
          progress: Show a bar (needs tqdm).

        Raises:
          SchemaError, DataError, ValueError: As ``write``; the examples before the one at fault are written.
        """
        with self._lock:
            self._append(split, (), None if key is None else ())
        total = len(examples) if isinstance(examples, Sized) else None
        with show_progress(progress, total=total, unit="examples", what=split) as tick:
            for example in examples:
                self.write(example, split=split, key=None if key is None else key(example))
                tick(1)

    def write_columns(
        self, columns: Mapping[str, Any], *, split: str = "train", keys: Sequence[Key] | None = None, progress: bool = False
    ) -> None:
        """Add examples that are given as columns: small ones in two thirds of the time that they take one by one.

        Args:
          columns: As one example, with a leading axis of n everywhere: arrays ``(n, ...)`` or lists of n values.
          keys: One for each row, see ``write``.
          progress: Show a bar (needs tqdm).

        Raises:
          SchemaError: The columns differ in length, and nothing is written. Or a row does not fit the features; the
            rows before it are written.
          DataError, ValueError: As ``write``.
        """
        count = count_rows(columns)
        hashed = None if keys is None else [key_bytes(key) for key in keys]
        if hashed is not None and len(hashed) != count:
            raise ValueError(f"a key for each of {count} rows expected, got {len(hashed)}")
        with self._lock:
            self._append(split, (), None if hashed is None else ())
            before = self._count(split)
        if not count:
            return
        encoder = self._encoder or self._infer(take_row(columns, 0))
        with show_progress(progress, total=count, unit="examples", what=split) as tick:
            for start in range(0, count, _BLOCK_ROWS):
                stop = min(start + _BLOCK_ROWS, count)
                records: list[bytes] = []
                try:
                    records.extend(encoder.encode_columns(slice_rows(columns, start, stop), stop - start))
                except SchemaError as error:
                    raise _explain(error, self._name_row(split, before, start + len(records), count)) from error.__cause__
                finally:
                    with self._lock:
                        self._append(split, records, None if hashed is None else hashed[start : start + len(records)])
                tick(stop - start)

    def write_records(self, records: Sequence[bytes], *, split: str = "train") -> None:
        """Add examples that are encoded already, as they are: whether they fit the features is not looked at.

        Raises:
          DataError, ValueError: As ``write``.
        """
        with self._lock:
            self._append(split, records, None)

    def begin_shard(self, metadata: Any = None, *, split: str = "train") -> None:
        """Let the next example of a split begin a new shard.

        Args:
          metadata: Anything that JSON holds, of that shard and those that follow it: where its examples are from, say. The
            manifest keeps it, so no shard need be opened to read it.

        Raises:
          TypeError: JSON does not hold the metadata; names the place.
          ValueError: As ``write``; or the split's examples have keys, so that nobody knows which come into what shard.
          DataError: As ``write``.
        """
        check_metadata(metadata)
        with self._lock:
            found = self._find_split(split, keyed=False)
            try:
                found.begin_shard(metadata)
            except BaseException:
                self._state = "failed"
                raise

    def _infer(self, example: Mapping[str, Any]) -> RecordEncoder:
        """Return the encoder for the features that the first example tells, which are everybody's from then on."""
        with self._lock:
            if self._encoder is None:
                self._ensure_open()
                self._settle_features(infer_features(example))
            assert self._encoder is not None
            return self._encoder

    def _append(self, name: str, records: Sequence[bytes], keys: Sequence[bytes] | None) -> None:
        """Add records to a split, which is made if need be; the lock is held."""
        split = self._find_split(name, keyed=keys is not None)
        try:
            split.extend(records, keys)
        except BaseException:
            # What of the shard is on the disk is unknown now.
            self._state = "failed"
            raise

    def _find_split(self, name: str, *, keyed: bool) -> GrowingSplit:
        """Return a split, which is made if need be; the lock is held."""
        self._ensure_open()
        split = self._splits.get(name)
        if split is None:
            limits = dataclasses.asdict(self._limits)
            split = self._splits[name] = GrowingSplit(self.directory, check_split_name(name), keyed=keyed, **limits)
        if split.is_keyed != keyed:
            raise ValueError(
                f"every example of split {name!r} has a key, or none has; this one has {'one' if keyed else 'none'}"
            )
        return split

    def _ensure_open(self) -> None:
        """Raise if nothing can be written (any more); the lock is held."""
        if self._state == "unopened":
            self._owner = os.getpid()
            self._open()
            self._state = "open"
        if os.getpid() != self._owner:
            raise RuntimeError(f"{self!r} belongs to process {self._owner}; make one writer in one process")
        if self._state == "failed":
            raise DataError("writing failed before, this cannot be finished; start again", self.directory)
        if self._state != "open":
            raise ValueError(f"{self!r} takes no more examples")

    def _count(self, split: str) -> int:
        return self._splits[split].num_records if split in self._splits else 0

    # -- ending ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Finish what was written: check it, put it on the disk, publish it. A second time it does nothing.

        Raises:
          DataError: A shard cannot be written, or does not hold what it should; nothing is published.
        """
        with self._lock:
            if self._state in ("closed", "aborted"):
                return
            self._ensure_open()
            try:
                self._publish()
            except DatasetExistsError:
                self._state = "closed"  # what is finished stays where the error says
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
            self._discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        # Of an object whose construction failed, nothing may be there.
        state = self.__dict__.get("_state")
        if state in ("open", "failed") and os.getpid() == self._owner:
            self._abandon()
        if state == "open" and self._state == "aborted":
            warnings.warn(f"{self!r} was dropped without close(); nothing is published", ResourceWarning, stacklevel=1)

    # -- telling --------------------------------------------------------------------------------------------------

    @property
    def num_records(self) -> dict[str, int]:
        """Examples written so far, by split."""
        return {name: split.num_records for name, split in self._splits.items()}

    def _describe(self) -> str:
        counts = ", ".join(f"{name}: {count}" for name, count in self.num_records.items()) or "nothing yet"
        return f"{self._state}, {counts}"


def _explain(error: SchemaError, where: str) -> SchemaError:
    """Return ``error`` with the example at fault in front."""
    return SchemaError(f"{where}: {error.message}. It was not written")
