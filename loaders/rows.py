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
from ..datasource.structure import fields_of, make_nester, walk

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
        self._names: list[Any] = []
        self._is_flat = False
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
        return self._put_back(batch, self._columns) if self._columns else batch

    def _begin(self, example: Any) -> None:
        self._is_flat = type(example) is dict and all(fields_of(value) is None for value in example.values())
        self._names, values = self._take_apart(example)
        for number, leaf in enumerate(values):
            if _is_large(leaf):
                self._columns[number] = self._allocate((self._count, *leaf.shape), leaf.dtype)

    def _put(self, example: Any) -> Any:
        """Return an example without what went into its row; as it is, like those before it, where it is unlike these."""
        names, values = self._take_apart(example)
        alike = names == self._names and all(
            type(values[k]) is np.ndarray and values[k].dtype == column.dtype and values[k].shape == column.shape[1:]
            for k, column in self._columns.items()
        )
        if not alike:
            rows = [{k: column[row] for k, column in self._columns.items()} for row in range(len(self._examples))]
            self._examples[:] = [self._put_back(*each) for each in zip(self._examples, rows, strict=True)]
            self._columns = {}
            return example
        row = len(self._examples)
        for number, column in self._columns.items():
            column[row] = values[number]
            values[number] = None
        return self._put_together(example, values)

    def _put_back(self, like: Any, leaves: dict[int, npt.NDArray[Any]]) -> Any:
        _, values = self._take_apart(like)
        for number, leaf in leaves.items():
            values[number] = leaf
        return self._put_together(like, values)

    def _take_apart(self, node: Any) -> tuple[list[Any], list[Any]]:
        """Return names and values of the leaves. Most examples are plain dicts, of which this takes a tenth of the time."""
        if self._is_flat:
            return ([*node], [*node.values()]) if type(node) is dict else ([], [])
        leaves = walk(node)
        return [path for path, _ in leaves], [leaf for _, leaf in leaves]

    def _put_together(self, like: Any, values: list[Any]) -> Any:
        return dict(zip(like, values, strict=True)) if self._is_flat else make_nester(like)(values)


def has_large(example: Any) -> bool:
    """Return whether an example has arrays that are worth it."""
    return any(_is_large(leaf) for _, leaf in walk(example))


def _is_large(leaf: object) -> bool:
    if not isinstance(leaf, np.ndarray) or type(leaf) is not np.ndarray or leaf.nbytes < _LARGE_BYTES:
        return False
    return leaf.dtype.isnative and leaf.dtype.kind in "biufc"
