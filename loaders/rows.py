"""Large examples stacked while they are made: each goes into its row and is let go of, while it is in the cache.

A batch of 64 images of 600 kB takes 38 MB: kept until the last is made and stacked then, each byte goes to memory and back
twice, and the pages that it lay in go back to the system with every batch. Doing without took 40 % off the time of decoding
and cropping JPEGs of 224 x 224 to float32 (``tests/benchmarks/test_worker_images.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..datasource.columns import Columns, stack
from ..datasource.structure import make_nester, walk

__all__ = ["Allocate", "Rows", "has_large"]

#: Returns an uninitialised array of a shape and dtype, as ``np.empty``.
Allocate: TypeAlias = Callable[[tuple[int, ...], np.dtype[Any]], npt.NDArray[Any]]

#: Arrays of at least so many bytes are worth it: putting an example apart takes about 3 us.
_LARGE_BYTES = 32 << 10


class Rows:
    """The examples of one batch, stacked as ``stack`` does.

    Args:
      count: How many there will be, ``>= 1``.
      allocate: Where the columns of large arrays lie.
    """

    def __init__(self, count: int, allocate: Allocate) -> None:
        self._count = count
        self._allocate = allocate
        self._examples: list[Any] = []  # without their large arrays, as long as these are all alike
        self._paths: list[str] = []
        self._columns: dict[int, npt.NDArray[Any]] = {}  # by the leaf's number

    @property
    def has_large(self) -> bool:
        """Whether there are arrays that are worth it."""
        return bool(self._columns)

    def add(self, example: Any) -> None:
        """Take the next example; nobody may change it any more."""
        if not self._examples:
            self._begin(example)
        self._examples.append(self._put(example) if self._columns else example)

    def finish(self) -> Columns:
        """Return the batch.

        Raises:
          StructureError: As ``stack`` does.
        """
        batch = stack(self._examples)
        if not self._columns:
            return batch
        leaves = [leaf for _, leaf in walk(batch)]
        for number, column in self._columns.items():
            leaves[number] = column
        return make_nester(batch)(leaves)

    def _begin(self, example: Any) -> None:
        leaves = walk(example)
        self._paths = [path for path, _ in leaves]
        for number, (_, leaf) in enumerate(leaves):
            if _is_large(leaf):
                self._columns[number] = self._allocate((self._count, *leaf.shape), leaf.dtype)

    def _put(self, example: Any) -> Any:
        """Return an example without what went into its row; as it is, like those before it, where it is unlike these."""
        leaves = walk(example)
        values = [leaf for _, leaf in leaves]
        alike = [path for path, _ in leaves] == self._paths and all(
            type(values[k]) is np.ndarray and values[k].dtype == column.dtype and values[k].shape == column.shape[1:]
            for k, column in self._columns.items()
        )
        if not alike:
            self._give_up()
            return example
        row = len(self._examples)
        for number, column in self._columns.items():
            column[row] = values[number]
            values[number] = None
        return make_nester(example)(values)

    def _give_up(self) -> None:
        for row, example in enumerate(self._examples):
            values = [leaf for _, leaf in walk(example)]
            for number, column in self._columns.items():
                values[number] = column[row]
            self._examples[row] = make_nester(example)(values)
        self._columns = {}


def has_large(example: Any) -> bool:
    """Return whether an example has arrays that are worth it."""
    return any(_is_large(leaf) for _, leaf in walk(example))


def _is_large(leaf: object) -> bool:
    if not isinstance(leaf, np.ndarray) or type(leaf) is not np.ndarray or leaf.nbytes < _LARGE_BYTES:
        return False
    return leaf.dtype.isnative and leaf.dtype.kind in "biufc"
