"""Records that hold nothing but sequences of numbers, stored as they are: found, and not decoded."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from ..end_to_end import EndToEnd, Field
from ..features import Leaf
from ..features.leaf import ValueLeaf
from ..memory import Extents
from .varied import VariedDecoder

__all__ = ["RawSequences"]


class RawSequences:
    """Lays the sequences of records end to end. Threads may share it.

    Args:
      leaves: Each a sequence that is stored as it is; see ``of``.
      varied: Finds their payloads.
    """

    def __init__(self, leaves: Sequence[Leaf], varied: VariedDecoder) -> None:
        self._leaves = leaves
        self._varied = varied

    @classmethod
    def of(cls, leaves: Sequence[Leaf], varied: VariedDecoder) -> RawSequences | None:
        """Return the sequences of records with these leaves, None where there is something else among them."""
        is_raw = [
            isinstance(leaf, ValueLeaf)
            and leaf.feature.stored_raw
            and leaf.kind is not None
            and len(leaf.path) == 1
            and len(leaf.columns_shape) > 0
            and None not in leaf.columns_shape[1:]
            and 0 not in leaf.columns_shape
            for leaf in leaves
        ]
        return cls(leaves, varied) if leaves and all(is_raw) and sys.byteorder == "little" else None

    def lay(self, records: Extents) -> EndToEnd | None:
        """Return all sequences of some records; None where a record is of no known make, or at fault."""
        parts, odd = self._varied.find(records)
        if odd.size or not parts:
            return None
        fields: dict[str, Field] = {}
        lengths = None
        for number, leaf in enumerate(self._leaves):
            starts, sizes = np.empty(len(records), np.int64), np.empty(len(records), np.int64)
            for rows, make, payloads in parts:
                payload = payloads[make.makers[number][0]]
                starts[rows], sizes[rows] = payload.starts + 1, payload.sizes
            length, *inner = leaf.columns_shape
            field = Field(starts, leaf.columns_dtype, tuple(inner))  # type: ignore[arg-type]  # none of them is None
            found, rest = np.divmod(sizes, field.nbytes)
            if rest.any() or (lengths is not None and (found != lengths).any()) or (length and (found != length).any()):
                return None
            fields[leaf.path[0]], lengths = field, found
        assert lengths is not None
        return EndToEnd(fields, lengths, records.owners)
