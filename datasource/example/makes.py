"""Records with the same keys in the same order: where their payloads lie, and what makes columns of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..features import Leaf
from .entries import Entry
from .lockstep import MOST_ROWS, Lockstep, Payload
from .payload_columns import ColumnMaker

__all__ = ["Make"]

Ints = npt.NDArray[np.int64]


class Make:
    """Records with the same keys in the same order. Immutable.

    Args:
      leaves: What is decoded.
      entries: Of one of them.
      varying: Keys whose payloads were not always as long.

    Attributes:
      makers: What makes the column of each leaf, and the place of its entry.

    Raises:
      KeyError: A leaf is in no entry, or in several, or in one of another kind: it is decoded record by record.
    """

    def __init__(self, leaves: Sequence[Leaf], entries: Sequence[Entry], varying: frozenset[str]) -> None:
        self.entries = entries
        self.varying = varying
        self._lockstep = Lockstep(entries, varying)
        places: dict[Any, int] = {(entry.key, entry.kind): place for place, entry in enumerate(entries)}
        self.makers = [
            (places[leaf.key, leaf.kind], ColumnMaker(leaf, entries[places[leaf.key, leaf.kind]])) for leaf in leaves
        ]
        wanted = {place for place, _ in self.makers}
        # Of what nobody wants, the parser still sees whether it is a list; a single byte string always is.
        self._checks = [
            (place, ColumnMaker(None, entry))
            for place, entry in enumerate(entries)
            if place not in wanted and (entry.kind != "bytes" or entry.is_whole)
        ]

    def find(self, addresses: Ints, sizes: Ints, rows: Ints) -> tuple[Ints, list[Payload], Ints]:
        """Return which of ``rows`` are of this make, the payloads of each entry in them, and the other rows."""
        found: list[list[Payload]] = []
        fitting: list[Ints] = []
        others: list[Ints] = [rows[:0]]
        for start in range(0, rows.size, MOST_ROWS):
            here = rows[start : start + MOST_ROWS]
            while here.size:
                result = self._lockstep.find(addresses[here], sizes[here])
                if isinstance(result, list):
                    found.append(result)
                    fitting.append(here)
                    break
                others.append(here[~result])
                here = here[result]
        if not found:
            return rows[:0], [], rows
        payloads = found[0] if len(found) == 1 else [join_payloads(parts) for parts in zip(*found, strict=True)]
        for place, check in self._checks:
            check.check(payloads[place])
        return np.concatenate(fitting), payloads, np.sort(np.concatenate(others))


def join_payloads(parts: Sequence[Payload]) -> Payload:
    """Return the payloads of one entry in the records of all parts."""
    starts = np.concatenate([part.starts for part in parts])
    if any(part.copied is None for part in parts):
        return Payload(starts, np.concatenate([np.broadcast_to(part.sizes, part.starts.size) for part in parts]))
    return Payload(starts, parts[0].sizes, np.concatenate([part.copied for part in parts if part.copied is not None]))
