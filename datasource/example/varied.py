"""Batches of records that are not alike in length: decoded together, as far as their keys come in the same order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..features import Leaf
from ..memory import Extents, copy_bytes
from .entries import Entry, Names, scan_made
from .lockstep import Payload
from .makes import Make

__all__ = ["VariedDecoder"]

Ints = npt.NDArray[np.int64]
Column: TypeAlias = npt.NDArray[Any]
#: The entries of a record, and keys whose payloads were not always as long.
_Note: TypeAlias = tuple[Sequence[Entry], frozenset[str]]
#: The records of one make among some, by their rows, and the payloads of each of its entries.
Part: TypeAlias = tuple[Ints, Make, list[Payload]]

#: So few records take less time one by one: some 100 array operations for all against 10 to 20 us for each.
_FEW = 6
#: Records looked at when the first are decoded: most of what varies between records varies within a few.
_FIRST = 16
#: Records looked at in all, for their makes and for what varies in them. 40 us each.
_MOST = 256
#: Makes kept: orders in which different processes write the same keys, keys that are missing from some records.
_MAKES = 8


class VariedDecoder:
    """Decodes records of one data set, many at a time. Threads may share it; it learns as it goes how the records are made.

    Args:
      leaves: What the records hold.
      lists: Keys of byte strings that are lists even where there is one string in them.
      read_one: Returns the values of the leaves of one record; what cannot be decoded together is.
    """

    def __init__(self, leaves: Sequence[Leaf], lists: set[str], read_one: Callable[[bytes], list[Any]]) -> None:
        self._leaves = leaves
        self._lists = lists
        self._read_one = read_one
        self._makes: dict[Names, Make] = {}
        self._left = _MOST if leaves and all(leaf.kind is not None for leaf in leaves) else 0

    def find(self, records: Extents) -> tuple[list[Part], Ints]:
        """Return where the payloads of records lie, make by make, and the rows of those of no known make.

        Raises:
          ValueError: A record has to be parsed to see what is wrong with it.
        """
        addresses, sizes = records.offsets + records.base, records.sizes
        rest = np.arange(len(records))
        if not self._makes and self._left:
            self._learn_some(addresses, sizes, rest[:: max(1, rest.size // _FIRST)])
        while True:
            parts: list[Part] = []
            left = rest
            for make in list(self._makes.values()):
                if left.size:
                    rows, payloads, left = make.find(addresses, sizes, left)
                    if rows.size:
                        parts.append((rows, make, payloads))
            # What is found to vary changes a make, so that all is looked at again: it happens a few times, and no more.
            if not self._learn_some(addresses, sizes, left):
                return parts, left

    def decode(self, records: Extents, bounds: Sequence[int]) -> list[list[Column]] | None:
        """Return the columns of each batch of records ``bounds[k] <= row < bounds[k + 1]``; None where that is of no use.

        Raises:
          Exception: Whatever it is, the records are to be decoded one by one, which says what is wrong with them.
        """
        if (
            len(records) <= _FEW
            or (not self._left and not self._makes)
            or any(start == stop for start, stop in pairwise(bounds))
        ):
            return None
        parts, odd = self.find(records)
        if 2 * odd.size > len(records):
            return None
        if len(parts) == 1 and not odd.size:
            return _cut(parts[0], bounds)
        others = [self._read_one(record) for record in records[odd].tolist()]
        columns = [
            _merge(leaf, number, parts, odd, [each[number] for each in others], bounds)
            for number, leaf in enumerate(self._leaves)
        ]
        return [list(batch) for batch in zip(*columns, strict=True)]

    def _learn_some(self, addresses: Ints, sizes: Ints, rows: Ints) -> bool:
        """Look at a few records of no known make; return whether there was anything to be learnt.

        Threads may do so at once, and one may undo what another noted: then it is noted with the next such record.
        """
        noted: dict[Names, _Note] = {}
        for row in rows[: min(_FIRST, self._left)].tolist():
            self._left -= 1
            self._look_at(copy_bytes(int(addresses[row]), int(sizes[row])), noted)
        learnt = False
        for names, (entries, varying) in noted.items():
            with suppress(KeyError):  # such records are decoded one by one
                self._makes[names] = Make(self._leaves, entries, varying)
                learnt = True
        return learnt

    def _look_at(self, record: bytes, noted: dict[Names, _Note]) -> None:
        """Note the make of a record, if it is not known or differs from what is known of it."""
        scanned = scan_made(record, self._lists)
        if scanned is None:
            return
        names, entries = scanned
        make = self._makes.get(names)
        known = noted.get(names) or (None if make is None else (make.entries, make.varying))
        if known is None:
            if len(self._makes.keys() | noted.keys()) < _MAKES:
                noted[names] = entries, frozenset()
            return
        changed = {a.key for a, b in zip(entries, known[0], strict=True) if a.nbytes != b.nbytes}
        if not changed <= known[1]:  # else it is odd in another way
            noted[names] = known[0], known[1] | changed


def _cut(part: Part, bounds: Sequence[int]) -> list[list[Column]]:
    """Return the columns of batches of records that are all of one make."""
    _, make, payloads = part
    batches: list[list[Column]] = [[] for _ in bounds[1:]]
    for place, maker in make.makers:
        payload = payloads[place]
        whole = maker.make(payload) if maker.is_even else None
        for batch, (start, stop) in zip(batches, pairwise(bounds), strict=True):
            batch.append(maker.make(payload.slice(start, stop)) if whole is None else whole[start:stop])
    return batches


def _merge(leaf: Leaf, number: int, parts: Sequence[Part], odd: Ints, values: list[Any], bounds: Sequence[int]) -> list[Column]:
    """Return the columns of batches of records of several makes, or of none: ``values`` are those of the rows ``odd``."""
    made = [(rows, *make.makers[number], payloads) for rows, make, payloads in parts]
    if all(maker.is_even for _, _, maker, _ in made):
        columns = [(rows, maker.make(payloads[place])) for rows, place, maker, payloads in made]
        if values:
            columns.append((odd, leaf.stack(values)))
        whole = np.empty((bounds[-1], *columns[0][1].shape[1:]), columns[0][1].dtype)
        for rows, column in columns:
            if column.shape[1:] != whole.shape[1:] or column.dtype != whole.dtype:
                raise ValueError("columns of unlike shapes")
            whole[rows] = column
        return [whole[start:stop] for start, stop in pairwise(bounds)]
    each: list[Any] = [None] * bounds[-1]
    for rows, some in [(odd, values), *((rows, maker.values(payloads[place])) for rows, place, maker, payloads in made)]:
        for row, value in zip(rows.tolist(), some, strict=True):
            each[row] = value
    return [leaf.stack(each[start:stop]) for start, stop in pairwise(bounds)]
