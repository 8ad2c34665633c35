"""Sources side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, overload

from ..columns import Columns
from ..source import BaseSource, Indices, Source
from .identity import digest, show
from .sequence import as_source

__all__ = ["NumberSource", "ZipView", "enumerate_source", "zip_sources"]

T = TypeVar("T")


@overload
def zip_sources(*sources: Source[Any]) -> BaseSource[tuple[Any, ...]]: ...
@overload
def zip_sources(**named: Source[Any]) -> BaseSource[dict[str, Any]]: ...


def zip_sources(*sources: Source[Any], **named: Source[Any]) -> BaseSource[Any]:
    """Return the elements of several sources side by side: tuples, or dicts where the sources are named.

        zip_sources(images, labels)[3]                  (images[3], labels[3])
        zip_sources(image=images, label=labels)[3]      {"image": images[3], "label": labels[3]}

    Lazy; columns are the tuple or dict of the sources' columns, so a batch asks each source once.

    Raises:
      TypeError: Something is no source, or some are named and some are not.
      ValueError: There are none, or their lengths differ; names them all.
    """
    if sources and named:
        raise TypeError("zip_sources gives tuples or dicts: name all of the sources or none")
    if not sources and not named:
        raise ValueError("zip_sources needs at least one source")
    parts = [as_source(source, "zip_sources") for source in (*sources, *named.values())]
    if len(set(map(len, parts))) > 1:
        names = named or map(str, range(len(parts)))
        lengths = ", ".join(f"{name}: {len(part)}" for name, part in zip(names, parts, strict=True))
        raise ValueError(
            f"the sources differ in length ({lengths}); cut the longer ones, as in source[:{min(map(len, parts))}]"
        )
    return ZipView(parts, tuple(named))


class ZipView(BaseSource[Any]):
    """What ``zip_sources`` returns; dicts where there are names."""

    def __init__(self, parts: Sequence[BaseSource[Any]], names: tuple[str, ...]) -> None:
        self._parts = tuple(parts)
        self._names = names

    def __len__(self) -> int:
        return len(self._parts[0])

    def _read_one(self, index: int) -> Any:
        return self._join([part._read_one(index) for part in self._parts])

    def _read_many(self, indices: Indices) -> list[Any]:
        rows = zip(*[part._read_many(indices) for part in self._parts], strict=True)
        return list(map(self._join, rows)) if self._names else list(rows)

    def _read_columns(self, indices: Indices) -> Columns:
        return self._join([part._read_columns(indices) for part in self._parts])

    def _read_batches(self, indices: Indices, bounds: Sequence[int]) -> list[Columns]:
        return list(map(self._join, zip(*[part._read_batches(indices, bounds) for part in self._parts], strict=True)))

    def _will_need(self, indices: Indices) -> int:
        return sum(part._will_need(indices) for part in self._parts)

    def _join(self, values: Sequence[Any]) -> Any:
        return dict(zip(self._names, values, strict=True)) if self._names else tuple(values)

    def _sources(self) -> tuple[BaseSource[Any], ...]:
        return self._parts

    @property
    def fingerprint(self) -> str:
        return digest("zip", *(part.fingerprint for part in self._parts), *self._names)

    def __repr__(self) -> str:
        names = [f"{name}=" for name in self._names] or [""] * len(self._parts)
        shown = ", ".join(f"{name}{show(part)}" for name, part in zip(names, self._parts, strict=True))
        return f"zip_sources({shown})"


class NumberSource(BaseSource[int]):
    """The numbers ``start``, ``start + 1`` ... as a source."""

    def __init__(self, start: int, length: int) -> None:
        self._start = start
        self._length = length

    def __len__(self) -> int:
        return self._length

    def _read_one(self, index: int) -> int:
        return self._start + index

    def _read_many(self, indices: Indices) -> list[int]:
        return [self._start + index for index in indices.tolist()]

    def _read_columns(self, indices: Indices) -> Columns:
        return indices + self._start

    @property
    def fingerprint(self) -> str:
        return digest("numbers", str(self._start), str(self._length))

    def __repr__(self) -> str:
        return f"NumberSource({self._start}, {self._length})"


def enumerate_source(source: BaseSource[T], start: int) -> BaseSource[tuple[int, T]]:
    """Return ``(start + index, element)`` for every element."""
    return ZipView([NumberSource(start, len(source)), source], ())
