"""What a source promises, and the part of the promise that is the same for all of them."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, SupportsIndex, TypeAlias, TypeVar, overload, runtime_checkable

import numpy as np
import numpy.typing as npt

from .columns import Columns, stack

if TYPE_CHECKING:
    from .views.cache import CacheView

__all__ = ["BaseSource", "Indices", "Source"]

T = TypeVar("T")
U = TypeVar("U")
T_co = TypeVar("T_co", covariant=True)

Indices: TypeAlias = npt.NDArray[np.int64]


@runtime_checkable
class Source(Protocol[T_co]):
    """The least that a loader needs: a length, and any element by its number.

    A source that also has ``__getitems__(indices) -> list`` or ``read_batch(indices) -> columns`` is read that way, many
    elements at once; one that has ``will_need(indices) -> int`` is told ahead what will be read, see ``BaseSource``.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> T_co: ...


class BaseSource(ABC, Sequence[T]):
    """A random-access sequence, complete once ``_read_one``, ``__len__`` and ``fingerprint`` are given.

        source[3], source[-1], source[np.int64(3)]      one element
        source[10:20:2]                                 a lazy view; reads nothing
        source[[3, 1, 1]], source[np.array([3, 1])]     a list, in the asked order, duplicates kept
        source.read_batch([3, 1, 1])                    the same elements as columns, each with a leading batch axis
        source.map(f).cache(), a + b, source.batch(32)  lazy views: sources again, with all of the above

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

    def _will_need(self, indices: Indices) -> int:
        """Do what ``will_need`` says, for ``indices`` that are all within bounds."""
        return 0

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A short hexadecimal digest of what is read and in which order: equal for equal sources, stable over processes."""

    def _sources(self) -> tuple[BaseSource[Any], ...]:
        """Return the sources that this one reads from; none where it reads files or memory."""
        return ()

    def _files(self) -> list[str]:
        """Return the paths of the files that this source itself reads, not those of its sources."""
        return []

    def _functions(self) -> tuple[Callable[..., Any], ...]:
        """Return the caller's functions whose results are the elements, for those who keep the results."""
        return ()

    def _at(self, indices: range | Indices) -> BaseSource[T]:
        """Return a view of the elements at ``indices``, all within bounds."""
        from .views.index import IndexView

        return IndexView(self, indices)

    def _origin(self, index: int) -> str:
        """Return in words which element of which source ``0 <= index < len(self)`` is, for errors."""
        return f"element {index} of {self!r}"

    def close(self) -> None:
        """Release files and mappings, of a view's sources too. Reading afterwards raises ``ValueError``."""
        for source in self._sources():
            source.close()

    # -- the contract ---------------------------------------------------------------------------------------------

    @overload
    def __getitem__(self, key: int, /) -> T: ...
    @overload
    def __getitem__(self, key: slice, /) -> BaseSource[T]: ...
    @overload
    def __getitem__(self, key: Sequence[int] | npt.NDArray[np.integer[Any]], /) -> list[T]: ...

    def __getitem__(self, key: Any, /) -> Any:
        if type(key) is int and 0 <= key < len(self):  # the usual key, at half the price of looking for all others first
            return self._read_one(key)
        if isinstance(key, slice):
            return self._at(range(*key.indices(len(self))))
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

    def will_need(self, indices: Sequence[int] | npt.NDArray[np.integer[Any]]) -> int:
        """Let the system read elements from disk that will be asked for soon; return how many bytes it was told of.

            source.will_need(order[1000:1128])      long before source.read_batch(order[1000:1032])

        Returns at once, reads nothing itself and changes nothing that is read. 0 where it is of no use: for short records, for
        what is in memory, and while what this thread reads comes out of the system's cache. Loaders do it by themselves.
        """
        return self._will_need(self._normalise(indices))

    def __iter__(self) -> Iterator[T]:
        # By blocks, because reading many at once is several times cheaper than one by one; small ones first, because the
        # caller may want a few only.
        start, size = 0, 1
        while start < len(self):
            stop = min(start + size, len(self))
            yield from self._read_many(np.arange(start, stop, dtype=np.int64))
            start, size = stop, min(2 * size, 64)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # -- views: lazy, and sources themselves; imported when used, because they are built on this class --------------

    def select(self, indices: Sequence[int] | npt.NDArray[np.integer[Any]]) -> BaseSource[T]:
        """Return a lazy view of the elements at ``indices``, in that order, duplicates kept.

            source.select([i for i, element in enumerate(source) if passes(element)])       a filter

        The view holds the indices (8 bytes each); those at a regular step, as in ``source[a:b:c]``, cost nothing.
        """
        if (
            isinstance(indices, range)
            and indices
            and 0 <= min(indices[0], indices[-1]) <= max(indices[0], indices[-1]) < len(self)
        ):
            return self._at(indices)
        found = self._normalise(indices)
        step = int(found[1] - found[0]) if found.size > 1 else 0
        if step and (np.diff(found) == step).all():
            return self._at(range(int(found[0]), int(found[-1]) + (1 if step > 0 else -1), step))
        return self._at(found)

    def map(self, function: Callable[[T], U]) -> BaseSource[U]:
        """Return a lazy view of ``function(element)``, called at every read.

        What ``function`` raises passes as it is, with a note that says for which element of which source. Pickles where
        ``function`` does. Its name is part of the fingerprint, what it does is not.
        """
        from .views.map import MapView

        return MapView(self, (function,))

    def as_tuple(self, *names: str) -> BaseSource[tuple[Any, ...]]:
        """Return a lazy view of the fields ``names`` of every element, a dict, as tuples in that order.

            source.as_tuple("image", "label")[3]        (source[3]["image"], source[3]["label"])
            source.as_tuple("objects/bbox")             a field of a field

        Raises:
          TypeError: Something is no name. When read, ``ValueError``: there is no such field; lists those there are.
        """
        from .views.fields import FieldsView

        return FieldsView(self, names)

    def batch(self, size: int, *, drop_last: bool = False) -> BaseSource[Columns]:
        """Return a lazy view of ``size >= 1`` neighbouring elements at a time, as columns; the last may have fewer.

        Raises:
          ValueError: ``size`` is below 1.
        """
        from .views.batch import BatchView

        return BatchView(self, size, size, drop_last=drop_last)

    def window(self, size: int, stride: int = 1) -> BaseSource[Columns]:
        """Return a lazy view of ``size >= 1`` neighbours, as columns, from every ``stride``-th element on; whole ones only.

        Raises:
          ValueError: ``size`` or ``stride`` is below 1.
        """
        from .views.batch import BatchView

        return BatchView(self, size, stride, drop_last=True)

    def unbatch(self) -> BaseSource[Any]:
        """Return a lazy view of the rows of a source of columns, which all have the same number of rows, but for the last.

        Reads the first and the last element at once, to count their rows. Reading one row reads all of its batch; caching
        the batches makes that cheap.

        Raises:
          ValueError: There are more rows in the last batch than in the first; when read: in a batch are not as many.
          TypeError: The elements are no columns.
        """
        from .views.unbatch import unbatch

        return unbatch(self)

    def enumerate(self, start: int = 0) -> BaseSource[tuple[int, T]]:
        """Return a lazy view of ``(start + index, element)``; a slice or selection of it keeps the numbers."""
        from .views.zip import enumerate_source

        return enumerate_source(self, start)

    def cache(self, max_bytes: int = 1 << 30, *, path: str | PathLike[str] | None = None) -> CacheView[T]:
        """Return a view that keeps what was read, in memory or in the file ``path``, up to ``max_bytes``.

        See ``CacheView`` for what is kept, who shares it, and what a file guarantees.

        Raises:
          ValueError: ``max_bytes`` is negative.
          DataError: The file is something else, or belongs to another source.
        """
        from .views.cache import CacheView

        return CacheView(self, max_bytes, path)

    @overload
    def split(self, parts: int | Sequence[float], *, seed: int | None = None) -> list[BaseSource[T]]: ...
    @overload
    def split(self, parts: Mapping[str, float], *, seed: int | None = None) -> dict[str, BaseSource[T]]: ...

    def split(
        self, parts: int | Sequence[float] | Mapping[str, float], *, seed: int | None = None
    ) -> list[BaseSource[T]] | dict[str, BaseSource[T]]:
        """Return disjoint views that together have every element once, each in the source's order.

            source.split(3)                                     three, whose lengths differ by 1 at most
            source.split([0.8, 0.2], seed=0)                    shares of the whole, elements drawn at random
            source.split({"train": 0.9, "val": 0.1}, seed=0)    the same, by name
            source.split([50_000, 10_000])                      counts

        Args:
          parts: How many, or their shares (floats, sum 1), or their counts (integers, sum ``len(source)``).
          seed: None cuts neighbours apart as they come. An integer decides by its hash with the index where an element goes:
            the same on every machine, with every version of Python and NumPy; takes 8 bytes an element.

        Raises:
          ValueError: The parts are no such numbers; says what they sum up to.
        """
        from .views.split import split

        return split(self, parts, seed)

    def __add__(self, other: object) -> BaseSource[Any]:
        if not isinstance(other, BaseSource):
            return NotImplemented
        from .views.concatenate import concatenate

        return concatenate(self, other)

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
        if array.dtype == np.int64 and self._are_within(array):
            return array
        length = len(self)
        bad = (array < -length) | (array >= length)
        if bad.any():
            raise IndexError(self._out_of_range(int(array[bad.argmax()])))
        result = array.astype(np.int64, copy=False)
        negative = result < 0
        return np.where(negative, result + length, result) if negative.any() else result

    def _are_within(self, indices: Indices) -> bool:
        """Return whether all, at least one, lie within ``[0, len(self))``: most do, and one look tells."""
        # As unsigned numbers, negative ones are the largest.
        return bool(indices.size and 0 <= indices[indices.view(np.uint64).argmax()] < len(self))

    def _normalise_one(self, index: SupportsIndex) -> int:
        number = operator.index(index)
        length = len(self)
        if not -length <= number < length:
            raise IndexError(self._out_of_range(number))
        return number % length

    def _out_of_range(self, index: int) -> str:
        return f"index {index} is out of range for {self._describe_length()}"
