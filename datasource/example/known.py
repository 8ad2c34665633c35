"""Batches of records that were decoded before: one gather a feature, with nothing left to find out.

Once a record's chunk was checked, its address is known; once its structural bytes were compared, its layout. What is left of
a batch then is to look up both, and to copy the fields: NumPy does the same to arrays in memory, and takes as long. Without
this, a batch of 128 small images took twice as long (``tests/benchmarks``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..columns import Columns
from ..deferred import Deferred, DeferredRun
from ..distinct import distinct
from ..features import Leaf
from ..located import Located
from ..memory import MAX_WINDOW_BYTES, window
from .layout import Field, Layout

__all__ = ["LARGE_BYTES", "KnownRecords"]

Ints = npt.NDArray[np.int64]
#: Addresses of records -> the column of a leaf; None if the leaf refuses one of them.
Cut: TypeAlias = Callable[[Ints], npt.NDArray[Any] | None]
#: Of each leaf, and how many bytes of each record it is in an array of its own for every batch; 0 for those that are small.
Cuts: TypeAlias = Sequence[tuple[Cut, int]]

#: Of a leaf this large, each batch gets memory of its own; smaller ones of several batches are cut out of one column.
LARGE_BYTES = 256
#: So few records, and so many bytes of each, are kept as columns: together no more than a megabyte a leaf.
_MAX_COLUMN = 1 << 17
_SMALL_BYTES = 8
#: Not the number of a layout: the records cannot be read by their addresses.
_NEVER = 255


class KnownRecords:
    """Which records can be read by their addresses, and how. Threads may share it.

    Args:
      leaves: What is cut out of each record.
      layouts: How records look, which may grow; number 1 is the first.
      num_records: How many there are.
      slot_bits: ``2**slot_bits`` neighbours are known together; each such slot takes a byte, as it is written to.
    """

    def __init__(self, leaves: Sequence[Leaf], layouts: Sequence[Layout], num_records: int, slot_bits: int = 0) -> None:
        self.slot_bits = slot_bits
        #: The layout of all records whose address is known, by what the source says of them; 0: not known, None: not asked yet.
        self.common: int | None = None
        self._leaves = leaves
        self._layouts = layouts
        # By slot: its layout's number; 0 if its address or its layout is not known, _NEVER if it cannot be used.
        self._number_of = np.zeros((num_records - 1 >> slot_bits) + 2, np.uint8)
        self._cuts: dict[int, Cuts | None] = {0: None, _NEVER: None}
        # Once all are known and of one layout, nothing is left to look up: 2 us less a batch.
        self._unknown = (num_records - 1 >> slot_bits) + 1
        self._cuts_of_all: Cuts | None = None
        # Of a few records, each small leaf of all, by its place: what stands between images is far apart, and its gather takes
        # a tenth of a batch's time.
        self._columns: dict[int, npt.NDArray[Any]] | None = None if num_records <= _MAX_COLUMN else {}

    def learn(self, indices: Ints, numbers: npt.NDArray[np.uint8]) -> None:
        """Remember the layouts of records whose addresses are known, or of slots by their first record; 0 or a number past all
        layouts for those without one."""
        slots = indices >> self.slot_bits
        for number in np.flatnonzero(np.bincount(numbers)).tolist():
            if number and number not in self._cuts:
                self._cuts[number] = self._make_cuts(self._layouts[number - 1]) if number <= len(self._layouts) else None
            if number:
                self._number_of[slots[numbers == number]] = _NEVER if self._cuts[number] is None else number
        if self.slot_bits and self._unknown:
            self._count_unknown(numbers.size)

    def _count_unknown(self, learnt: int) -> None:
        self._unknown -= learnt
        if self._unknown > 0:
            return
        slots = self._number_of[:-1]
        self._unknown = int(np.count_nonzero(slots == 0))  # two threads may have learnt the same
        if not self._unknown and (slots == slots[0]).all():
            self._cuts_of_all = self._cuts[int(slots[0])]

    def unknown_slots(self, indices: Ints) -> Ints:
        """Return the slots of records of which nothing is known, each once."""
        slots = indices >> self.slot_bits
        return distinct(slots[self._number_of[slots] == 0])

    def find_cuts(self, indices: Ints) -> Cuts | None:
        """Return how records are cut, at least one; None unless all are known and of one layout."""
        if self._cuts_of_all is not None:
            return self._cuts_of_all
        numbers = self._number_of[indices >> self.slot_bits if self.slot_bits else indices]
        first = numbers[:1].tobytes()
        # Of bytes, count() is three times as fast as NumPy's comparison.
        return self._cuts[first[0]] if numbers.tobytes().count(first) == numbers.size else None

    def read_batches(self, cuts: Cuts, addresses: Ints, bounds: Sequence[int]) -> list[list[npt.NDArray[Any]]] | None:
        """Return the columns of each batch of records ``bounds[k] <= row < bounds[k + 1]`` of ``addresses``, which are cut by
        ``cuts``; None where a leaf refuses one of them: for the slow way, which finds and names the record at fault."""
        if len(bounds) == 2:
            columns = [column for cut, _ in cuts if (column := cut(addresses)) is not None]
            return [columns] if len(columns) == len(cuts) else None
        batches: list[list[npt.NDArray[Any]]] = [[] for _ in bounds[1:]]
        for cut, large_bytes in cuts:
            whole = None if large_bytes else cut(addresses)
            for batch, (start, stop) in zip(batches, pairwise(bounds), strict=True):
                column = cut(addresses[start:stop]) if whole is None else whole[start:stop]
                if column is None:
                    return None
                batch.append(column)
        return batches

    def keep_columns(self, where: Located) -> None:
        """Cut small leaves out of all records, if they are few, known and of one layout; does so once."""
        if self._columns is not None or self._cuts_of_all is None:
            return
        addresses = where.all_addresses()
        if addresses is not None:
            columns = {place: cut(addresses) for place, (cut, nbytes) in enumerate(self._cuts_of_all) if not nbytes}
            # Where a leaf refuses a record, that is asked for again, and the error told when it is read.
            self._columns = {
                place: column for place, column in columns.items() if column is not None and column[:1].nbytes <= _SMALL_BYTES
            }

    def defer_batches(
        self,
        cuts: Cuts,
        indices: Ints,
        addresses: Ints,
        held: object,
        bounds: Sequence[int],
        nest: Callable[[list[npt.NDArray[Any]]], Columns] | None,
    ) -> list[Deferred] | None:
        """Return what ``read_batches`` does, large columns still to be cut; None where there are none. For ``nest`` see
        ``DeferredRun``."""
        row_bytes = sum(nbytes for _, nbytes in cuts)
        if not row_bytes:
            return None
        parts: list[tuple[str, npt.NDArray[Any] | None, Any]] = []
        for place, (cut, nbytes) in enumerate(cuts):
            kept = self._columns.get(place) if self._columns else None
            column = None if nbytes else cut(addresses) if kept is None else kept.take(indices, 0)
            if not nbytes and column is None:  # what is stored raw is refused by no leaf, others may be
                return None
            # Of nested features, two could have one key: {"a/b": ...} and {"a": {"b": ...}}.
            parts.append((self._leaves[place].key if nest is None else str(place), column, cut if nbytes else None))
        run = DeferredRun(parts, addresses, held, nest, row_bytes, is_settled=self._cuts_of_all is not None)
        return [Deferred(run, start, stop) for start, stop in pairwise(bounds)]

    def _make_cuts(self, layout: Layout) -> Cuts | None:
        """Return how each leaf is cut out of records of a layout; None if one of them is too long for a window."""
        cuts = []
        for leaf in self._leaves:
            field = layout.fields[leaf.key]
            if not 0 < field.nbytes <= MAX_WINDOW_BYTES:
                return None
            is_large = leaf.feature.stored_raw and field.nbytes >= LARGE_BYTES
            cuts.append((_cut_raw(leaf, field) if leaf.feature.stored_raw else _cut(leaf, field), field.nbytes * is_large))
        return cuts


def _cut_raw(leaf: Leaf, field: Field) -> Cut:
    memory = window(field.start, field.nbytes)
    lengths = tuple(length for length in leaf.columns_shape if length is not None)
    row = np.dtype((leaf.columns_dtype.newbyteorder("<"), lengths))  # with it, view() gives the shape as well
    assert row.itemsize == field.nbytes  # no layout is learnt where it is not
    return lambda at: memory[at].view(row)


def _cut(leaf: Leaf, field: Field) -> Cut:
    memory = window(field.start, field.nbytes)
    shape = (-1, field.nbytes)
    return lambda at: leaf.to_columns(field.decode(memory[at].view(np.uint8).reshape(shape)))
