"""Records of an indexed split that are read for the first time, out of all its shards at once.

A shard by itself takes some 40 array operations to check a few records, and a batch of 128 over a thousand shards asks for one
or two of each. The record index holds the places of all in the same arrays, so they are checked together: 128 records over 4
shards take a sixth of the time. What is checked is the same: each chunk's header against the index, each record's CRC32C.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..memory import Extents
from .blocks import USABLE_BYTES, to_physical
from .crc import load_crc32c
from .plain import find_plain, head_bytes
from .reader import ShardReader
from .record_index import RecordIndex

if TYPE_CHECKING:
    from .opened import OpenShards

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

    def gather(self, indices: Ints, opened: OpenShards, open_shard: Callable[[int], ShardReader]) -> Extents | None:
        """Return the records at ``indices``, at least one and all within bounds, checked; None where that takes more."""
        numbers = np.searchsorted(self._ends, indices, side="right")
        bases = self._bases[numbers]
        if not bases.all():
            for number in np.unique(numbers[bases == 0]).tolist():
                reader = open_shard(number)
                address = 0 if reader.file.mapping is None else reader.file.mapping.ctypes.data
                self._bases[number] = address if address and reader.is_indexed else _ASK
            bases = self._bases[numbers]
        if bases.min() < 0:
            return None
        records = indices + self._indexed_firsts[numbers]
        places = records + self._shards[numbers]
        starts, sizes = self._starts[places], self._sizes[records]
        spans = self._starts[places + 1] - starts
        heads = head_bytes(sizes)
        if (sizes > spans - heads).any():
            return None
        chunks = heads + sizes
        addresses = bases + to_physical(starts)
        whole = starts % USABLE_BYTES + chunks <= USABLE_BYTES
        if whole.all():
            return self._check(opened, indices, records, addresses, chunks, sizes)
        inside, crossing = np.flatnonzero(whole), np.flatnonzero(~whole)
        parts = []
        if inside.size:
            rows = (array[inside] for array in (indices, records, addresses, chunks, sizes))
            found = self._check(opened, *rows)
            if found is None:
                return None
            parts.append((inside, found))
        # Chunks in two blocks, of 800-byte records one in 70, are read one by one.
        each = []
        for index, number in zip(indices[crossing].tolist(), numbers[crossing].tolist(), strict=True):
            record, address = open_shard(number).read_one(index + int(self._firsts[number]))
            each.append(record)
            if address:
                opened.places.note_one(index, address, len(record))
        return Extents.merged(indices.size, [*parts, (crossing, Extents.joined(each))])

    def _check(
        self, opened: OpenShards, indices: Ints, records: Ints, addresses: Ints, chunk_bytes: Ints, sizes: Ints
    ) -> Extents | None:
        """Return what is in chunks that lie in one block each, all of them plain and sound; else None."""
        base, smallest = int(addresses.min()), int(chunk_bytes.min())
        span = int((addresses + chunk_bytes).max()) - base
        chunks = Extents(base, addresses - base, chunk_bytes, span, smallest, (opened,)).compact()
        fits, starts = find_plain(chunks, sizes)
        if fits is not None:
            return None
        found = chunks.inner(starts, sizes)
        checksums = np.fromiter(map(self._crc32c, found.tolist()), np.uint32, len(found))
        if (checksums != self._checksums[records]).any():
            return None
        opened.places.note(indices, addresses + starts, sizes)
        return found
