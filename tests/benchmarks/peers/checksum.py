"""What an epoch delivered, as a few numbers that do not depend on the order: the same for all peers and for the arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["Tally"]

_WEIGHTS = np.random.default_rng(7).integers(0, 1 << 63, 1 << 15, dtype=np.uint64) | np.uint64(1)


class Tally:
    """Adds up records: how many, the sum of their hashes modulo 2**64, and how mixed the batches were.

    Args:
      fields: The fields that count, each with its NumPy dtype, to which a batch is cast first.
      classes: How many equal runs of labels a class is made of; a label ``l`` of ``n`` is in class ``l * classes // n``.
      pad: In packed rows, the value of places that hold nothing; each value in them is a record then.
    """

    def __init__(self, fields: Mapping[str, str], *, classes: int, labels: int, pad: int | None = None) -> None:
        self.records = 0
        self.checksum = 0
        self._fields = dict(sorted(fields.items()))
        self._classes = classes
        self._labels = labels
        self._pad = pad
        self._shares: list[float] = []
        self._first_size = 0

    def add(self, batch: Mapping[str, Any]) -> None:
        """Count a batch: arrays whose first axis is the record."""
        columns = {name: np.asarray(batch[name]).astype(dtype, copy=False) for name, dtype in self._fields.items()}
        if self._pad is not None:
            values = np.concatenate([column.reshape(-1) for column in columns.values()])
            columns = {"value": values[values != self._pad]}
        size = len(next(iter(columns.values())))
        self.records += size
        self._first_size = self._first_size or size
        if size:
            self.checksum = (self.checksum + int(_hash_rows(columns).sum(dtype=np.uint64))) % (1 << 64)
        if "label" in batch and size == self._first_size:
            classes = np.asarray(batch["label"], np.int64) * self._classes // self._labels
            self._shares.append(np.bincount(classes).max() / size)

    @property
    def largest_share(self) -> float | None:
        """The largest class's share of a full batch, the mean over all: near 1 / classes for well-shuffled data."""
        return sum(self._shares) / len(self._shares) if self._shares else None


def _hash_rows(columns: Mapping[str, Any]) -> Any:
    """Return a hash of each row, over all columns: uint64, ``[rows]``."""
    total = np.uint64(0)
    for column in columns.values():
        rows = np.ascontiguousarray(column).reshape(len(column), -1).view(np.uint8)
        padded = np.zeros((len(rows), -(-rows.shape[1] // 8) * 8), np.uint8)
        padded[:, : rows.shape[1]] = rows
        words = padded.view(np.uint64)
        weights = np.resize(_WEIGHTS, words.shape[1])
        total = _mix(total * np.uint64(0x9E3779B97F4A7C15) + (words * weights).sum(axis=1, dtype=np.uint64))
    return total


def _mix(values: Any) -> Any:
    """Return SplitMix64's finisher of each value, so that sums of rows say nothing about sums of hashes."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
