"""From record numbers to batches: what runs in the background, and later in every worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from ..datasource.columns import Columns, map_leaves, stack
from ..datasource.source import Source

__all__ = ["Fetcher"]

Indices = npt.NDArray[np.int64]


class Fetcher:
    """Reads, transforms and collates. Holds no state of its own; threads may share it; picklable if its parts are.

    Args:
      source: Anything with ``__len__`` and ``__getitem__``; ``read_batch`` and ``__getitems__`` are used where they exist.
      transforms: Called on each example, one after the other.
      collate_fn: List of examples -> batch; None stacks them, and then takes whole columns where no transform needs examples.
    """

    def __init__(
        self,
        source: Source[Any],
        transforms: Sequence[Callable[[Any], Any]],
        collate_fn: Callable[[list[Any]], Any] | None,
    ) -> None:
        self._source = source
        self._transforms = tuple(transforms)
        self._collate = collate_fn or stack
        columnar = not transforms and collate_fn is None
        self._read_batch: Callable[[Indices], Columns] | None = (
            getattr(source, "read_batch", None) if columnar else None
        )
        self._read_many: Callable[[list[int]], list[Any]] | None = getattr(source, "__getitems__", None)

    @property
    def takes_columns(self) -> bool:
        """Whether several batches are cheaper made in one go."""
        return self._read_batch is not None

    def fetch(self, indices: Indices) -> Any:
        """Return one batch of the records at ``indices``. Errors of the source and of user code pass as they are."""
        if self._read_batch is not None:
            return self._read_batch(indices)
        numbers = indices.tolist()
        if self._read_many is not None:
            examples = self._read_many(numbers)
        else:
            examples = [self._source[number] for number in numbers]
        for transform in self._transforms:
            examples = [self._apply(transform, example, k, numbers) for k, example in enumerate(examples)]
        return self._collate(examples)

    def fetch_run(self, indices: Indices, extents: Sequence[slice]) -> list[Any]:
        """Return the batches ``indices[extent]``, cut out of one read; needs ``takes_columns``.

        They are views of shared arrays, disjoint and writable.
        """
        assert self._read_batch is not None
        columns = self._read_batch(indices)
        return [map_leaves(itemgetter(extent), columns) for extent in extents]

    def _apply(self, transform: Callable[[Any], Any], example: Any, place: int, numbers: list[int]) -> Any:
        try:
            return transform(example)
        except Exception as error:
            error.add_note(f"raised by transform {transform!r} on record {numbers[place]} of {self._source!r}")
            raise
