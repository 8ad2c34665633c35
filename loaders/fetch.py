"""From record numbers to batches: what runs in the background, and later in every worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..datasource.columns import Columns, stack
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
        # Whole columns serve where nobody asks for single examples.
        columnar = not transforms and collate_fn is None
        self._read_batch: Callable[[Indices], Columns] | None = getattr(source, "read_batch", None) if columnar else None
        self._read_batches: Callable[..., list[Columns]] | None = getattr(source, "read_batches", None) if columnar else None
        self._read_many: Callable[[list[int]], list[Any]] | None = getattr(source, "__getitems__", None)

    def parts(self) -> dict[str, object]:
        """Return what it was made of, by the names users know."""
        transforms = {f"transforms[{k}]": transform for k, transform in enumerate(self._transforms)}
        return {"source": self._source, **transforms, "collate_fn": self._collate}

    @property
    def takes_runs(self) -> bool:
        """Whether several batches are cheaper made in one go."""
        return self._read_batches is not None

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

    def fetch_run(self, indices: Indices, bounds: Sequence[int]) -> list[Any]:
        """Return the batches ``indices[bounds[k] : bounds[k + 1]]``, made in one go; needs ``takes_runs``."""
        assert self._read_batches is not None
        return self._read_batches(indices, bounds)

    def _apply(self, transform: Callable[[Any], Any], example: Any, place: int, numbers: list[int]) -> Any:
        try:
            return transform(example)
        except Exception as error:
            error.add_note(f"raised by transform {transform!r} on record {numbers[place]} of {self._source!r}")
            raise
