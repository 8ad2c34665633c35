"""Many shards as one sequence of records."""

from __future__ import annotations

import operator
import os
import pickle
import sys
import zlib
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from itertools import accumulate

import numpy as np

from ..distinct import distinct
from ..errors import CorruptShardError, DataError
from ..hints import foretell, is_of_use
from ..memory import Extents, copy_bytes, view_bytes
from ..records import RecordSource
from ..shards import Paths, Shard, expand_paths
from ..source import Indices
from .blocked import LONG_BYTES, BlockedExtents
from .blocks import USABLE_BYTES
from .file import Io
from .indexed import IndexedRecords
from .located import Located, LocatedByIndex, LocatedByPlaces
from .mapping import map_file
from .opened import OpenShards
from .places import Places
from .reader import Check, ShardReader
from .record_index import RecordIndex

__all__ = ["ArrayRecordDataSource"]

#: Records whose places are remembered; past this many, 4 GiB of address space, every read asks its shard.
_MAX_PLACES = 1 << 28
#: Records from this length on are decoded where they are: copying a photograph takes 2 % of the time of decoding it.
_LONG_BYTES = 1 << 14


class ArrayRecordDataSource(RecordSource):
    """The records of one or many ArrayRecord files as a sequence of ``bytes``.

    Reads files of any ``group_size``, uncompressed or in zstd, Brotli or Snappy. ``len`` counts records. Opening reads each
    file's index (25 ms for 100,000 records), a record then costs one positioned read. Any number of threads may read at
    once; a forked child goes on reading; pickled, it is a few kB and opens its files again where it is needed.

    Args:
      paths: A path, a glob, ``prefix@4``, or a list of them, each with ``[start:end]`` or without; see ``expand_paths``.
      io: ``"mmap"`` copies nothing, but a file that is cut short while mapped ends the process with SIGBUS. ``"pread"``
        raises then; choose it on network file systems, and where pages of mapped files are counted as a process's memory
        (they belong to the system's cache, which takes them back when memory is short).
      check: Headers, lengths and codecs are always checked. ``"hash"`` also compares the two HighwayHash-64 of every chunk
        that is read: no damaged byte gets through. An index and ``"crc"`` do that for next to nothing; the hashes take 0.2 ms
        for a record of 800 bytes read alone, 1.2 ms for 10 kB, in batches of 128 a seventh of that.
      max_chunk_bytes: A chunk that claims more bytes than this, stored or decompressed, is refused: a file of a few bytes
        could claim any number.

    Raises:
      ShardNotFoundError: A file is missing, or a pattern matches none.
      CorruptShardError: A file is no ArrayRecord file, was cut short or is damaged; ``.path``, ``.record``, ``.offset``.
      DataError: A file cannot be opened, or is a directory.
      ValueError: A slice reaches past a file's end, or an option is unknown.
    """

    def __init__(self, paths: Paths, *, io: Io = "mmap", check: Check = "structure", max_chunk_bytes: int = 1 << 31) -> None:
        self._set_options(io, check, max_chunk_bytes, ())
        shards = expand_paths(paths)
        self._set_shards(shards, [self._count(k, shard) for k, shard in enumerate(shards)])

    @classmethod
    def from_lengths(
        cls,
        shards: Sequence[Shard],
        lengths: Sequence[int],
        *,
        io: Io = "mmap",
        check: Check = "structure",
        max_chunk_bytes: int = 1 << 31,
        indexes: Sequence[RecordIndex] = (),
    ) -> ArrayRecordDataSource:
        """Return a source over shards whose record counts are known, from a manifest: opens none of them yet.

        A count that turns out wrong raises ``CorruptShardError`` when the file is first read. Shards that one of ``indexes``
        knows are read by it; with ``check="crc"`` each of their records is compared with its CRC32C when first read.
        """
        if len(shards) != len(lengths) or any(length < 0 for length in lengths) or sum(lengths) > sys.maxsize:
            raise ValueError(f"{len(shards)} shards need as many lengths, 0 or more, got {len(lengths)}: {lengths}"[:500])
        source = cls.__new__(cls)
        source._set_options(io, check, max_chunk_bytes, indexes)
        source._set_shards(list(shards), list(lengths))
        return source

    def _set_options(self, io: Io, check: Check, max_chunk_bytes: int, indexes: Sequence[RecordIndex]) -> None:
        if io not in ("mmap", "pread"):
            raise ValueError(f"io must be 'mmap' or 'pread', got {io!r}")
        if check not in ("structure", "crc", "hash"):
            raise ValueError(f"check must be 'structure', 'crc' or 'hash', got {check!r}")
        if operator.index(max_chunk_bytes) < 1:
            raise ValueError(f"max_chunk_bytes must be at least 1, got {max_chunk_bytes}")
        self._io = io
        self._check = check
        self._max_chunk_bytes = max_chunk_bytes
        self._indexes = tuple(indexes)
        self._opened: OpenShards | None = OpenShards()

    def _set_shards(self, shards: list[Shard], lengths: list[int]) -> None:
        self._shards = shards
        self._lengths = lengths
        self._ends = list(accumulate(lengths))
        self._end_array = np.array(self._ends, np.int64)
        self._first = np.array([s.start for s in shards], np.int64) - (self._end_array - np.array(lengths, np.int64))
        opened = self._hold()
        if self._io == "mmap" and self._check == "crc" and len(self._indexes) == 1:
            names = [os.path.basename(shard.path) for shard in shards]
            with suppress(KeyError, OSError, ValueError):  # what the index does not say, or the system does not do
                opened.indexed = IndexedRecords(self._indexes[0], names, self._first, self._end_array)
        if opened.indexed is None and len(self) <= _MAX_PLACES:
            opened.places = Places(len(self))

    def _count(self, number: int, shard: Shard) -> int:
        """Return how many records a shard contributes; opens the file."""
        reader = self._make_reader(self._hold(), shard)
        end = reader.num_records if shard.end is None else shard.end
        if end > reader.num_records or shard.start > end:
            raise ValueError(f"{shard.path}[{shard.start}:{end}] reaches past the file's {reader.num_records} records")
        self._hold().keep(number, reader)
        return end - shard.start

    # -- reading --------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def _read_one(self, index: int) -> bytes:
        # Held until the end: whatever close() does meanwhile, what is mapped stays mapped.
        opened = self._opened or self._hold()
        places = opened.places
        if index < len(places.address_of) and (address := places.address_of[index]) > 0:
            return copy_bytes(address, places.size_of[index])
        if opened.indexed is not None:
            address, size = opened.indexed.find(index)
            if address > 0:
                return copy_bytes(address, size)
        return bytes(self._read_elsewhere(opened, index))

    def _view_one(self, index: int) -> bytes | memoryview:
        opened = self._opened or self._hold()
        places = opened.places
        if opened.indexed is not None:
            address, size = opened.indexed.find(index)
        elif index < len(places.address_of):
            address, size = places.address_of[index], places.size_of[index]
        else:
            address = size = 0
        if address > 0:
            # In the mapping, or in a copy that was kept of a record in two blocks: both live as long as what is open.
            return copy_bytes(address, size) if size < _LONG_BYTES else view_bytes(address, size, opened)
        return self._read_elsewhere(opened, index)

    def _read_elsewhere(self, opened: OpenShards, index: int) -> bytes | memoryview:
        """Return a record that is not known to be in one piece anywhere."""
        places, indexed, number = opened.places, opened.indexed, bisect_right(self._ends, index)
        reader, record_number = self._reader(opened, number), index + int(self._first[number])
        reader.hint_due(np.array([record_number]))
        if indexed is not None:
            place, size = indexed.find(index)
            if place > 0:  # another thread has checked it just now
                return copy_bytes(place, size)
            if place < 0:
                return indexed.join(-place, size)
        if index < len(places.crossing_of) and (start := places.crossing_of[index]):
            return reader.file.read(start, places.size_of[index])  # was checked before
        record, address = reader.read_one(record_number)
        if indexed is not None:
            indexed.note_one(index, number, address)
        elif address and index < len(places.address_of):
            places.note_one(index, address, len(record))
        return record

    def gather(self, indices: Indices) -> Extents:
        """Return the records at ``indices``, all within bounds, where they lie in memory, each in one piece.

        What decoders build on: a field that lies at the same place in many records is gathered from there in one call,
        without making a ``bytes`` of any record. Uncompressed records are ranges of the mapped files themselves.
        """
        return self.gather_in_place(indices).whole()

    def gather_in_place(self, indices: Indices) -> Extents:
        opened = self._hold()
        if not indices.size:
            return Extents.joined([])
        if opened.indexed is not None:
            found = opened.indexed.gather(indices, opened, partial(self._reader, opened))
            return self._gather_shards(opened, indices) if found is None else found
        if not len(opened.places.addresses):
            return self._gather_shards(opened, indices)
        places = opened.places
        addresses = places.addresses[indices]
        if addresses.all():
            return self._gather_known(opened, indices, addresses)
        elsewhere = np.flatnonzero(addresses == 0)
        crossings = places.crossings[indices[elsewhere]]
        if crossings.all() and places.sizes[indices[elsewhere]].min() >= LONG_BYTES:
            return self._gather_long(opened, indices, addresses, elsewhere, crossings)
        if crossings.all():
            found = self._gather_crossing(opened, indices, addresses, elsewhere, crossings)
        else:
            found = self._gather_shards(opened, indices)
        is_short = found.sizes < LONG_BYTES  # long ones are cut to fields where they are
        kept = np.flatnonzero((places.crossings[indices] > 0) & (places.addresses[indices] == 0) & is_short)
        if kept.size:
            places.keep(indices[kept], found[kept])
        return found

    def _will_need(self, indices: Indices) -> int:
        opened = self._opened
        if opened is None or not indices.size or not is_of_use():
            return 0
        told = 0
        with suppress(DataError, OSError, ValueError):  # whoever reads these records is told
            if opened.indexed is not None:
                told = opened.indexed.hint(indices, partial(self._reader, opened))
            else:
                numbers = np.searchsorted(self._end_array, indices, side="right")
                for number in distinct(numbers).tolist():
                    here = indices[numbers == number] + self._first[number]
                    told += self._reader(opened, number).hint(here)
        if told:
            foretell(indices.size)
        return told

    def located(self) -> Located | None:
        opened = self._hold()
        if opened.indexed is not None:
            if opened.indexed.is_long:  # nowhere in one piece
                return None
            return LocatedByIndex(opened.indexed, opened, partial(self._reader, opened))
        return LocatedByPlaces(opened.places, opened) if len(opened.places.addresses) else None

    def _gather_shards(self, opened: OpenShards, indices: Indices) -> Extents:
        """Return records as their shards give them; some of them were not read before, or are not remembered."""
        if len(self._shards) == 1:
            return self._gather_shard(opened, 0, indices + self._first[0])
        numbers = np.searchsorted(self._end_array, indices, side="right")
        order = np.argsort(numbers, kind="stable")
        records = (indices + self._first[numbers])[order]
        ends = np.flatnonzero(np.diff(numbers[order], append=-1)) + 1
        parts = []
        for start, end in zip((0, *ends[:-1].tolist()), ends.tolist(), strict=True):
            part = self._gather_shard(opened, int(numbers[order[start]]), records[start:end])
            parts.append((order[start:end], part))
        return Extents.merged(indices.size, parts)

    def _gather_shard(self, opened: OpenShards, number: int, records: Indices) -> Extents:
        reader = self._reader(opened, number)
        if not len(opened.places.addresses):
            return reader.read_many(records)
        first, note = self._first[number], opened.places.note
        return reader.read_many(records, lambda found, addresses, sizes: note(found - first, addresses, sizes))

    def _gather_known(
        self, opened: OpenShards, indices: Indices, addresses: Indices, owners: tuple[object, ...] = ()
    ) -> Extents:
        """Return records that were read before, each in one piece."""
        sizes = opened.places.sizes[indices]
        lowest = int(addresses.min())
        offsets = addresses - lowest
        return Extents(lowest, offsets, sizes, int((offsets + sizes).max()), int(sizes.min()), (opened, *owners))

    def _gather_crossing(
        self, opened: OpenShards, indices: Indices, addresses: Indices, crossing: Indices, starts: Indices
    ) -> Extents:
        """Return records that were read before; those in two blocks, of which no copy was kept, from a buffer of their own."""
        numbers = np.searchsorted(self._end_array, indices[crossing], side="right").tolist()
        ranges = zip(numbers, starts.tolist(), opened.places.sizes[indices[crossing]].tolist(), strict=True)
        joined = Extents.joined([self._reader(opened, number).file.read(start, size) for number, start, size in ranges])
        addresses[crossing] = joined.offsets + joined.base
        return self._gather_known(opened, indices, addresses, joined.owners)

    def _gather_long(
        self, opened: OpenShards, indices: Indices, addresses: Indices, crossing: Indices, starts: Indices
    ) -> Extents:
        """Return records that were read before; those in two blocks and more, which are long, where they are."""
        numbers = np.searchsorted(self._end_array, indices[crossing], side="right")
        for number in distinct(numbers).tolist():
            here, reader = numbers == number, self._reader(opened, number)
            reader.hint_due(indices[crossing[here]] + self._first[number])
            addresses[crossing[here]] = reader.address_of(starts[here])
        sizes = opened.places.sizes[indices]
        firsts = sizes + 1
        firsts[crossing] = USABLE_BYTES - starts % USABLE_BYTES
        lowest = int(addresses.min())
        return BlockedExtents.of(lowest, addresses - lowest, sizes, firsts, (opened,))

    @property
    def files(self) -> list[str]:
        return list(dict.fromkeys(shard.path for shard in self._shards))

    def locate(self, index: int) -> tuple[str, int]:
        """Return the file and the record in it of element ``0 <= index < len(self)``, to name it in an error."""
        number = bisect_right(self._ends, index)
        return self._shards[number].path, index + int(self._first[number])

    def _origin(self, index: int) -> str:
        """As of any records, and the byte of the file, where that is to be had: the file may be gone meanwhile."""
        where = super()._origin(index)
        with suppress(OSError, ValueError):
            number = bisect_right(self._ends, index)
            reader = self._reader(self._hold(), number)
            where += f", at byte {reader.offset_of(index + int(self._first[number]))}"
        return where

    # -- open files -----------------------------------------------------------------------------------------------

    def _hold(self) -> OpenShards:
        opened = self._opened
        if opened is None:
            raise ValueError(f"{self!r} is closed")
        return opened

    def _reader(self, opened: OpenShards, number: int) -> ShardReader:
        return opened.get(number) or self._open(opened, number)

    def _open(self, opened: OpenShards, number: int) -> ShardReader:
        shard = self._shards[number]
        reader = self._make_reader(opened, shard, number)
        expected = shard.start + self._lengths[number]
        if reader.num_records < expected or (shard.end is None and reader.num_records != expected):
            raise CorruptShardError(
                f"the file holds {reader.num_records} records, {expected} were expected; it was replaced, or the data set's "
                "description does not belong to it",
                shard.path,
            )
        return opened.keep(number, reader)

    def _make_reader(self, opened: OpenShards, shard: Shard, number: int | None = None) -> ShardReader:
        name = os.path.basename(shard.path)
        return ShardReader(
            shard.path,
            io=self._io,
            check=self._check,
            max_chunk_bytes=self._max_chunk_bytes,
            cache=opened.cache,
            indexed=next((found for index in self._indexes if (found := index.lookup(name))), None),
            map_file=map_file if number is None or opened.indexed is None else opened.indexed.mapper(number),
        )

    def close(self) -> None:
        """Release the files. Records and arrays handed out before stay valid; reads under way are completed."""
        self._opened = None

    # -- identity -------------------------------------------------------------------------------------------------

    @property
    def fingerprint(self) -> str:
        """A digest of the files' names (without folders), slices and record counts, in their order."""
        digest = blake2b(digest_size=8)
        for shard, length in zip(self._shards, self._lengths, strict=True):
            digest.update(f"{os.path.basename(shard.path)}\0{shard.start}\0{length}\0".encode())
        return digest.hexdigest()

    def __getstate__(self) -> bytes:
        # Compressed, because the paths of a thousand shards differ in a few digits: 90 kB become 3.
        options = (self._io, self._check, self._max_chunk_bytes, self._indexes)
        return zlib.compress(pickle.dumps((options, self._shards, self._lengths, self._opened is None)))

    def __setstate__(self, state: bytes) -> None:
        options, shards, lengths, closed = pickle.loads(zlib.decompress(state))
        self._set_options(*options)
        self._set_shards(shards, lengths)
        if closed:
            self.close()

    def _describe_length(self) -> str:
        return f"{len(self)} records in {len(self._shards)} shard{'s' * (len(self._shards) != 1)}"

    def __repr__(self) -> str:
        first = self._shards[0].path if self._shards else "nothing"
        more = f" and {len(self._shards) - 1} more" if len(self._shards) > 1 else ""
        return f"ArrayRecordDataSource({self._describe_length()}: {first}{more})"
