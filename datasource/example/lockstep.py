"""Where the payloads of many records lie that have the same keys in the same order, but are not alike in length.

What ``Template`` does to one record, this does to all of a batch at once, step by step: every record has a cursor, and each
step looks at what stands there in all of them and moves all cursors on. Neighbouring entries of known length are a *run*, which
is copied in one piece and compared but for its payloads. Of an entry that varies, the length that it begins with tells what the
rest of its head must be. So 17 entries, 5 of which vary, take some 100 array operations, whether for ten records or a thousand.

It never judges, either: a record of which anything differs is left to the parser.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..memory import window
from .entries import Entry
from .head_table import HeadTable

__all__ = ["MOST_ROWS", "Lockstep", "Payload"]

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]

#: So many records are looked at together: what is copied of them stays in the second-level cache.
MOST_ROWS = 1024
#: So many bytes are compared at a time.
_COMPARED_BYTES = 1 << 17
#: Longer payloads stay where they are, though all are of one length.
_MAX_COPIED = 256
#: Records of this length or longer are for the parser.
_TOO_LONG = 1 << 28
_WORDS = window(1, 8)
_HALF_WORDS = window(1, 4)


class Payload(NamedTuple):
    """The payloads of one entry in n records.

    Attributes:
      starts: The address of each, less 1: where it begins in a window of all memory.
      sizes: How many bytes they are, each or all.
      copied: The bytes, uint8 of shape ``(n, sizes)``, where all are known to be of one length, and that is short.
    """

    starts: Ints
    sizes: Ints | int
    copied: Bytes | None = None

    def slice(self, start: int, stop: int) -> Payload:
        """Return those of the records ``start <= row < stop``."""
        sizes = self.sizes if isinstance(self.sizes, int) else self.sizes[start:stop]
        return Payload(self.starts[start:stop], sizes, None if self.copied is None else self.copied[start:stop])

    def heads(self, nbytes: int) -> Bytes:
        """Return the first bytes of each, of shape ``(n, nbytes)``; none may be shorter."""
        return window(1, nbytes)[self.starts].view(np.uint8).reshape(-1, nbytes)


#: The cursors behind a step, and None; or which records are of this make as far as it saw, where not all are.
_Moved: TypeAlias = tuple[Ints, Bools | None]


class Lockstep:
    """Finds payloads in records whose entries are those of one record, in its order. Threads may share it.

    Args:
      entries: Of a record of that make; at least one.
      varying: Keys whose payloads differ in length between records.
    """

    def __init__(self, entries: Sequence[Entry], varying: frozenset[str]) -> None:
        steps: list[_Run | _Varying] = []
        run: list[tuple[int, Entry]] = []
        for place, entry in enumerate(entries):
            if entry.key not in varying and entry.nbytes <= _MAX_COPIED:
                run.append((place, entry))
                continue
            if run:
                steps.append(_Run(run))
                run = []
            steps.append(_Varying(place, entry))
        if run:
            steps.append(_Run(run))
        # What a record has at least from each step on: so that nothing behind its end is looked at, however odd its bytes.
        least = [step.least for step in steps]
        self._steps = [(step, sum(least[number:])) for number, step in enumerate(steps)]
        self._least = sum(least) + 2

    def find(self, addresses: Ints, sizes: Ints) -> list[Payload] | Bools:
        """Return the payloads of each entry in all of some records; or which of these may be of this make, where not all are.

        Args:
          addresses, sizes: Of at least one record, and no more than ``MOST_ROWS``, which stay where they are meanwhile.
        """
        fits = (sizes >= self._least) & (sizes < _TOO_LONG)
        if not fits.all():
            return fits
        at = addresses - 1
        ends = at + sizes
        widths, fits = _match_prefixes(at, sizes)
        if not fits.all():
            return fits
        at = at + widths
        found: dict[int, Payload] = {}
        for step, least in self._steps:
            fits = at <= ends - least
            if not fits.all():
                return fits
            moved, fitting = step.take(at, ends, found)
            if fitting is not None:
                return fitting
            at = moved
        fits = at == ends
        return [found[place] for place in range(len(found))] if fits.all() else fits


def _match_prefixes(at: Ints, sizes: Ints) -> tuple[Ints, Bools]:
    """Return how many bytes stand before the first entry of each record, and whether they are the right ones."""
    # A tag, and how many bytes follow, as a varint: 127 fit one byte, and so on.
    widths = 2 + np.searchsorted(_LONGEST, sizes)
    contents = sizes - widths
    expected = contents & 127
    for place in range(1, int(widths.max()) - 1):
        expected |= (contents >> 7 * place & 127) << 8 * place | (widths > place + 1).astype(np.int64) << 8 * place - 1
    found = _WORDS[at].view("<i8")
    return widths, (found & (np.int64(1) << 8 * widths) - 1) == (expected << 8 | 10)


#: The longest records with one, two and three bytes for their length.
_LONGEST = np.array([(1 << 7 * groups) - 1 + groups + 1 for groups in (1, 2, 3)])


class _Run:
    """Neighbouring entries whose payloads are of known lengths."""

    def __init__(self, entries: Sequence[tuple[int, Entry]]) -> None:
        content, mask = b"", b""
        self._payloads = []
        for place, entry in entries:
            head = entry.make_head(entry.nbytes)
            self._payloads.append((place, len(content) + len(head), entry.nbytes))
            content += head + bytes(entry.nbytes)
            mask += b"\xff" * len(head) + bytes(entry.nbytes)
        self.least = len(content)
        self._window = window(1, self.least)
        # For many rows end to end: operations on the few bytes of each row would take ten times as long as on all of them.
        rows = max(1, min(MOST_ROWS, _COMPARED_BYTES // self.least))
        self._mask, self._expected = np.frombuffer(mask * rows, np.uint8), np.frombuffer(content * rows, np.uint8)

    def take(self, at: Ints, ends: Ints, found: dict[int, Payload]) -> _Moved:
        copied = self._window[at].view(np.uint8)
        rows = copied.reshape(at.size, self.least)
        for start in range(0, copied.size, self._mask.size):
            part = copied[start : start + self._mask.size]
            if ((part & self._mask[: part.size]) != self._expected[: part.size]).any():
                fits: Bools = ((rows & self._mask[: self.least]) == self._expected[: self.least]).all(axis=1)
                return at, fits
        for place, start, nbytes in self._payloads:
            found[place] = Payload(at + start, nbytes, rows[:, start : start + nbytes])
        return at + self.least, None


class _Varying:
    """An entry whose payload may be of any length."""

    def __init__(self, place: int, entry: Entry) -> None:
        self._place = place
        self._table = HeadTable(entry)
        self.least = len(entry.make_head(0))

    def take(self, at: Ints, ends: Ints, found: dict[int, Payload]) -> _Moved:
        lengths = _read_lengths(_HALF_WORDS[at + 1].view("<u4").astype(np.int64))
        rows, known = self._table.look_up(lengths)
        totals = known.totals[rows]
        fits = totals <= ends - at
        if not fits.all():
            return at, fits
        head_sizes = known.sizes[rows]
        for size in np.flatnonzero(np.bincount(head_sizes)).tolist():
            here = head_sizes == size
            if here.all():
                here = slice(None)
            equal = window(1, size)[at[here]].view(np.uint8).reshape(-1, size) == known.heads[rows[here], :size]
            if not equal.all():
                fits[here] = equal.all(axis=1)
        if not fits.all():
            return at, fits
        found[self._place] = Payload(at + head_sizes, totals - head_sizes)
        return at + totals, None


def _read_lengths(words: Ints) -> Ints:
    """Return the varint in each word of 4 bytes, from its lowest byte on; of one that is longer, some number below 2**28."""
    if not (words & 0x80).any():
        return words & 0x7F
    stops = ~words & 0x80808080
    words &= (stops & -stops) - 1  # what stands before the first byte that ends a varint, and that
    return words & 0x7F | words >> 1 & 0x3F80 | words >> 2 & 0x1FC000 | words >> 3 & 0xFE00000
