"""A source that remembers what it read."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np

from ...columns import Columns
from ...source import BaseSource, Indices
from ...structure import map_structure, merge
from ..identity import digest, digest_code, show
from .entries import HEAD, EntryError, frame
from .file_store import FileStore
from .memory_store import MemoryStore
from .packing import pack_example, pack_rows
from .store import Store

__all__ = ["CacheStats", "CacheView"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What a cache did in this process, and what it holds.

    Attributes:
      hits: Elements that came out of the cache.
      misses: Elements that were read from the source.
      examples: Elements that it holds as examples, as ``source[i]`` reads them.
      rows: Elements that it holds as rows of columns, as ``read_batch`` reads them.
      used_bytes: What these take.
      max_bytes: What they may take.
    """

    hits: int
    misses: int
    examples: int
    rows: int
    used_bytes: int
    max_bytes: int


class CacheView(BaseSource[T]):
    """Keeps each element as it is first read, in memory or in a file; made by ``cache``.

    Kept are arrays, numbers, text, bytes and None, in dicts, lists, tuples and dataclasses, as bytes: what is handed out is the
    caller's own and may be changed. An element read by itself and the same as a row of ``read_batch`` may differ in type, so
    each form is kept as it is asked for; a batch of rows comes back with one gather for each field. What an element holds must
    not change from read to read: cache first, then augment.

    When ``max_bytes`` are full, a warning says so once; what is not in by then is read from the source every time. The table of
    what is where takes 16 bytes an element more.

    In memory, a process has a cache of its own: threads share it, a forked child begins with what its parent had, an unpickled
    one is empty. In a file, all processes of one machine share it, at once and one after the other:

    * No process sees half an entry, whoever is killed whenever; each checks an entry's CRC32C when it first reads it, and reads
      a damaged one from the source again.
    * Two processes that miss the same element at once both read it; one of them keeps it. ``max_bytes`` bounds the file.
    * The file belongs to this source: to its fingerprint, and to the code of the functions mapped below and of decoders.
      Another is refused, and so is a file of another kind. A function that these functions call is not looked at. It belongs to
      the files that are read as they are, by size and time of modification: written anew, they are others.
    * Nothing in the file is run. Cutting it short while it is open ends the process with SIGBUS.

    Raises, when read:
      TypeError: An element holds something that has no form in bytes; names the field.
    """

    def __init__(self, source: BaseSource[T], max_bytes: int, path: str | os.PathLike[str] | None) -> None:
        if isinstance(max_bytes, bool) or not isinstance(max_bytes, int) or max_bytes < 0:
            raise ValueError(f"max_bytes must be an integer >= 0, got {max_bytes!r}")
        self._source = source
        self._max_bytes = max_bytes
        self._path = None if path is None else os.path.abspath(path)
        self._open()

    def _open(self) -> None:
        slots = 2 * len(self._source)  # examples first, then rows
        self._store: Store
        if self._path is None:
            self._store = MemoryStore(slots, self._max_bytes)
        else:
            self._store = FileStore(self._path, slots, self._max_bytes, _identify(self._source))
        self._closed = self._warned = False
        self._hits = self._misses = 0

    def __len__(self) -> int:
        return len(self._source)

    # -- examples -------------------------------------------------------------------------------------------------

    def _read_one(self, index: int) -> T:
        if self._closed:
            raise ValueError(f"{self!r} is closed")
        if self._store.is_filled(index):
            try:
                example: T = self._unpack(index)
            except EntryError:
                pass  # of a type that this process has not met, or damaged: read it from the source
            else:
                self._count(1, 0)
                return example
        return self._fetch([index])[0]

    def _read_many(self, indices: Indices) -> list[T]:
        if self._closed:
            raise ValueError(f"{self!r} is closed")
        examples: list[Any] = [None] * indices.size
        missed = np.flatnonzero(~self._store.filled(indices)).tolist()
        absent = set(missed)
        for place, index in enumerate(indices.tolist()):
            if place not in absent:
                try:
                    examples[place] = self._unpack(index)
                except EntryError:
                    missed.append(place)
        self._count(indices.size - len(missed), 0)
        if missed:
            for place, example in zip(missed, self._fetch(indices[missed].tolist()), strict=True):
                examples[place] = example
        return examples

    def _unpack(self, index: int) -> Any:
        entry = self._store.read(index)
        template = self._store.template(HEAD.unpack_from(entry)[3])
        if template is None:
            raise EntryError("the template is not known here")
        return template.unpack(entry)

    def _fetch(self, indices: list[int]) -> list[T]:
        """Return elements from the source, and keep them."""
        source = self._source
        examples = source._read_many(np.array(indices)) if len(indices) > 1 else [source._read_one(indices[0])]
        self._count(0, len(indices))
        if not self._store.is_full or self._store.wants_templates:
            bodies: dict[int, tuple[list[int], list[bytes]]] = {}
            for index, example in zip(indices, examples, strict=True):
                template, body = pack_example(example)
                number = self._store.number_of(template)
                if number is not None:
                    slots, packed = bodies.setdefault(number, ([], []))
                    slots.append(index)
                    packed.append(body)
            for number, (slots, packed) in bodies.items():
                self._store.append(np.array(slots), *frame(np.array(slots), number, packed))
        self._warn()
        return examples

    # -- columns --------------------------------------------------------------------------------------------------

    def _read_columns(self, indices: Indices) -> Columns:
        if self._closed:
            raise ValueError(f"{self!r} is closed")
        slots = indices + len(self)
        there = self._store.filled(slots)
        parts: list[tuple[Indices, Columns]] = []
        missed = np.flatnonzero(~there)
        if missed.size < indices.size:
            parts, unknown = self._unpack_rows(slots, np.flatnonzero(there))
            missed = np.concatenate([missed, *unknown])
        self._count(indices.size - missed.size, 0)
        if missed.size or not indices.size:
            parts.append((missed, self._fetch_rows(indices[missed])))
        return parts[0][1] if len(parts) == 1 else merge(indices.size, parts)

    def _read_batches(self, indices: Indices, bounds: Sequence[int]) -> list[Columns]:
        if not self._closed and self._store.filled(indices + len(self)).all():
            # In one go, which is cheaper for small batches; unless they are of shapes that do not go together.
            with suppress(ValueError):
                columns = self._read_columns(indices)
                return [map_structure(itemgetter(slice(start, stop)), columns) for start, stop in pairwise(bounds)]
        return super()._read_batches(indices, bounds)

    def _unpack_rows(self, slots: Indices, places: Indices) -> tuple[list[tuple[Indices, Columns]], list[Indices]]:
        """Return the rows in filled slots, by template, and the places of those whose template is not known here."""
        entries = self._store.gather(slots[places])
        numbers = entries.field(24, "<u8")[:, 0]
        parts, unknown = [], []
        for number in np.unique(numbers).tolist():
            here = np.flatnonzero(numbers == number)
            template = self._store.template(number)
            try:
                if template is None:
                    raise EntryError("the template is not known here")
                parts.append((places[here], template.unpack_rows(entries if here.size == len(entries) else entries[here])))
            except EntryError:
                unknown.append(places[here])
        return parts, unknown

    def _fetch_rows(self, indices: Indices) -> Columns:
        """Return rows from the source, and keep them."""
        columns = self._source._read_columns(indices)
        self._count(0, indices.size)
        if indices.size and (not self._store.is_full or self._store.wants_templates):
            template, bodies = pack_rows(columns, indices.size)
            number = self._store.number_of(template)
            if number is not None:
                slots = indices + len(self)
                self._store.append(slots, *frame(slots, number, bodies))
        self._warn()
        return columns

    def _will_need(self, indices: Indices) -> int:
        if self._closed:
            return 0
        kept = self._store.filled(indices) | self._store.filled(indices + len(self))
        return self._source._will_need(indices[~kept])

    # -- telling --------------------------------------------------------------------------------------------------

    def stats(self) -> CacheStats:
        """Return what was found in the cache and what was not, since this process opened it, and what is in it."""
        store, length = self._store, len(self)
        examples, rows = store.count(0, length), store.count(length, 2 * length)
        return CacheStats(self._hits, self._misses, examples, rows, store.used_bytes, self._max_bytes)

    def _count(self, hits: int, misses: int) -> None:
        with self._store.lock:
            self._hits += hits
            self._misses += misses

    def _warn(self) -> None:
        if self._store.is_full and not self._warned:
            self._warned = True
            stats = self.stats()
            warnings.warn(
                f"the cache is full: max_bytes={self._max_bytes} hold {max(stats.examples, stats.rows)} of {len(self)} "
                "elements; the others are read from the source every time. Raise max_bytes, if there is room",
                RuntimeWarning,
                stacklevel=4,
            )

    # -- identity -------------------------------------------------------------------------------------------------

    def _origin(self, index: int) -> str:
        return self._source._origin(index)

    def _sources(self) -> tuple[BaseSource[Any], ...]:
        return (self._source,)

    def close(self) -> None:
        """Release the cache and the source. A file stays, for the next time."""
        self._closed = True
        self._store.close()
        super().close()

    @property
    def fingerprint(self) -> str:
        """That of the source: a cache changes nothing of what is read."""
        return self._source.fingerprint

    def __getstate__(self) -> tuple[BaseSource[T], int, str | None, bool]:
        return self._source, self._max_bytes, self._path, self._closed

    def __setstate__(self, state: tuple[BaseSource[T], int, str | None, bool]) -> None:
        self._source, self._max_bytes, self._path, closed = state
        self._open()
        self._closed = closed

    def __repr__(self) -> str:
        where = "" if self._path is None else f", path={self._path!r}"
        return f"{show(self._source)}.cache({self._max_bytes}{where})"


def _identify(source: BaseSource[Any]) -> str:
    """Return what a file of what is read from ``source`` is told by: its fingerprint, and the code and files below."""
    found: list[str] = []
    remaining = [source]
    while remaining:
        each = remaining.pop()
        found += [*map(digest_code, each._functions()), *map(_stamp, each._files())]
        remaining += each._sources()
    return digest("cache", source.fingerprint, *found)


def _stamp(path: str) -> str:
    try:
        status = os.stat(path)
    except OSError:
        return "missing"
    return f"{status.st_size} {status.st_mtime_ns}"
