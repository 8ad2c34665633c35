"""Decoding compiled for one set of features: whole batches by their byte layout, the rest record by record."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ..columns import Columns
from ..deferred import Deferred
from ..end_to_end import EndToEnd
from ..errors import DecodeError
from ..features import FeaturesDict, Leaf
from ..laps import READ, lap
from ..located import Located
from ..memory import Extents
from .known import LARGE_BYTES, Cuts, KnownRecords
from .layout import Field, Layout
from .payload_columns import takes_columns
from .sequences import RawSequences
from .single import SingleDecoder
from .varied import VariedDecoder

__all__ = ["DecodePlan"]

Ints = npt.NDArray[np.int64]

#: Layouts kept. A record of 3 labels has one for each combination of their varints' lengths; past this many, records are not
#: alike enough for layouts to pay, and are parsed.
_MAX_LAYOUTS = 64
#: Records of more layouts than these are decoded in lockstep: each layout takes a few operations a feature, however few its
#: records are.
_FEW_LAYOUTS = 8
#: Marks a record that no layout fits.
_NO_LAYOUT = 255
#: So few records of one length are parsed: learning or comparing a layout costs as much as parsing a few.
_FEW = 4
#: Unless they are this long: to parse one is to copy it, and the batch to put together from parts, in every epoch again.
_LONG_BYTES = 1 << 14
#: Records of slots that are compared at a time: their heads, copied, stay in the second-level cache.
_MOST_COMPARED = 4096


class _OneByOne(Exception):
    """A leaf found something in a batch that it decodes, or refuses, one by one only."""


class DecodePlan:
    """Decodes records of one data set. Threads may share it; it learns layouts as it goes.

    Args:
      features: What the records hold.
      num_records: How many there are.

    Attributes:
      single: Decodes one record.
    """

    def __init__(self, features: FeaturesDict, num_records: int) -> None:
        self._features = features
        self._leaves = features.leaves()
        self.single = SingleDecoder(features)
        self._varied = VariedDecoder(self._leaves, self.single.lists, self.single.read_leaves)
        self._sequences = RawSequences.of(self._leaves, self._varied)
        self._columnar = bool(self._leaves) and all(
            None not in leaf.columns_shape and takes_columns(leaf) for leaf in self._leaves
        )
        self._layouts: list[Layout] = []
        # By record, see _match; 0 until its first read. Memory is taken as it is written to.
        self._number_of = np.zeros(num_records if self._columnar else 0, np.uint8)
        self._known: KnownRecords | None = None
        # Flat features, the usual case, need no recursion to become a dict.
        self._names = tuple(leaf.path[0] for leaf in self._leaves) if all(len(x.path) == 1 for x in self._leaves) else ()

    @property
    def is_columnar(self) -> bool:
        """Whether batches are decoded by layout where records allow; else record by record, and stacked."""
        return self._columnar

    def decode_columns(
        self, records: Extents, indices: Ints, bounds: Sequence[int], locate: Callable[[int], tuple[str, int]]
    ) -> list[Columns]:
        """Return batches of examples as columns: batch ``k`` is ``records[bounds[k] : bounds[k + 1]]``, nested like an example,
        every leaf an array with a leading batch axis.

        Layouts are compared for all batches at once, which is several times cheaper than for each. Arrays are disjoint; small
        ones of several batches may lie in one piece of memory.

        Args:
          indices: The records' numbers, ``0 <= index < num_records``: a layout is compared with a record once.
          locate: Row of ``records`` -> path and record number, for errors.

        Raises:
          DecodeError: A record is not what the features promise; names the feature.
        """
        if not self._columnar:
            return self._decode_varied(records, bounds, locate)
        numbers = self._number_of[indices]
        if numbers.size and not numbers.min():
            few = _FEW if records.smallest < _LONG_BYTES else 0
            numbers = self._number_of[indices] = self._match(records, few)
        has_few = numbers.size and np.count_nonzero(np.bincount(numbers)) <= _FEW_LAYOUTS
        if has_few and numbers.max() < _NO_LAYOUT:
            with suppress(_OneByOne):
                return self._cut_batches(numbers, records, bounds)
        elif (batches := self._decode_together(records, bounds)) is not None:
            return list(map(self._nest, batches))
        columns = self._decode_mixed(numbers, records, locate)
        return [self._nest([column[start:stop] for column in columns]) for start, stop in pairwise(bounds)]

    def lay_end_to_end(self, records: Extents) -> EndToEnd | None:
        """Return the sequences that records hold, end to end, not copied; None where that cannot be, or one is at fault."""
        return None if self._sequences is None else self._sequences.lay(records)

    def decode_known(self, where: Located, indices: Ints, bounds: Sequence[int]) -> list[Columns] | None:
        """Return batches of records as ``decode_columns`` does, straight from where they are; None if that cannot be.

        Where records are found by slots, those of a slot are compared when the first of them is asked for.

        Args:
          where: Where the records are.
          indices: ``0 <= index < num_records``; not changed by others meanwhile.
        """
        found = self._find_known(where, indices)
        if found is None:
            return None
        known, cuts = found
        addresses, _held = where.addresses(indices)
        batches = known.read_batches(cuts, addresses, bounds)
        return None if batches is None else list(map(self._nest, batches))

    def defer_known(self, where: Located, indices: Ints, bounds: Sequence[int]) -> list[Deferred] | None:
        """Return what ``decode_known`` does, large arrays still to be gathered; None where there are none, too."""
        found = self._find_known(where, indices)
        if found is None:
            return None
        known, cuts = found
        known.keep_columns(where)
        return known.defer_batches(cuts, indices, *where.addresses(indices), bounds, None if self._names else self._nest)

    def _find_known(self, where: Located, indices: Ints) -> tuple[KnownRecords, Cuts] | None:
        if not self._columnar or not indices.size:
            return None
        known = self._known
        if known is None or known.slot_bits != where.slot_bits:
            known = self._known = KnownRecords(self._leaves, self._layouts, len(self._number_of), where.slot_bits)
        cuts = known.find_cuts(indices)
        if cuts is None and where.slot_bits and self._learn_slots(known, where, indices):
            cuts = known.find_cuts(indices)
        return None if cuts is None else (known, cuts)

    def note_known(self, where: Located, indices: Ints) -> None:
        """Remember which of the records, decoded just now, ``decode_known`` can read: those in place that have a layout."""
        if self._known is not None and not where.slot_bits:
            self._known.learn(indices, np.where(where.is_known(indices), self._number_of[indices], 0))

    def _learn_slots(self, known: KnownRecords, where: Located, indices: Ints) -> bool:
        """Compare all records of the slots that these are in, where that was not done; return whether it was of use."""
        slots = known.unknown_slots(indices)
        if known.common is None:
            known.common = self._find_common(where, slots[:1])
        if known.common:
            sound = where.check(slots)
            known.learn(slots[sound] << where.slot_bits, np.full(np.count_nonzero(sound), known.common, np.uint8))
            return bool(sound.all())
        step = max(1, _MOST_COMPARED >> where.slot_bits)
        return all([self._learn_some(known, where, slots[start : start + step]) for start in range(0, slots.size, step)])

    def _find_common(self, where: Located, slot: Ints) -> int | None:
        """Return the number of the layout that all records have which are alike, 0 if there is none; None: ask again."""
        members = where.members(slot)
        if members is None:
            return None
        varies, number = where.varies(), int(self._match(members[1][:1], few=0)[0])
        is_common = varies is not None and number < _NO_LAYOUT and self._layouts[number - 1].is_common(varies)
        return number if is_common else 0

    def _learn_some(self, known: KnownRecords, where: Located, slots: Ints) -> bool:
        members = where.members(slots)
        lap(READ)
        if members is None:
            return False
        of_slot = members[0] >> where.slot_bits
        numbers = self._match(members[1], few=0)
        starts = np.flatnonzero(np.diff(of_slot, prepend=-1))  # they come slot by slot
        slots = of_slot[starts]
        lowest, highest = np.minimum.reduceat(numbers, starts), np.maximum.reduceat(numbers, starts)
        known.learn(slots << where.slot_bits, np.where(lowest == highest, lowest, _NO_LAYOUT))
        return True

    # -- by layout ------------------------------------------------------------------------------------------------

    def _match(self, records: Extents, few: int = _FEW) -> npt.NDArray[np.uint8]:
        """Return the number of each record's layout: 1 for the first that was learnt, _NO_LAYOUT for those to be parsed. Of up
        to ``few`` records none is learnt."""
        numbers = np.full(len(records), _NO_LAYOUT, np.uint8)
        for rows in _by_size(records.sizes):
            size = int(records.sizes[rows[0]])
            known = [number for number, layout in enumerate(self._layouts, start=1) if layout.size == size]
            while rows.size > few or (known and rows.size):
                number = known.pop() if known else self._learn(records[rows[:1]].tolist()[0])
                if number is None:
                    break
                fits = self._layouts[number - 1].matches(records if rows.size == len(records) else records[rows])
                numbers[rows[fits]] = number
                rows = rows[~fits]
        return numbers

    def _learn(self, record: bytes) -> int | None:
        """Keep the layout of a record, if every leaf can be cut out of it, and return its number."""
        if len(self._layouts) >= _MAX_LAYOUTS:
            return None
        layout = Layout.of(record)
        if layout is None or any(
            leaf.key not in layout.fields or layout.fields[leaf.key].kind != leaf.kind for leaf in self._leaves
        ):
            return None
        try:
            # A record that contradicts the features is told of when it is read by itself.
            for leaf in self._leaves:
                self._decode_field(leaf, layout, Extents.joined([record]))
        except _OneByOne:
            return None
        # Appending is one step for other threads, and a forked child finds no lock held; two may keep the same layout twice.
        self._layouts.append(layout)
        return self._layouts.index(layout) + 1

    def _cut_batches(self, numbers: npt.NDArray[np.uint8], records: Extents, bounds: Sequence[int]) -> list[Columns]:
        """Return batches of records that all have a layout."""
        parts: list[Callable[[int, int], npt.NDArray[Any]]] = []
        same = bool((numbers == numbers[0]).all())
        present = numbers[:1].tolist() if same else np.unique(numbers).tolist()
        for leaf in self._leaves:
            fields = {number: self._layouts[number - 1].fields[leaf.key] for number in present}
            if leaf.feature.stored_raw and fields[present[0]].nbytes >= LARGE_BYTES:
                parts.append(self._cut_raw(leaf, fields, numbers, records))
            else:
                parts.append(self._cut_leaf(leaf, present, numbers, records))
        return [self._nest([part(start, stop) for part in parts]) for start, stop in pairwise(bounds)]

    def _cut_raw(
        self, leaf: Leaf, fields: dict[int, Field], numbers: npt.NDArray[np.uint8], records: Extents
    ) -> Callable[[int, int], npt.NDArray[Any]]:
        """Return a function that gathers a leaf of some rows. Large arrays are gathered batch by batch, each into memory of its
        own that stays in the second-level cache: twice as fast as all at once."""
        shape, dtype = _column_shape(leaf, -1), leaf.columns_dtype.newbyteorder("<")
        count = math.prod(shape[1:])  # of each record: no layout is learnt where to_columns saw another number
        starts = np.zeros(_NO_LAYOUT, np.int64)
        for number, field in fields.items():
            starts[number] = field.start
        at = int(starts[numbers[0]]) if len(fields) == 1 else starts[numbers]
        stored = records.inner(at, np.full(len(records), count * dtype.itemsize))
        return lambda start, stop: stored[start:stop].field(0, dtype, count).reshape(shape)

    def _cut_leaf(
        self, leaf: Leaf, present: list[int], numbers: npt.NDArray[np.uint8], records: Extents
    ) -> Callable[[int, int], npt.NDArray[Any]]:
        """Return a function that slices a leaf of some rows out of a column made for all."""
        if len(present) == 1:
            column = self._decode_field(leaf, self._layouts[present[0] - 1], records)
        else:
            column = np.empty(_column_shape(leaf, len(records)), leaf.columns_dtype)
            for number in present:
                here = np.flatnonzero(numbers == number)
                column[here] = self._decode_field(leaf, self._layouts[number - 1], records[here])
        return lambda start, stop: column[start:stop]

    def _decode_field(self, leaf: Leaf, layout: Layout, records: Extents) -> npt.NDArray[Any]:
        column = leaf.to_columns(layout.field(leaf.key, records))
        if column is None:
            raise _OneByOne
        return column

    def _nest(self, columns: list[npt.NDArray[Any]]) -> Columns:
        return dict(zip(self._names, columns, strict=True)) if self._names else self._features.nest(iter(columns))

    # -- one by one -----------------------------------------------------------------------------------------------

    def _decode_mixed(
        self, numbers: npt.NDArray[np.uint8], records: Extents, locate: Callable[[int], tuple[str, int]]
    ) -> list[npt.NDArray[Any]]:
        """Return the columns of records of which some have no layout, or hold something that only the parser judges."""
        columns = [np.empty(_column_shape(leaf, len(records)), leaf.columns_dtype) for leaf in self._leaves]
        for number in np.unique(numbers).tolist():
            here = np.flatnonzero(numbers == number)
            if number < _NO_LAYOUT:
                layout, part = self._layouts[number - 1], records[here]
                with suppress(_OneByOne):
                    decoded = [self._decode_field(leaf, layout, part) for leaf in self._leaves]
                    for column, values in zip(columns, decoded, strict=True):
                        column[here] = values
                    continue
            elif (together := self._decode_together(records[here], (0, here.size))) is not None:
                for column, values in zip(columns, together[0], strict=True):
                    column[here] = values
                continue
            for row, record in zip(here.tolist(), records[here].tolist(), strict=True):
                for column, value in zip(columns, self._read_leaves(record, row, locate), strict=True):
                    column[row] = value
        return columns

    def _decode_varied(
        self, records: Extents, bounds: Sequence[int], locate: Callable[[int], tuple[str, int]]
    ) -> list[Columns]:
        """Return batches of records that are not alike: decoded together where that can be, else one by one."""
        batches = self._decode_together(records, bounds)
        if batches is None:
            return [self._decode_each(records, start, stop, locate) for start, stop in pairwise(bounds)]
        return list(map(self._nest, batches))

    def _decode_together(self, records: Extents, bounds: Sequence[int]) -> list[list[npt.NDArray[Any]]] | None:
        try:
            return self._varied.decode(records, bounds)
        except Exception:  # whatever it is: one by one it is found out which record is at fault, and in what
            return None

    def _decode_each(self, records: Extents, start: int, stop: int, locate: Callable[[int], tuple[str, int]]) -> Columns:
        """Return a batch of records whose leaves are decoded one by one, images for a start."""
        rows = [self._read_leaves(record, start + row, locate) for row, record in enumerate(records[start:stop].tolist())]
        try:
            return self._nest([leaf.stack([values[place] for values in rows]) for place, leaf in enumerate(self._leaves)])
        except DecodeError as error:
            # Alike, but not what the features promise: the first is as good an example as any.
            raise DecodeError(error.message, *locate(start)) from None

    def _read_leaves(self, record: bytes, row: int, locate: Callable[[int], tuple[str, int]]) -> list[Any]:
        try:
            return self.single.read_leaves(record)
        except DecodeError as error:
            raise DecodeError(error.message, *locate(row)) from error.__cause__


def _column_shape(leaf: Leaf, count: int) -> tuple[int, ...]:
    return (count, *(size for size in leaf.columns_shape if size is not None))


def _by_size(sizes: Ints) -> list[Ints]:
    """Return the rows of each record length."""
    if not sizes.size:
        return []
    if (sizes == sizes[0]).all():
        return [np.arange(sizes.size)]
    order = np.argsort(sizes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(sizes[order])) + 1)
