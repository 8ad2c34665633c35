"""Chunks made: positions that need not give one example each, because of what their transforms do or of what fails."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np

from ..datasource.columns import stack
from ..datasource.laps import COLLATE, TRANSFORM, lap, lap_source
from ..datasource.structure import merge
from ..samplers import RecordRandom
from .chunk import Chunk, make_rows
from .in_hand import mark
from .reading import Reader, Unread
from .task import Task
from .transforms.chain import Chain, Randoms
from .transforms.faults import SKIP, OnError, Skipped

__all__ = ["Chunker"]

#: So many other records are tried in the place of one that fails, before its error is raised.
_MAX_SUBSTITUTES = 16
_SUBSTITUTES_STREAM = 1 << 32


class Chunker:
    """Makes chunks. Threads may share it; picklable if its parts are.

    Args:
      reader, chain: What reads examples, and what is done to each.
      on_error: What is done about examples that fail.
      seed: Decides which records are substituted.
      collates: Whether somebody else makes batches of examples, and wants them as they are.
    """

    def __init__(self, reader: Reader, chain: Chain, *, on_error: OnError, seed: int, collates: bool) -> None:
        self._reader = reader
        self._chain = chain
        self._on_error = on_error
        self._random = RecordRandom(seed, stream=_SUBSTITUTES_STREAM)
        self._collates = collates

    def make(self, task: Task) -> tuple[Chunk, Exception | None]:
        """Return what some positions give; where one raises, what those before it gave, and its error."""
        if self._reader.gives_columns:
            try:
                columns = self._reader.columns(task.records)
                lap_source()
                return Chunk(columns, len(task.records)), None
            except Exception:
                pass  # one by one, then
        rows: list[Any] = []
        counts: list[int] = []
        skipped: list[Skipped] = []
        failure: Exception | None = None
        records, randoms = task.records.tolist(), self._chain.randoms()
        examples = self._reader.each(records)
        lap_source()
        for record, place, example in zip(records, task.places, examples, strict=True):
            try:
                made = self._apply(task, record, place, example, randoms, skipped)
            except Exception as error:
                failure = error
                break
            rows += made
            counts.append(len(made))
        lap(TRANSFORM)
        try:
            joined, counts = self._join(rows, counts, failure)
        except Exception as error:
            self._reader.note(error, "raised by putting together", records)
            joined, counts, failure = [], [], error
        lap(COLLATE)
        return Chunk(joined, len(counts), np.array(counts, np.int64), tuple(skipped)), failure

    def _join(self, rows: list[Any], counts: list[int], failure: Exception | None) -> tuple[Any, list[int]]:
        """Return rows as a chunk has them, and how many there are of each position then."""
        packing = self._chain.packing
        if packing is None:
            if self._reader.gives_columns:
                return merge(len(rows), [(np.array([k]), row) for k, row in enumerate(rows)]) if rows else [], counts
            return rows if self._collates else make_rows(rows), counts
        if packing.span is None:
            lengths = iter([len(next(iter(row.values()))) for row in rows])
            return packing.chain(rows), [sum(islice(lengths, count)) for count in counts]
        if failure is not None:  # a window is packed whole
            return [], []
        packed = packing.fit(rows)
        # The rows of a window are no one position's: all are told of its first.
        return packed, [len(packed["segment_ids"]), *[0] * (len(counts) - 1)]

    def _apply(self, task: Task, record: int, place: int, example: Any, randoms: Randoms, skipped: list[Skipped]) -> list[Any]:
        """Return what an example gives; where it is none or fails, what ``on_error`` wants instead."""
        mark(record)
        try:
            if isinstance(example, Unread):
                raise example.error
            return self._chain.apply(example, task.epoch, place, randoms)
        except Exception as error:
            if not isinstance(example, Unread):
                note_transform(self._reader, error, record, task.epoch, place)
            if self._on_error == "raise":
                raise
            made, instead = self._replace(task, record, place, error, randoms)
            text = f"{type(error).__name__}: {error}"
            skipped.append(Skipped(record, task.epoch, place, self._reader.where(record), text, instead))
            return made

    def _replace(self, task: Task, record: int, place: int, error: Exception, randoms: Randoms) -> tuple[list[Any], str]:
        if self._on_error == "skip":
            return [], "nothing"
        if callable(self._on_error):
            made = self._on_error(error, record)
            if made is SKIP:
                return [], "nothing"
            return [stack([made]) if self._reader.gives_columns else made], "a value of on_error"
        for other in self._substitutes(task, place):
            try:
                return self._chain.apply(self._reader.one(other), task.epoch, place, randoms), f"record {other}"
            except Exception:
                continue
        error.add_note(f"{_MAX_SUBSTITUTES} records were tried in its place, and failed as well")
        raise error

    def _substitutes(self, task: Task, place: int) -> list[int]:
        """Return other records of the epoch's order, by a hash of seed, epoch and place: of that order, so that none come
        which the sampler leaves out."""
        words = self._random.words(task.epoch, [place], _MAX_SUBSTITUTES)[0]
        places = (words % np.uint64(task.order.sampler.global_length)).astype(np.int64)
        records: list[int] = task.order.at_places(task.epoch, places).tolist()
        return records


def note_transform(reader: Reader, error: Exception, record: int, epoch: int, place: int) -> None:
    """Say in a note which record a transform raised an error on, and how to see it again."""
    reader.note(error, "on", [record])
    error.add_note(f"to see it again: loader.reproduce({record}, epoch={epoch}, place={place})")
