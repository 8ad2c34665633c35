"""Numbers at equal distances, in place of an array of them."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
import numpy.typing as npt

__all__ = ["Steps"]

Ints = npt.NDArray[np.int64]


class Steps:
    """``first + k * step`` for ``0 <= k < count``: is indexed like an int64 array of them, and takes no memory. Immutable.

    An array of places is not looked at for its bounds: whoever indexes with one has checked it.
    """

    __slots__ = ("_count", "_first", "_step")

    def __init__(self, first: int, step: int, count: int) -> None:
        self._first, self._step, self._count = first, step, count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: Ints | slice) -> Ints: ...

    def __getitem__(self, place: int | Ints | slice) -> int | Ints:
        if isinstance(place, slice):
            place = np.arange(*place.indices(self._count))
        if isinstance(place, int):
            if not -self._count <= place < self._count:
                raise IndexError(f"place {place} is out of range for {self._count} numbers")
            place %= self._count
        return self._first + place * self._step

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return self[np.arange(self._count)].astype(dtype or np.int64, copy=False)
