"""Some fields of every element, as a tuple."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..columns import Columns
from ..source import BaseSource, Indices
from .identity import digest, show

__all__ = ["FieldsView"]


class FieldsView(BaseSource[tuple[Any, ...]]):
    """The fields ``names`` of every element, a dict, in that order; made by ``as_tuple``. Columns stay columns."""

    def __init__(self, source: BaseSource[Any], names: tuple[str, ...]) -> None:
        if not names or not all(isinstance(name, str) for name in names):
            raise TypeError(f'as_tuple takes names of fields, as in as_tuple("image", "label"), got {names}')
        self._source = source
        self._names = names

    def __len__(self) -> int:
        return len(self._source)

    def _read_one(self, index: int) -> tuple[Any, ...]:
        return self._pick(self._source._read_one(index))

    def _read_many(self, indices: Indices) -> list[tuple[Any, ...]]:
        return list(map(self._pick, self._source._read_many(indices)))

    def _read_columns(self, indices: Indices) -> Columns:
        return self._pick(self._source._read_columns(indices))

    def _read_batches(self, indices: Indices, bounds: Sequence[int]) -> list[Columns]:
        return list(map(self._pick, self._source._read_batches(indices, bounds)))

    def _will_need(self, indices: Indices) -> int:
        return self._source._will_need(indices)

    def _pick(self, fields: Any) -> tuple[Any, ...]:
        return tuple([_find(fields, name) for name in self._names])

    def _at(self, indices: range | Indices) -> BaseSource[tuple[Any, ...]]:
        return FieldsView(self._source._at(indices), self._names)

    def _origin(self, index: int) -> str:
        return self._source._origin(index)

    def _sources(self) -> tuple[BaseSource[Any], ...]:
        return (self._source,)

    @property
    def fingerprint(self) -> str:
        return digest("fields", self._source.fingerprint, *self._names)

    def __repr__(self) -> str:
        return f"{show(self._source)}.as_tuple({', '.join(map(repr, self._names))})"


def _find(fields: Any, name: str) -> Any:
    """Return the field called ``name``, "objects/bbox" one inside another; a name with "/" in it comes first."""
    found = fields
    for key in (name,) if isinstance(fields, Mapping) and name in fields else name.split("/"):
        if not isinstance(found, Mapping) or key not in found:
            there = f"there are {sorted(map(str, fields))}" if isinstance(fields, Mapping) else f"got a {type(fields).__name__}"
            raise ValueError(f"no field is called {name!r}; {there}")
        found = found[key]
    return found
