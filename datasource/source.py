"""What a source promises, and the part of the promise that is the same for all of them."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import pairwise
from types import TracebackType
from typing import Any, Protocol, Self, SupportsIndex, TypeAlias, TypeVar, overload, runtime_checkable

import numpy as np
import numpy.typing as npt

from .columns import Columns, stack

__all__ = ["BaseSource", "IndexView", "Indices", "Source"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Indices: TypeAlias = npt.NDArray[np.int64]


@runtime_checkable
class Source(Protocol[T_co]):
    """The least that a loader needs: a length, and any element by its number.

    A source that also has ``__getitems__(indices) -> list`` or ``read_batch(indices) -> columns`` is read that way, many
    elements at once.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> T_co: ...


class BaseSource(ABC, Sequence[T]):
    """A random-access sequence, complete once ``_read_one`` and ``__len__`` are given.

        source[3], source[-1], source[np.int64(3)]      one element
        source[10:20:2]                                 a lazy view; reads nothing
        source[[3, 1, 1]], source[np.array([3, 1])]     a list, in the asked order, duplicates kept
        source.read_batch([3, 1, 1])                    the same elements as columns, each with a leading batch axis

    An index outside ``-len(self) <= index < len(self)`` raises ``IndexError``, one that is no integer ``TypeError``.
    Sources are safe to read from many threads, after ``fork``, and pickle without the data they read.
    """

    # -- what a subclass gives ------------------------------------------------------------------------------------

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of elements."""

    @abstractmethod
    def _read_one(self, index: int) -> T:
        """Return element ``0 <= index < len(self)``; the bound holds already."""

    def _read_many(self, indices: Indices) -> list[T]:
        """Return the elements at ``indices``, all within bounds, in that order."""
        return [self._read_one(index) for index in indices.tolist()]

    def _read_columns(self, indices: Indices) -> Columns:
        """Return the elements at ``indices``, all within bounds, as columns."""
        return stack(self._read_many(indices))

    def _read_batches(self, indices: Indices, bounds: Sequence[int]) -> list[Columns]:
        """Return several batches, cut out of ``indices``, all within bounds, at ``bounds``."""
        return [self._read_columns(indices[start:stop]) for start, stop in pairwise(bounds)]

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A short hexadecimal digest of what is read and in which order: equal for equal sources, stable over processes."""

    def close(self) -> None:
        """Release files and mappings. Reading afterwards raises ``ValueError``."""

    # -- the contract ---------------------------------------------------------------------------------------------

    @overload
    def __getitem__(self, key: int, /) -> T: ...
    @overload
    def __getitem__(self, key: slice, /) -> IndexView[T]: ...
    @overload
    def __getitem__(self, key: Sequence[int] | npt.NDArray[np.integer[Any]], /) -> list[T]: ...

    def __getitem__(self, key: Any, /) -> Any:
        if isinstance(key, slice):
            return IndexView(self, range(*key.indices(len(self))))
        if isinstance(key, (list, tuple, range)) or (isinstance(key, np.ndarray) and key.ndim > 0):
            return self.__getitems__(key)
        return self._read_one(self._normalise_one(key))

    def __getitems__(self, indices: Sequence[int] | npt.NDArray[np.integer[Any]]) -> list[T]:
        """Return the elements at ``indices`` as a list, in the asked order, duplicates kept (torch's batched read)."""
        return self._read_many(self._normalise(indices))

    def read_batch(self, indices: Sequence[int] | npt.NDArray[np.integer[Any]]) -> Columns:
        """Return the elements at ``indices`` as columns: every leaf an array of shape ``(len(indices), ...)``."""
        return self._read_columns(self._normalise(indices))

    def read_batches(self, indices: Sequence[int] | npt.NDArray[np.integer[Any]], bounds: Sequence[int]) -> list[Columns]:
        """Return ``read_batch(indices[bounds[k] : bounds[k + 1]])`` for each ``k``: cheaper, for small batches."""
        return self._read_batches(self._normalise(indices), bounds)

    def select(self, indices: Sequence[int] | npt.NDArray[np.integer[Any]]) -> IndexView[T]:
        """Return a lazy view of the elements at ``indices``, in that order, duplicates kept.

        The view holds the indices (8 bytes each); a regular step, as in ``source[a:b:c]``, costs nothing.
        """
        return IndexView(self, self._normalise(indices))

    def __iter__(self) -> Iterator[T]:
        # By blocks: reading many at once is several times cheaper than one by one, and 64 are soon there.
        for start in range(0, len(self), 64):
            yield from self._read_many(np.arange(start, min(start + 64, len(self)), dtype=np.int64))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # -- helpers --------------------------------------------------------------------------------------------------

    def _describe_length(self) -> str:
        return f"{len(self)} elements"

    def _normalise(self, indices: Sequence[int] | npt.NDArray[np.integer[Any]]) -> Indices:
        """Return a copy of ``indices`` as int64 within ``[0, len(self))``, or raise naming the first that does not fit."""
        # A copy, whatever came: bounds that were checked must hold until the last read, and for ever in a view.
        array = np.array(indices)
        if array.ndim != 1:
            raise TypeError(f"indices must be one-dimensional, got shape {array.shape}")
        if array.dtype.kind not in "iu":
            if array.dtype.kind == "b":
                raise TypeError("indices must be integers, got bool; np.flatnonzero(mask) gives the indices of a mask")
            # Python integers past 64 bits, floats and anything else: judged one by one, as single reads are.
            array = np.array([self._normalise_one(index) for index in indices], np.int64)
        length = len(self)
        bad = (array < -length) | (array >= length)
        if bad.any():
            raise IndexError(self._out_of_range(int(array[bad.argmax()])))
        result = array.astype(np.int64, copy=False)
        negative = result < 0
        return np.where(negative, result + length, result) if negative.any() else result

    def _normalise_one(self, index: SupportsIndex) -> int:
        number = operator.index(index)
        length = len(self)
        if not -length <= number < length:
            raise IndexError(self._out_of_range(number))
        return number % length

    def _out_of_range(self, index: int) -> str:
        return f"index {index} is out of range for {self._describe_length()}"


class IndexView(BaseSource[T]):
    """Some elements of a source, by number; made by slicing and ``select``. Reads nothing until asked.

    Views of views collapse into one: however deep, an element costs one lookup.
    """

    def __init__(self, source: BaseSource[T], indices: range | Indices) -> None:
        inner = source._indices if isinstance(source, IndexView) else None
        self._source: BaseSource[T] = source._source if isinstance(source, IndexView) else source
        self._indices: range | Indices = indices if inner is None else _compose(inner, indices)

    def __len__(self) -> int:
        return len(self._indices)

    def _read_one(self, index: int) -> T:
        return self._source._read_one(int(self._indices[index]))

    def _read_many(self, indices: Indices) -> list[T]:
        return self._source._read_many(self._lookup(indices))

    def _read_columns(self, indices: Indices) -> Columns:
        return self._source._read_columns(self._lookup(indices))

    def _read_batches(self, indices: Indices, bounds: Sequence[int]) -> list[Columns]:
        return self._source._read_batches(self._lookup(indices), bounds)

    def _lookup(self, indices: Indices) -> Indices:
        if isinstance(self._indices, range):
            return indices * self._indices.step + self._indices.start
        return self._indices[indices]

    @property
    def fingerprint(self) -> str:
        # However the view was made, by a slice or by select: what counts are the elements and their order.
        indices = _as_range(self._indices)
        whole = self._source.fingerprint
        digest = blake2b(whole.encode(), digest_size=8)
        if not isinstance(indices, range):
            digest.update(indices.astype("<i8", copy=False).tobytes())
        elif indices == range(len(self._source)):
            return whole
        else:
            digest.update(f"range {indices.start} {len(indices)} {indices.step}".encode())
        return digest.hexdigest()

    def close(self) -> None:
        self._source.close()

    def __repr__(self) -> str:
        which = (
            f"[{self._indices.start}:{self._indices.stop}:{self._indices.step}]"
            if isinstance(self._indices, range)
            else ".select(...)"
        )
        return f"<{len(self)} of {self._source!r}{which}>"


def _as_range(indices: range | Indices) -> range | Indices:
    """Return indices with a regular step as a range, equal ones always as the same."""
    if len(indices) < 2:
        return range(int(indices[0]), int(indices[0]) + 1) if len(indices) else range(0)
    start, step = int(indices[0]), int(indices[1]) - int(indices[0])
    if isinstance(indices, range) or (step and (np.diff(indices) == step).all()):
        return range(start, start + len(indices) * step, step)
    return indices


def _compose(outer: range | Indices, inner: range | Indices) -> range | Indices:
    """Return ``outer[inner]``."""
    if isinstance(inner, range):
        start, stop, step = inner.start, inner.stop, inner.step
        if isinstance(outer, range):
            # An empty range, or one that runs down past 0, has ends that are no positions; len() is what counts.
            first = outer.start + start * outer.step
            return range(first, first + len(inner) * step * outer.step, step * outer.step)
        return outer[start : None if stop < 0 else stop : step] if len(inner) else outer[:0]
    return np.asarray(inner) * outer.step + outer.start if isinstance(outer, range) else outer[inner]
