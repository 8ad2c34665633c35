"""Records read, and errors told which record they are about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..datasource.columns import Columns, StructureError
from ..datasource.deferred import Deferred
from ..datasource.end_to_end import EndToEnd
from ..datasource.examples import ExampleDataSource
from ..datasource.source import BaseSource, Source
from .in_hand import mark

__all__ = ["Reader", "Unread", "describe_source"]

Indices = npt.NDArray[np.int64]

#: So many record numbers are listed in the note to an error.
_MAX_LISTED = 8


class Unread:
    """Stands for an example that could not be read."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class Reader:
    """Reads examples of a source, or whole columns. What the source raises passes, with a note that names the record.

    Threads may share it; picklable if the source is.

    Args:
      source: Anything with ``__len__`` and ``__getitem__``; ``read_batch`` and ``__getitems__`` are used where they exist.
      columns: Whether whole columns serve, where the source has them: nobody asks for single examples.
    """

    def __init__(self, source: Source[Any], *, columns: bool) -> None:
        self.source = source
        self._read_batch: Callable[[Indices], Columns] | None = getattr(source, "read_batch", None) if columns else None
        self.read_batches: Callable[..., list[Columns]] | None = getattr(source, "read_batches", None) if columns else None
        # Only of a source that says so of itself: a subclass may read otherwise.
        self.defer_batches: Callable[..., list[Deferred] | None] | None = (
            source.defer_batches if columns and type(source) is ExampleDataSource else None
        )
        # As arrays that are not copied yet, see ``EndToEnd``.
        self.lay_end_to_end: Callable[[Indices], EndToEnd | None] | None = (
            source.lay_end_to_end if type(source) is ExampleDataSource else None
        )
        self._read_many: Callable[[list[int]], list[Any]] | None = getattr(source, "__getitems__", None)

    @property
    def gives_columns(self) -> bool:
        """Whether ``columns`` may be called, and ``one`` gives columns of one row."""
        return self._read_batch is not None

    def columns(self, records: Indices) -> Columns:
        """Return some records as columns."""
        assert self._read_batch is not None
        try:
            return self._read_batch(records)
        except Exception as error:
            self._note_reading(error, records.tolist())
            raise

    def examples(self, records: Sequence[int]) -> list[Any]:
        """Return the examples of some records."""
        if self._read_many is None:
            return [self.example(record) for record in records]
        try:
            examples = self._read_many([*records])
        except Exception as error:
            self._note_reading(error, records)
            raise
        if len(examples) != len(records):
            raise ValueError(f"__getitems__ of {describe_source(self.source)} gave {len(examples)} for {len(records)} indices")
        return examples

    def example(self, record: int) -> Any:
        """Return one example."""
        mark(record)
        try:
            return self.source[record]
        except Exception as error:
            self._note_reading(error, [record])
            raise

    def one(self, record: int) -> Any:
        """Return one example; as columns of one row where columns serve."""
        return self.columns(np.array([record])) if self.gives_columns else self.example(record)

    def each(self, records: Sequence[int]) -> list[Any]:
        """Return what ``one`` gives for each record, and ``Unread`` for what it raises."""
        if not self.gives_columns:
            try:
                return self.examples(records)
            except Exception:
                pass  # which of them it was is found out below
        return [self._try_one(record) for record in records]

    def where(self, record: int) -> str:
        """Return the file and the record in it, or what else a source can say."""
        source = self.source
        return source._origin(record) if isinstance(source, BaseSource) else f"element {record} of {describe_source(source)}"

    def note(self, error: Exception, doing: str, records: Sequence[int]) -> None:
        """Say in a note to ``error`` which records it is about."""
        if isinstance(error, StructureError):
            places = sorted({*error.places})
            which = " and ".join(f"example {place} is record {records[place]}" for place in places)
            error.add_note(f"{which} of {describe_source(self.source)}")
            return
        listed = ", ".join(map(str, records[:_MAX_LISTED]))
        more = f", ... ({len(records)} in all)" if len(records) > _MAX_LISTED else ""
        plural = "s" * (len(records) != 1)
        where = f": {self.where(records[0])}" if len(records) == 1 else ""
        error.add_note(f"{doing} record{plural} {listed}{more} of {describe_source(self.source)}{where}")

    def _try_one(self, record: int) -> Any:
        try:
            return self.one(record)
        except Exception as error:
            return Unread(error)

    def _note_reading(self, error: Exception, records: Sequence[int]) -> None:
        self.note(error, "raised by reading", records)
        if isinstance(error, StructureError):
            return
        alone = [*records] if len(records) == 1 else self._find_bad(records)
        for record in alone:
            error.add_note(f"to see it again: source[{record}], with the loader's source ({self.where(record)})")

    def _find_bad(self, records: Sequence[int]) -> list[int]:
        """Return the first of several records that cannot be read by itself, if one there is."""
        for record in records:
            try:
                self.source[record]
            except Exception:
                return [record]
        return []


def describe_source(source: Source[Any]) -> str:
    """Return what a source is in a few words: its ``repr`` where that is short, as a list's is not."""
    return repr(source) if isinstance(source, BaseSource) else f"a {type(source).__name__} of {len(source)}"
