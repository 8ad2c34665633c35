"""A new permutation every epoch, from one seed."""

import operator
from typing import Final

import numpy as np
import numpy.typing as npt

from .keys import epoch_key, epoch_keys, root_words, seed_as_json
from .permutation import ORDER_VERSION, Permutation
from .protocol import Indices
from .table import shuffled_rows

__all__ = ["Shuffle"]

# Shorter epochs are looked up in tables of many rows. Of longer ones a block meets few, and the last is kept for the next.
_SHORT: Final = 2048
# Tables of at most this many numbers are made at a time: 128 kB.
_TABLE_NUMBERS: Final = 1 << 16


class Shuffle:
    """Permutations of ``range(length)`` keyed by seed, purpose and epoch. Keeps the latest; threads may share it.

    Args:
      length: ``0 <= length < 2**63``.
      seed: Any integer.
      purpose: Separates the uses of one seed.
    """

    __slots__ = ("_latest", "_root", "length", "seed")

    def __init__(self, length: int, seed: int, purpose: str = "shuffle") -> None:
        self.length = length
        self.seed = operator.index(seed)
        self._root = root_words(self.seed, f"arrayfeed.{purpose}")
        self._latest: tuple[int, Permutation] | None = None

    def of(self, epoch: int) -> Permutation:
        """Return an epoch's permutation."""
        # Two threads may both make it; both make the same one. The pair is one attribute, so that it is read at once.
        latest = self._latest
        if latest is None or latest[0] != epoch:
            self._latest = latest = (epoch, Permutation(self.length, epoch_key(self._root, epoch)))
        return latest[1]

    def across(self, epochs: npt.NDArray[np.int64], places: Indices) -> Indices:
        """Return the images of places, each in its own epoch. A thousand short epochs cost little more than a long one.

        Args:
          epochs: An epoch for each place, in any order.
          places: ``0 <= place < length``; not checked here.
        """
        first, last = int(epochs.min()), int(epochs.max())
        if last - first < len(epochs):
            known, rows = np.arange(first, last + 1), epochs - first
        else:
            known, rows = np.unique(epochs, return_inverse=True)
        if self.length > _SHORT:
            images = np.empty(len(places), np.int64)
            for row, epoch in enumerate(known.tolist()):
                chosen = rows == row
                images[chosen] = self.of(epoch).forward(places[chosen])
            return images
        step = max(1, _TABLE_NUMBERS // max(1, self.length))
        if len(known) <= step:
            return self._look_up(known, rows, places)
        images = np.empty(len(places), np.int64)
        for row in range(0, len(known), step):
            chosen = (rows >= row) & (rows < row + step)
            images[chosen] = self._look_up(known[row : row + step], rows[chosen] - row, places[chosen])
        return images

    def _look_up(self, epochs: npt.NDArray[np.int64], rows: npt.NDArray[np.int64], places: Indices) -> Indices:
        table = shuffled_rows(epoch_keys(self._root, epochs), self.length)
        return table.reshape(-1).take(rows * self.length + places).astype(np.int64)

    def identity(self) -> dict[str, object]:
        """Return, ready for JSON, what decides the permutations besides their length."""
        return {"order_version": ORDER_VERSION, "seed": seed_as_json(self.seed)}

    def __getstate__(self) -> dict[str, object]:
        return {"length": self.length, "seed": self.seed, "_root": self._root, "_latest": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
