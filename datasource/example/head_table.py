"""The heads of one entry in many records at once, by the length that each of them begins with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..distinct import distinct
from .entries import Entry

__all__ = ["HeadTable", "KnownHeads"]

Ints = npt.NDArray[np.int64]

#: Entries of this length or longer are for the parser: beside what is in them its work is little.
_MAX_ENTRY_BYTES = 1 << 17
#: Heads that are kept, some 60 bytes each. Past this many the table begins anew.
_MAX_HEADS = 1 << 14


class KnownHeads(NamedTuple):
    """What a table knows; never changed.

    Attributes:
      rows: By the length that an entry begins with, the row of its head below: 0 if it is not known. int16.
      sizes: Bytes of each head; int64.
      totals: Bytes of each entry with its head; int64. Of row 0, and of lengths that no entry has, more than any record has.
      heads: The heads, uint8 of shape ``(rows, longest head)``, filled up with 0.
    """

    rows: npt.NDArray[np.int16]
    sizes: Ints
    totals: Ints
    heads: npt.NDArray[np.uint8]


class HeadTable:
    """Looks up heads of one entry, and makes those that it lacks. Threads may share it: one may undo what another noted, and
    then it is noted again.

    Args:
      entry: In any record.
    """

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._known = _NOTHING

    def look_up(self, lengths: Ints) -> tuple[npt.NDArray[np.int16], KnownHeads]:
        """Return a row for each of ``lengths``, ``0 <= length < 2**28``, and what they are rows of."""
        known = self._known
        if int(lengths.max(initial=0)) >= known.rows.size:
            lengths = np.minimum(lengths, _MAX_ENTRY_BYTES)
            if int(lengths.max()) >= known.rows.size:
                known = known._replace(rows=_grown(known.rows, int(lengths.max())))
        rows = known.rows[lengths]
        if not rows.all():
            self._known = known = self._learn(known, distinct(lengths[rows == 0]))
            rows = known.rows[lengths]
        return rows, known

    def _learn(self, known: KnownHeads, lengths: Ints) -> KnownHeads:
        """Return what is known, and the heads of entries of ``lengths`` as well."""
        if known.sizes.size + lengths.size > _MAX_HEADS:
            known = _NOTHING._replace(rows=np.zeros_like(known.rows))
        made = [self._make(length) for length in lengths.tolist()]
        longest = max(known.heads.shape[1], *(len(head) for head, _ in made))
        heads = np.zeros((known.sizes.size + len(made), longest), np.uint8)
        heads[: known.sizes.size, : known.heads.shape[1]] = known.heads
        for row, (head, _) in enumerate(made, start=known.sizes.size):
            heads[row, : len(head)] = np.frombuffer(head, np.uint8)
        rows = known.rows.copy()
        rows[lengths] = np.arange(known.sizes.size, heads.shape[0])
        sizes = np.concatenate([known.sizes, [len(head) for head, _ in made]])
        return KnownHeads(rows, sizes, np.concatenate([known.totals, [total for _, total in made]]), heads)

    def _make(self, length: int) -> tuple[bytes, int]:
        try:
            if length < _MAX_ENTRY_BYTES:
                nbytes = self._entry.payload_of(length)
                head = self._entry.make_head(nbytes)
                return head, len(head) + nbytes
        except ValueError:
            pass  # no payload makes an entry of that length
        return b"", _NEVER


#: More bytes than any record has.
_NEVER = 1 << 40
_NOTHING = KnownHeads(np.zeros(0, np.int16), np.zeros(1, np.int64), np.full(1, _NEVER), np.zeros((1, 0), np.uint8))


def _grown(rows: npt.NDArray[np.int16], most: int) -> npt.NDArray[np.int16]:
    grown = np.zeros(1 << max(7, most.bit_length()), np.int16)
    grown[: rows.size] = rows
    return grown
