"""Records of an indexed split that are read for the first time, out of all its shards at once.

A shard by itself takes some 40 array operations to check a few records, and a batch of 128 over a thousand shards asks for one
or two of each. The record index holds the places of all in the same arrays, so they are checked together: 128 records over 4
shards take a sixth of the time. What is checked is the same: each chunk's header against the index, each record's CRC32C.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ..memory import Extents
from .blocks import USABLE_BYTES, to_physical
from .crc import load_crc32c
from .places import Places
from .plain import find_plain, head_bytes
from .reader import ShardReader
from .record_index import RecordIndex

__all__ = ["FirstReads"]

Ints = npt.NDArray[np.int64]

#: In place of a mapping's address: the shard has to be asked itself.
_ASK = -1


class FirstReads:
    """Reads plain records of mapped shards by one record index, and tells ``Places`` where they are. Threads may share it.

    It is a shortcut: where anything is not as usual (a compressed or damaged record, a shard that the index does not fit) it
    gives nothing, and the shards' own readers, which can say what is wrong, are asked.
    """

    def __init__(self, index: RecordIndex, names: Sequence[str], firsts: Ints, ends: Ints) -> None:
        """Raise KeyError where the index lacks a shard.

        Args:
          names: Of the shards' files.
          firsts: By shard: a record's number in the shard, less its number in the source.
          ends: Running total of records after each shard.
        """
        found = np.array([index.find(name) for name in names], np.int64).reshape(-1, 2)
        self._starts, self._sizes, self._checksums = index.arrays
        self._shards = found[:, 0]
        self._firsts = firsts
        self._indexed_firsts = firsts + found[:, 1]
        self._ends = ends
        # By shard: the address of its mapping once it is open and the index fits it, else 0 or _ASK.
        self._bases = np.zeros(len(names), np.int64)
        self._crc32c = load_crc32c()

    def gather(self, indices: Ints, places: Places, owner: object, open_shard: Callable[[int], ShardReader]) -> Extents | None:
        """Return the records at ``indices``, checked; None where that takes more.

        Args:
          indices: At least one, all within bounds.
          places: Is told where the records are.
          owner: Keeps the mappings alive.
          open_shard: Shard number -> its reader, which stays open.
        """
        numbers = np.searchsorted(self._ends, indices, side="right")
        bases = self._find_bases(numbers, open_shard)
        if bases.min() < 0:
            return None
        rows = indices + self._indexed_firsts[numbers]
        which = rows + self._shards[numbers]
        starts, sizes = self._starts[which], self._sizes[rows]
        heads = head_bytes(sizes)
        if (sizes > self._starts[which + 1] - starts - heads).any():
            return None
        chunks = heads + sizes
        whole = starts % USABLE_BYTES + chunks <= USABLE_BYTES
        inside = slice(None) if whole.all() else np.flatnonzero(whole)
        addresses = (bases + to_physical(starts))[inside]
        found = self._check(addresses, chunks[inside], sizes[inside], rows[inside], owner)
        if found is None:
            return None
        records, places_in_chunks = found
        places.note(indices[inside], addresses + places_in_chunks, sizes[inside])
        if isinstance(inside, slice):
            return records
        crossing = np.flatnonzero(~whole)
        each = self._read_each(indices[crossing], numbers[crossing], places, open_shard)
        return Extents.merged(indices.size, [(inside, records), (crossing, each)])

    def _find_bases(self, numbers: Ints, open_shard: Callable[[int], ShardReader]) -> Ints:
        """Return the address of each shard's mapping, opening what was not open; _ASK where the index does not fit."""
        bases = self._bases[numbers]
        if bases.all():
            return bases
        for number in np.unique(numbers[bases == 0]).tolist():
            reader = open_shard(number)
            address = 0 if reader.file.mapping is None else reader.file.mapping.ctypes.data
            self._bases[number] = address if address and reader.is_indexed else _ASK
        return self._bases[numbers]

    def _check(
        self, addresses: Ints, chunk_bytes: Ints, sizes: Ints, rows: Ints, owner: object
    ) -> tuple[Extents, Ints | int] | None:
        """Return the records in chunks of one block each, and their places there; None unless all are plain and sound."""
        if not addresses.size:
            return Extents.joined([]), 0
        base, smallest = int(addresses.min()), int(chunk_bytes.min())
        span = int((addresses + chunk_bytes).max()) - base
        chunks = Extents(base, addresses - base, chunk_bytes, span, smallest, (owner,)).compact()
        fits, starts = find_plain(chunks, sizes)
        if fits is not None:
            return None
        records = chunks.inner(starts, sizes)
        checksums = np.fromiter(map(self._crc32c, records.tolist()), np.uint32, len(records))
        return (records, starts) if (checksums == self._checksums[rows]).all() else None

    def _read_each(self, indices: Ints, numbers: Ints, places: Places, open_shard: Callable[[int], ShardReader]) -> Extents:
        """Return records whose chunks lie in two blocks, one by one: of 800-byte records it is one in 70."""
        found = []
        for index, number in zip(indices.tolist(), numbers.tolist(), strict=True):
            record, address = open_shard(number).read_one(index + int(self._firsts[number]))
            found.append(record)
            if address:
                places.note_one(index, address, len(record))
        return Extents.joined(found)
