"""Any object with a length and numbered elements, as a source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from ..columns import Columns, stack
from ..source import BaseSource, Indices, Source
from .identity import digest, show_value

__all__ = ["SequenceSource", "as_source"]

T = TypeVar("T")

#: Elements of a list that the fingerprint looks at.
_SAMPLE_ELEMENTS = 64


class SequenceSource(BaseSource[T]):
    """A list, or anything else with ``__len__`` and ``__getitem__``, as a source, so that views can be made of it.

        SequenceSource([3, 1, 4]).map(str), SequenceSource(a_torch_dataset).batch(32)

    ``__getitems__(indices)`` and ``read_batch(indices)`` are used where the object has them. Elements are handed out as they
    are, not copied. Pickles with the object; as safe from threads as that is.

    The fingerprint is the object's own where it has one, else its type and length; and of a list, tuple, range or text up to 64
    elements, evenly spaced, as far as their values can be seen.
    """

    def __init__(self, elements: Source[T]) -> None:
        if not hasattr(elements, "__len__") or not hasattr(elements, "__getitem__"):
            raise TypeError(f"a source needs __len__ and __getitem__, {type(elements).__name__} has not both")
        self._elements = elements
        self._length = len(elements)
        self._closed = False

    def __len__(self) -> int:
        return self._length

    def _open(self) -> Source[T]:
        if self._closed:
            raise ValueError(f"{self!r} is closed")
        return self._elements

    def _read_one(self, index: int) -> T:
        return self._open()[index]

    def _read_many(self, indices: Indices) -> list[T]:
        elements = self._open()
        read: Callable[[Sequence[int]], list[T]] | None = getattr(elements, "__getitems__", None)
        return read(indices.tolist()) if read is not None else [elements[index] for index in indices.tolist()]

    def _read_columns(self, indices: Indices) -> Columns:
        read: Callable[[Indices], Columns] | None = getattr(self._open(), "read_batch", None)
        return read(indices) if read is not None else stack(self._read_many(indices))

    def close(self) -> None:
        self._closed = True
        close = getattr(self._elements, "close", None)
        if close is not None:
            close()

    @property
    def fingerprint(self) -> str:
        elements = self._elements
        own = getattr(elements, "fingerprint", None)
        if isinstance(own, str):
            return own
        seen: list[str] = []
        if isinstance(elements, (list, tuple, range, str, bytes)) and self._length:
            places = np.linspace(0, self._length - 1, min(self._length, _SAMPLE_ELEMENTS)).astype(np.int64)
            seen = [show_value(elements[place]) for place in places.tolist()]
        kind = type(elements)
        return digest("sequence", f"{kind.__module__}.{kind.__qualname__}", str(self._length), *seen)

    def __repr__(self) -> str:
        return f"SequenceSource({self._length} elements of a {type(self._elements).__name__})"


def as_source(source: Source[T], taker: str) -> BaseSource[T]:
    """Return ``source`` with all that a ``BaseSource`` can do.

    Args:
      taker: Whose argument it is, for the error.

    Raises:
      TypeError: It is no source. A list is none: whether its elements are meant, or are sources, cannot be told.
    """
    if isinstance(source, BaseSource):
        return source
    if isinstance(source, (list, tuple, str, bytes, dict)):
        raise TypeError(
            f"{taker} takes sources, got a {type(source).__name__}; write {taker}(*sources) for a list of sources, "
            "SequenceSource(elements) for a list of elements"
        )
    return SequenceSource(source)
