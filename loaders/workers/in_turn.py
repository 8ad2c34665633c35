"""Nobody works ahead: each result is made when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

__all__ = ["InTurn"]

J = TypeVar("J")
R = TypeVar("R")


class InTurn(Iterator[R], Generic[R]):
    """Calls ``work(job)`` for each of ``jobs`` in the thread that asks for the result; else as ``Prefetcher``."""

    stale: Final = False
    ready: Final = 0

    def __init__(self, jobs: Iterator[J], work: Callable[[J], R]) -> None:
        self._results = map(work, jobs)

    def __next__(self) -> R:
        return next(self._results)

    def close(self) -> None:
        """Do nothing: there is nothing under way."""
