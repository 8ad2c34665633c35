"""Where records of ArrayRecord files are in memory, as decoders ask."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ..located import Located
from ..memory import Extents
from .indexed import IndexedRecords
from .places import Places
from .reader import ShardReader

__all__ = ["Located", "LocatedByIndex", "LocatedByPlaces"]

Ints = npt.NDArray[np.int64]


class LocatedByPlaces(Located):
    """By what this process has found out."""

    def __init__(self, places: Places, owner: object) -> None:
        self._addresses = places.addresses
        self._owner = owner

    def addresses(self, indices: Ints) -> tuple[Ints, object]:
        return self._addresses[indices], self._owner

    def is_known(self, indices: Ints) -> npt.NDArray[np.bool_]:
        known: npt.NDArray[np.bool_] = self._addresses[indices] > 0
        return known


class LocatedByIndex(Located):
    """By a record index. Only where records are alike, one slot of them is like another."""

    def __init__(self, indexed: IndexedRecords, owner: object, open_shard: Callable[[int], ShardReader]) -> None:
        self._indexed = indexed
        self._owner = owner
        self._open_shard = open_shard
        self.slot_bits = indexed.slot_bits if indexed.size >= 0 else 0

    def addresses(self, indices: Ints) -> tuple[Ints, object]:
        addresses, owners = self._indexed.locate(indices)
        return addresses, (self._owner, owners)

    def is_known(self, indices: Ints) -> npt.NDArray[np.bool_]:
        return self._indexed.is_sound(indices)

    def all_addresses(self) -> Ints | None:
        return self._indexed.addresses

    def check(self, slots: Ints) -> npt.NDArray[np.bool_]:
        return self._indexed.check(slots, self._open_shard)

    def varies(self) -> npt.NDArray[np.uint8] | None:
        return self._indexed.varies

    def members(self, slots: Ints) -> tuple[Ints, Extents] | None:
        return self._indexed.members(slots, self._owner, self._open_shard)
