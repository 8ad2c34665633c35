"""From positions to batches, or to chunks that batches are cut from: what runs in the background and in every worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ..datasource.columns import count_bytes, stack
from ..datasource.laps import COLLATE, TRANSFORM, lap, lap_source
from ..datasource.source import Source
from .chunk import Chunk
from .chunking import Chunker, note_transform
from .in_hand import NOTHING, mark
from .read_ahead import ReadAhead
from .reading import Reader, describe_source
from .rows import Rows, has_large
from .state.order import Order
from .task import Task
from .transforms.chain import Chain, Randoms
from .transforms.faults import OnError

__all__ = ["Defers", "Fetcher", "describe_source"]

Indices = npt.NDArray[np.int64]
Defers: TypeAlias = Literal["none", "batches", "all"]

#: So many large examples are read at a time, or so many bytes of them: what several have in common is done once, and they stay
#: in the cache. Records of 12 kB that a transform decodes took 26 us each, read by 8, and take 7, read by 64.
_FEW = 8
_FEW_BYTES = 1 << 20


class Fetcher:
    """Reads, transforms and collates. Holds no state of its own; threads may share it; picklable if its parts are.

    An error of the source or of user code passes as it is, with a note that names the record.

    Args:
      source: Anything with ``__len__`` and ``__getitem__``; ``read_batch`` and ``__getitems__`` are used where they exist.
      chain: What is done to examples and batches; by default nothing.
      collate_fn: List of examples -> batch; None stacks them, and then takes whole columns where no transform needs examples.
      on_error, seed: What is done about examples that fail; see ``Chunker``.

    Attributes:
      is_even: Whether every position gives one row on whatever rank, so that batches are known before they are made.
      lays: Whether records may be sequences that are only to be laid end to end: ``fetch_run`` finds out.
      makes_chunks: Whether it makes chunks, which somebody has to cut batches from.
    """

    def __init__(
        self,
        source: Source[Any],
        chain: Chain | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        *,
        on_error: OnError = "raise",
        seed: int = 0,
    ) -> None:
        self.chain = chain = chain or Chain((), seed)
        self._collate = collate_fn or stack
        self._on_error = on_error
        self._is_large = False  # a guess, from the batch before
        self._reader = Reader(source, columns=not chain.takes_examples and collate_fn is None)
        self.is_even = chain.is_even and on_error in ("raise", "substitute")
        self.makes_chunks = not self.is_even or on_error != "raise"
        lays = chain.only_chains and collate_fn is None and on_error == "raise"
        self.lays = lays and self._reader.lay_end_to_end is not None
        self._chunker = Chunker(self._reader, chain, on_error=on_error, seed=seed, collates=collate_fn is not None)

    def parts(self) -> dict[str, object]:
        """Return what it was made of, by the names users know."""
        made_of = {**self.chain.parts(), "collate_fn": self._collate, "on_error": self._on_error}
        return {"source": self._reader.source, **made_of}

    @property
    def takes_runs(self) -> bool:
        """Whether several batches are cheaper made in one go."""
        return self._reader.read_batches is not None or self.lays

    @property
    def collates(self) -> bool:
        """Whether batches are made by a function of the user's own."""
        return self._collate is not stack

    @property
    def is_divisible(self) -> bool:
        """Whether a batch is the same when parts of it are made by themselves and put together."""
        return not (self.collates or self.makes_chunks or self.chain.batch_maps)

    def read_ahead(self, order: Order) -> ReadAhead | None:
        """Return what tells the source of records to come; None where it does not want to know."""
        will_need = getattr(self._reader.source, "will_need", None)
        return None if will_need is None else ReadAhead(will_need, order)

    def fetch(self, task: Task) -> Any:
        """Return the batch of some positions."""
        if self._reader.gives_columns:
            columns = self._reader.columns(task.records)
            lap_source()
            return self.finish(columns, task.records.tolist)
        if self._is_large and not self.collates:
            return self._fetch_large(task)
        examples = self._reader.examples(task.records.tolist())
        lap_source()
        if self.chain.takes_examples:
            randoms = self.chain.randoms()
            named = zip(examples, task.records.tolist(), task.places, strict=True)
            examples = [self._transform(example, record, task.epoch, place, randoms)[0] for example, record, place in named]
            lap(TRANSFORM)
        self._is_large = bool(examples) and has_large(examples[0])
        return self.finish(self.collate(examples, task.records.tolist), task.records.tolist)

    def _fetch_large(self, task: Task) -> Any:
        """Return a batch whose examples are made a few at a time, and not kept."""
        records = task.records.tolist()
        randoms = self.chain.randoms()
        # A function may keep the batch that it gets, and memory that was given from elsewhere is used again.
        rows = Rows(len(records), np.empty if self.chain.batch_maps else task.allocate)
        places = task.places
        start, count = 0, _FEW
        while start < len(records):
            few = slice(start, start + count)
            examples = self._reader.examples(records[few])
            start, count = few.stop, max(_FEW, _FEW_BYTES // max(1, count_bytes(examples[0])))
            lap_source()
            for example, record, place in zip(examples, records[few], places[few], strict=True):
                if self.chain.takes_examples:
                    example = self._transform(example, record, task.epoch, place, randoms)[0]
                rows.add(example)
            lap(TRANSFORM)
        self._is_large = rows.has_large
        return self.finish(self._collated(rows.finish, task.records.tolist), task.records.tolist)

    def fetch_chunk(self, task: Task) -> tuple[Chunk, Exception | None]:
        """Return what some positions give; where one raises, what those before it gave, and its error."""
        return self._chunker.make(task)

    def fetch_run(self, records: Indices, bounds: Sequence[int], *, defers: Defers = "none") -> list[Any]:
        """Return the batches or chunks of ``records[bounds[k] : bounds[k + 1]]``, made in one go; needs ``takes_runs``.

        Args:
          defers: Whether "batches" may be ``Deferred``, for who knows what to do with them; with "all", one chunk of
            ``EndToEnd`` may stand for all that are packed, for who cuts it in the same process.
        """
        if self.lays:
            return self._lay_run(records, bounds, defers == "all")
        assert self._reader.read_batches is not None
        if defers != "none" and self._reader.defer_batches is not None and not self.makes_chunks and not self.chain.batch_maps:
            deferred = self._reader.defer_batches(records, bounds)
            if deferred is not None:
                lap_source()
                return deferred
        columns = self._reader.read_batches(records, bounds)
        lap_source()
        batches = zip(columns, pairwise(bounds), strict=True)
        if self.makes_chunks:
            return [Chunk(batch, stop - start) for batch, (start, stop) in batches]
        if not self.chain.batch_maps:
            return columns
        return [self.finish(batch, records[start:stop].tolist) for batch, (start, stop) in batches]

    def _lay_run(self, records: Indices, bounds: Sequence[int], defers: bool) -> list[Any]:
        assert self._reader.lay_end_to_end is not None and self.chain.packing is not None
        laid = self._reader.lay_end_to_end(records)
        lap_source()
        if laid is None:
            raise ValueError("these examples are no sequences, or not as they should be")
        if defers:
            return [Chunk(laid, len(records), laid.lengths)]
        chunks, at = [], 0
        for start, stop in pairwise(bounds):
            lengths = laid.lengths[start:stop]
            chunks.append(Chunk(self.chain.packing.copy(laid, at, at := at + int(lengths.sum())), stop - start, lengths))
        lap(COLLATE)
        return chunks

    def collate(self, examples: list[Any], records: Callable[[], list[int]]) -> Any:
        """Return a batch of examples; ``records`` tells, where it fails, which they came from."""
        return self._collated(lambda: self._collate(examples), records)

    def _collated(self, collate: Callable[[], Any], records: Callable[[], list[int]]) -> Any:
        mark(NOTHING)
        try:
            batch = collate()
        except Exception as error:
            self.note(error, f"raised by collating by {self._collate!r}", records())
            raise
        lap(COLLATE)
        return batch

    def finish(self, batch: Any, records: Callable[[], list[int]]) -> Any:
        """Return a collated batch as the ``BatchMap`` transforms leave it; ``records`` as above."""
        if not self.chain.batch_maps:
            return batch
        try:
            batch = self.chain.apply_to_batch(batch)
        except Exception as error:
            self.note(error, "made of", records())
            raise
        lap(TRANSFORM)
        return batch

    def note(self, error: Exception, doing: str, records: list[int]) -> None:
        """Say in a note to an error which records it is about."""
        self._reader.note(error, doing, records)

    def reproduce(self, record: int, epoch: int, place: int) -> list[Any]:
        """Return what one record gives, as it does in any batch; raise what it raises."""
        return self._transform(self._reader.example(record), record, epoch, place, self.chain.randoms())

    def _transform(self, example: Any, record: int, epoch: int, place: int, randoms: Randoms) -> list[Any]:
        mark(record)
        try:
            return self.chain.apply(example, epoch, place, randoms)
        except Exception as error:
            note_transform(self._reader, error, record, epoch, place)
            raise
