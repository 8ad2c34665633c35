"""A function of every element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from ..columns import Columns, stack
from ..source import BaseSource, Indices
from .identity import digest, name_function, show

__all__ = ["MapView"]

T = TypeVar("T")
U = TypeVar("U")


class MapView(BaseSource[Any]):
    """Functions of a source's elements, called one after the other at every read; made by ``map``.

    A map of a map is one view with both functions, and a slice of a map is a map of the slice: however often these are mixed,
    an element costs one call of each function and nothing for the depth.
    """

    def __init__(self, source: BaseSource[Any], functions: tuple[Callable[[Any], Any], ...]) -> None:
        for function in functions:
            if not callable(function):
                raise TypeError(f"map needs a function, got {type(function).__name__}")
        self._source = source
        self._maps = functions

    def map(self, function: Callable[[Any], U]) -> BaseSource[U]:
        return MapView(self._source, (*self._maps, function))

    def __len__(self) -> int:
        return len(self._source)

    def _read_one(self, index: int) -> Any:
        return self._apply(self._source._read_one(index), index)

    def _read_many(self, indices: Indices) -> list[Any]:
        apply = self._apply
        return [apply(*pair) for pair in zip(self._source._read_many(indices), indices.tolist(), strict=True)]

    def _read_batches(self, indices: Indices, bounds: Sequence[int]) -> list[Columns]:
        examples = self._read_many(indices)
        return [stack(examples[start:stop]) for start, stop in pairwise(bounds)]

    def _will_need(self, indices: Indices) -> int:
        return self._source._will_need(indices)

    def _apply(self, element: Any, index: int) -> Any:
        function: Any = None
        try:
            for function in self._maps:
                element = function(element)
        except Exception as error:
            error.add_note(f"raised by {name_function(function)} on {self._source._origin(index)}")
            raise
        return element

    def _at(self, indices: range | Indices) -> BaseSource[Any]:
        return MapView(self._source._at(indices), self._maps)

    def _origin(self, index: int) -> str:
        return self._source._origin(index)

    def _sources(self) -> tuple[BaseSource[Any], ...]:
        return (self._source,)

    def _functions(self) -> tuple[Callable[[Any], Any], ...]:
        return self._maps

    @property
    def fingerprint(self) -> str:
        return digest("map", self._source.fingerprint, *map(name_function, self._maps))

    def __repr__(self) -> str:
        return show(self._source) + "".join(f".map({name_function(function)})" for function in self._maps)
