"""Sequences of unlike lengths packed into rows of one length, with the names of who stands where; for language models."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from ...datasource.end_to_end import EndToEnd
from ...datasource.memory import join_bytes

__all__ = ["SEGMENTS", "TOKENS", "Overlong", "Pack", "Strategy", "pack"]

Strategy = Literal["first_fit", "concat"]
Overlong = Literal["raise", "truncate", "split", "drop"]
Ints = npt.NDArray[np.int64]
Sequences = dict[str, npt.NDArray[Any]]

#: What a packed row has besides the fields of its examples; and what the field of a bare sequence is called.
SEGMENTS, POSITIONS, TOKENS = "segment_ids", "positions", "tokens"


@dataclass(frozen=True, slots=True)
class Pack:
    """What ``pack`` returns; see there."""

    length: int
    strategy: Strategy
    window: int
    pad_value: Any
    overlong: Overlong

    @property
    def span(self) -> int | None:
        """How many positions are packed together, and by themselves; None where packing goes on from one to the next."""
        return self.window if self.strategy == "first_fit" else None

    def prepare(self, example: Any) -> list[Sequences]:
        """Return an example's sequences as arrays of equal length, cut to what fits; none if there is nothing in them.

        Raises:
          ValueError: Its fields have unequal lengths or are no sequences, or it is longer than a row.
        """
        fields = example if isinstance(example, Mapping) else {TOKENS: example}
        arrays = {str(name): np.asarray(value) for name, value in fields.items()}
        lengths = {name: len(array) if array.ndim else None for name, array in arrays.items()}
        if len({*lengths.values()}) != 1 or None in lengths.values() or not {SEGMENTS, POSITIONS}.isdisjoint(lengths):
            shapes = ", ".join(f"{name!r} has shape {array.shape}" for name, array in arrays.items())
            raise ValueError(
                f"pack needs fields of one length, and none called {SEGMENTS!r} or {POSITIONS!r}: {shapes or 'there is none'}; "
                "leave out what is no sequence in a transform before"
            )
        length = next(iter(lengths.values())) or 0
        if length <= self.length or self.strategy == "concat":
            return [arrays] if length else []
        if self.overlong == "raise":
            raise ValueError(
                f'a sequence of {length} does not fit into rows of {self.length}; use overlong="truncate", "split" or "drop", '
                "or longer rows"
            )
        if self.overlong == "drop":
            return []
        ends = range(0, length, self.length) if self.overlong == "split" else [0]
        return [{name: array[start : start + self.length] for name, array in arrays.items()} for start in ends]

    def chain(self, sequences: Sequence[Sequences]) -> Sequences:
        """Return sequences end to end; under "segment_ids", whether one begins at a token."""
        if not sequences:
            return {}
        chained = {name: np.concatenate([each[name] for each in sequences]) for name in _names(sequences)}
        lengths = [len(next(iter(each.values()))) for each in sequences]
        begins = np.zeros(sum(lengths), np.bool_)
        begins[np.cumsum([0, *lengths[:-1]])] = True
        return {**chained, SEGMENTS: begins}

    def cut(self, chained: Sequences) -> Sequences:
        """Return what ``chain`` gave, which may be of several pieces, as rows; the last one is padded."""
        begins = chained[SEGMENTS]
        rows = -(-len(begins) // self.length)
        packed = {name: self._to_rows(name, array, rows) for name, array in chained.items() if name != SEGMENTS}
        return {**packed, **self.number(begins.nonzero()[0], len(begins))}

    def number(self, begins: Ints, size: int) -> Sequences:
        """Return segments and positions of ``size`` tokens end to end, in rows, where sequences begin at ``begins``."""
        rows = np.arange(0, size, self.length)
        starts = np.concatenate((begins, rows))
        starts.sort()
        is_first = np.ones(starts.size, np.bool_)  # a sequence may begin where a row does
        np.not_equal(starts[1:], starts[:-1], out=is_first[1:])
        starts = starts[is_first]
        lengths = np.empty_like(starts)
        np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
        lengths[-1:] = size - starts[-1:]
        numbers = np.arange(1, starts.size + 1) - starts.searchsorted(rows)[starts // self.length]
        segments = numbers.astype(np.int32).repeat(lengths)
        positions = np.arange(size, dtype=np.int32)
        positions -= starts.astype(np.int32).repeat(lengths)
        if missing := -size % self.length:
            padding = np.zeros(missing, np.int32)
            segments, positions = np.concatenate((segments, padding)), np.concatenate((positions, padding))
        return {SEGMENTS: segments.reshape(-1, self.length), POSITIONS: positions.reshape(-1, self.length)}

    def copy(self, laid: EndToEnd, start: int, stop: int) -> Sequences:
        """Return the elements ``start <= k < stop`` of sequences end to end as ``chain`` does."""
        if start == stop:
            return {}
        chained = {}
        for name, field in laid.fields.items():
            chained[name] = np.frombuffer(join_bytes(laid.spans(name, start, stop)), field.dtype).reshape(-1, *field.inner)
        begins = np.zeros(stop - start, np.bool_)
        begins[laid.begins(start, stop) - start] = True
        return {**chained, SEGMENTS: begins}

    def copy_rows(self, pieces: Sequence[tuple[EndToEnd, int, int]], size: int) -> Sequences:
        """Return the ``size`` elements ``start <= k < stop`` of each of ``pieces``, at least one, as rows, each copied once."""
        missing = -size % self.length
        packed = {}
        for name, field in pieces[0][0].fields.items():
            spans = [span for laid, start, stop in pieces for span in laid.spans(name, start, stop)]
            tail = np.full((missing, *field.inner), self._padding(name), field.dtype).tobytes() if missing else b""
            packed[name] = np.frombuffer(join_bytes(spans, tail), field.dtype).reshape(-1, self.length, *field.inner)
        return packed

    def fit(self, sequences: Sequence[Sequences]) -> Sequences:
        """Return sequences in as few rows as first fit needs: each goes, in order, into the first row that has room."""
        lengths = [len(next(iter(each.values()))) for each in sequences]
        homes, starts = first_fit(lengths, self.length)
        rows = max(homes, default=-1) + 1
        segments = np.zeros((rows, self.length), np.int32)
        positions = np.zeros((rows, self.length), np.int32)
        packed = {}
        for name in _names(sequences) if sequences else ():
            arrays = [each[name] for each in sequences]
            shape = (rows, self.length, *arrays[0].shape[1:])
            packed[name] = np.full(shape, self._padding(name), np.result_type(*{array.dtype for array in arrays}))
            for row, start, array in zip(homes, starts, arrays, strict=True):
                packed[name][row, start : start + len(array)] = array
        counts = [0] * rows
        for row, start, length in zip(homes, starts, lengths, strict=True):
            counts[row] += 1
            segments[row, start : start + length] = counts[row]
            positions[row, start : start + length] = np.arange(length)
        return {**packed, SEGMENTS: segments, POSITIONS: positions}

    def _to_rows(self, name: str, array: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
        missing = rows * self.length - len(array)
        if missing:
            padding = np.full((missing, *array.shape[1:]), self._padding(name), array.dtype)
            array = np.concatenate([array, padding])
        return array.reshape(rows, self.length, *array.shape[1:])

    def _padding(self, name: str) -> Any:
        return self.pad_value.get(name, 0) if isinstance(self.pad_value, Mapping) else self.pad_value


def pack(
    length: int,
    *,
    strategy: Strategy = "first_fit",
    window: int = 256,
    pad_value: Any = 0,
    overlong: Overlong = "raise",
) -> Pack:
    """Return a transform that packs sequences into rows of ``length``; the last one of a loader, but for ``BatchMap``.

    An example is a sequence, or a dict of sequences of one length: lists or arrays ``(n, ...)``. A batch is then a dict of
    arrays ``(batch_size, length, ...)``: the fields (a bare sequence's is called ``"tokens"``) and

        "segment_ids"   int32   1, 2, ... for the sequences in a row, 0 at padding
        "positions"     int32   0, 1, ... within each sequence, 0 at padding

    Args:
      length: Tokens in a row, ``>= 1``.
      strategy: ``"first_fit"`` packs each ``window`` of neighbouring records by itself: each sequence goes whole into the
        first row that has room. ``"concat"`` lays all sequences end to end and cuts every ``length`` tokens: no padding but
        in an epoch's last row; what is cut goes on in the next row, as a segment of its own.
      window: Records that are packed together, ``>= 1``; more leave less padding.
      pad_value: A number, or a dict of numbers by field (0 for others).
      overlong: What becomes of a sequence longer than a row, with ``"first_fit"``: ``"raise"``, ``"truncate"``, ``"split"``
        into several, or ``"drop"``.

    States are exact to the row. With ``"concat"``, ranks' states merge anywhere (``merge_states``); with ``"first_fit"`` where
    each rank stands between two windows, and load on as many ranks everywhere.

    Raises:
      ValueError: A choice that there is not, or a number below 1.
    """
    for name, number in {"length": length, "window": window}.items():
        if operator.index(number) < 1:
            raise ValueError(f"{name} is {number}; it must be at least 1")
    if strategy not in get_args(Strategy):
        raise ValueError(f"strategy is {strategy!r}; it must be 'first_fit' or 'concat'")
    if overlong not in get_args(Overlong):
        raise ValueError(f"overlong is {overlong!r}; it must be one of {', '.join(map(repr, get_args(Overlong)))}")
    return Pack(operator.index(length), strategy, operator.index(window), pad_value, overlong)


def first_fit(lengths: Sequence[int], room: int) -> tuple[list[int], list[int]]:
    """Return for each sequence the row it goes into, the first that has room, and where in it; no length above ``room``."""
    left = np.full(len(lengths), room, np.int64)  # never more rows than sequences
    homes, starts = [], []
    for length in lengths:
        row = int((left >= length).argmax())
        homes.append(row)
        starts.append(room - int(left[row]))
        left[row] -= length
    return homes, starts


def _names(sequences: Sequence[Sequences]) -> list[str]:
    """Return the fields that all sequences have."""
    first = sequences[0].keys()
    for each in sequences:
        if each.keys() != first:
            raise ValueError(f"pack needs the same fields of all examples: one has {[*first]}, another {[*each]}")
    return [*first]
