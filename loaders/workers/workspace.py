"""A slot while a worker fills it: batches grow in the place that they are sent from."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .arena import Arena

__all__ = ["Workspace"]

_ALIGNMENT = 64


class Workspace:
    """Memory of a slot, handed out from its start on. For one job.

    Attributes:
      memory: All of the slot, uint8.
      taken: How many bytes were handed out.
    """

    def __init__(self, arena: Arena, start: int, size: int) -> None:
        self.memory = arena.memory[start : start + size]
        self.taken = 0
        self._arena = arena
        self._start = start

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Return an uninitialised array in the slot; in private memory where there is no room, which is copied when sent."""
        at = -(-self.taken // _ALIGNMENT) * _ALIGNMENT
        nbytes = math.prod(shape) * dtype.itemsize
        if at + nbytes > len(self.memory):
            return np.empty(shape, dtype)
        try:
            self._arena.reserve(self._start + at, nbytes)
        except OSError:
            return np.empty(shape, dtype)  # that the disk is full is told when there is something to send
        self.taken = at + nbytes
        return self.memory[at : at + nbytes].view(dtype).reshape(shape)
