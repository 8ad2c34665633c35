"""From record numbers to batches: what runs in the background, and later in every worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..datasource.columns import Columns, StructureError, stack
from ..datasource.laps import COLLATE, TRANSFORM, lap, lap_source
from ..datasource.source import BaseSource, Source

__all__ = ["Fetcher", "describe_source"]

Indices = npt.NDArray[np.int64]

#: So many record numbers are listed in the note to an error.
_MAX_LISTED = 8


class Fetcher:
    """Reads, transforms and collates. Holds no state of its own; threads may share it; picklable if its parts are.

    An error of the source or of user code passes as it is, with a note that names the record.

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
        """Return one batch of the records at ``indices``."""
        if self._read_batch is not None:
            try:
                columns = self._read_batch(indices)
            except Exception as error:
                self._note(error, "reading", indices.tolist())
                raise
            lap_source()
            return columns
        numbers = indices.tolist()
        examples = self._read(numbers)
        lap_source()
        for transform in self._transforms:
            examples = [self._apply(transform, example, number) for example, number in zip(examples, numbers, strict=True)]
        lap(TRANSFORM)
        try:
            batch = self._collate(examples)
        except Exception as error:
            self._note(error, f"collating by {self._collate!r}", numbers)
            raise
        lap(COLLATE)
        return batch

    def fetch_run(self, indices: Indices, bounds: Sequence[int]) -> list[Any]:
        """Return the batches ``indices[bounds[k] : bounds[k + 1]]``, made in one go; needs ``takes_runs``."""
        assert self._read_batches is not None
        batches = self._read_batches(indices, bounds)
        lap_source()
        return batches

    def _read(self, numbers: list[int]) -> list[Any]:
        if self._read_many is None:
            return [self._read_one(number) for number in numbers]
        try:
            examples = self._read_many(numbers)
        except Exception as error:
            self._note(error, "reading", numbers)
            raise
        if len(examples) != len(numbers):
            raise ValueError(f"__getitems__ of {describe_source(self._source)} gave {len(examples)} for {len(numbers)} indices")
        return examples

    def _read_one(self, number: int) -> Any:
        try:
            return self._source[number]
        except Exception as error:
            self._note(error, "reading", [number])
            raise

    def _apply(self, transform: Callable[[Any], Any], example: Any, number: int) -> Any:
        try:
            result = transform(example)
            if result is None and self._collate is stack:
                raise TypeError("the transform returned None; return the example, or give a collate_fn that takes None")
            return result
        except Exception as error:
            self._note(error, f"transform {transform!r} on", [number])
            raise

    def _note(self, error: Exception, doing: str, numbers: list[int]) -> None:
        """Say in a note to ``error`` which records it is about."""
        if isinstance(error, StructureError):
            places = sorted({*error.places})
            which = " and ".join(f"example {place} is record {numbers[place]}" for place in places)
            error.add_note(f"{which} of {describe_source(self._source)}")
            return
        listed = ", ".join(map(str, numbers[:_MAX_LISTED]))
        more = f", ... ({len(numbers)} in all)" if len(numbers) > _MAX_LISTED else ""
        plural = "s" * (len(numbers) != 1)
        error.add_note(f"raised by {doing} record{plural} {listed}{more} of {describe_source(self._source)}")


def describe_source(source: Source[Any]) -> str:
    """Return what a source is in a few words: its ``repr`` where that is short, as a list's is not."""
    return repr(source) if isinstance(source, BaseSource) else f"a {type(source).__name__} of {len(source)}"
