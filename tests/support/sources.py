"""Sources for tests of views: one that says what it was asked, and functions that pickle."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from arrayfeed.datasource import BaseSource
from arrayfeed.datasource.columns import Columns, stack

__all__ = ["Asked", "divide", "negate"]


class Asked(BaseSource[Any]):
    """A list as a source that notes every call: ``("one", 3)``, ``("many", [3, 1])``, ``("columns", [3, 1])``."""

    def __init__(self, elements: Sequence[Any], name: str = "asked") -> None:
        self.elements = list(elements)
        self.name = name
        self.calls: list[tuple[str, Any]] = []
        self.closed = False

    def __len__(self) -> int:
        return len(self.elements)

    def _read_one(self, index: int) -> Any:
        self.calls.append(("one", index))
        return self.elements[index]

    def _read_many(self, indices: Any) -> list[Any]:
        self.calls.append(("many", indices.tolist()))
        return [self.elements[index] for index in indices]

    def _read_columns(self, indices: Any) -> Columns:
        self.calls.append(("columns", indices.tolist()))
        return stack([self.elements[index] for index in indices])

    def _read_batches(self, indices: Any, bounds: Sequence[int]) -> list[Columns]:
        self.calls.append(("batches", (indices.tolist(), list(bounds))))
        return [stack([self.elements[index] for index in indices[start:stop]]) for start, stop in pairwise(bounds)]

    def close(self) -> None:
        self.closed = True

    @property
    def fingerprint(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Asked({self.name})"

    @property
    def asked(self) -> list[tuple[str, Any]]:
        """What was noted since this was last asked for."""
        calls, self.calls = self.calls, []
        return calls


def negate(element: Any) -> Any:
    """Return the negative of a number or an array."""
    return np.negative(element)


def divide(element: Any) -> Any:
    """Return 100 divided by a number; 0 raises."""
    return 100 // element
