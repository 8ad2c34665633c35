"""Records of an indexed split, out of all its shards at once: where they are the index says, and whether that is true is found
out when their neighbours are first read.

A shard by itself takes some 40 array operations to check a few records, and a batch of 128 over a thousand shards asks for one
or two of each. Here all shards lie side by side in one stretch of addresses, so that the record index, which is mapped from its
file, tells every record's address by itself: nothing is kept in this process but whether records were checked, a byte for every
run of neighbours, and the addresses of splits that are small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from ..distinct import distinct, first_places
from ..errors import CorruptShardError, DataError
from ..hints import hint_memory, is_due
from ..memory import Extents
from .blocked import LONG_BYTES, BlockedExtents
from .blocks import BLOCK_BYTES, BLOCK_HEADER_BYTES, USABLE_BYTES, to_physical
from .crc import load_crc32c
from .crossings import Crossings
from .file import MapFile
from .following import places_follow
from .mapping import Region
from .plain import find_plain, has_one_head, head_bytes
from .reader import ShardReader
from .record_index import RecordIndex

__all__ = ["IndexedRecords"]

Ints = npt.NDArray[np.int64]
OpenShard = Callable[[int], ShardReader]
#: Of so few records, which take a megabyte, addresses are kept once all are known to be sound: a batch of 128 finds them in
#: 1.3 us in place of 7.
_MAX_ADDRESSES = 1 << 17
#: So many records are checked at a time: the arrays that it takes, 8 bytes a record each, stay in the second-level cache. Of a
#: shuffled epoch's first 8,192 records, half a million had to be checked, in 50 MB.
_CHECKED = 1 << 15
#: What stands before a record in its chunk takes no more.
_HEAD_BYTES = 64

#: What is known of the records of a slot: nothing, that they are sound and where the index says, that some are elsewhere.
_UNKNOWN, _SOUND, _ODD = range(3)


class IndexedRecords:
    """Finds plain records of mapped shards by one record index. Threads may share it.

    It is a shortcut: where anything is not as usual (a compressed or damaged record, a shard that the index does not fit) it
    gives nothing, and the shards' own readers, which can say what is wrong, are asked.

    Records are checked by *slots*, ``2**slot_bits`` neighbours of the source: the CRC32C of every run of the index that reaches
    into the slot, each chunk's header, and that each place follows from where the chunk begins. Where the index says that all
    chunks have the bits of their headers in common, one is looked at for all: their runs' checksums vouch for the others, and
    a lie would give other bytes of the same files, as a lie in the checksums themselves does.

    Args:
      names: Of the shards' files.
      firsts: By shard: a record's number in the shard, less its number in the source.
      ends: Running total of records after each shard.

    Attributes:
      size: Bytes of a record, if all are alike, else -1.
      slot_bits: See above.
      addresses: Of all records, once they are known to be sound, and are few.
      is_long: Whether most records cross boundaries of blocks, and so are nowhere in one piece.

    Raises:
      KeyError: The index lacks a shard, or says nothing of neighbours or places.
      OSError, ValueError: The files cannot lie side by side.
    """

    def __init__(self, index: RecordIndex, names: Sequence[str], firsts: Ints, ends: Ints) -> None:
        if index.places is None or not names:
            raise KeyError("places")
        found = np.array([index.find(name) for name in names], np.int64)
        self._index = index
        self._places = index.places
        self._sizes = index.sizes
        self._numbers, self._first_rows, self._first_runs = found.T
        self._row_offsets = firsts + self._first_rows
        same = (self._row_offsets == self._row_offsets[0]).all()
        # Of a whole split, or a part of it, a record is in the index where it is in the source, but for a summand.
        self._row_offset: int | None = int(self._row_offsets[0]) if same else None
        self._ends = ends
        self._count = int(ends[-1])
        self._run_bits = index.run_bits[self._numbers]
        self._counts = index.counts[self._numbers]
        self.size = -1 if index.alike is None else index.alike[2]
        self.slot_bits = int(self._run_bits[0])
        self.is_long = sum(index.file_bytes) >= LONG_BYTES * max(1, self._sizes.size)
        self._region = Region(index.file_bytes)
        self._base = self._region.array.ctypes.data
        self._crossings = Crossings(self._region.array)
        self._offsets = np.array(self._region.starts, np.int64)[self._numbers]
        self._fits = np.zeros(len(names), np.int8)  # by shard: whether the index fits it; 0 while it is not open
        self._has_one_run = bool((self._run_bits == self.slot_bits).all())
        self._run_is_sound = np.zeros(index.runs.size, np.bool_)
        self._slots = np.zeros((self._count >> self.slot_bits) + 1, np.uint8)
        # By record, of those that were read by themselves: whether it is sound and in its place.
        self._alone = np.zeros(self._count, np.bool_)
        self.addresses: Ints | None = None
        self._crc32c = load_crc32c()
        # Whether one header that was looked at stands for all: None where that is still to be done.
        self._heads_are_sound = None if index.varies is not None and has_one_head(index.varies, self.size) else False
        # Indexing a memoryview gives a Python int at a third of the price of indexing the array.
        self._slot_of, self._alone_of = self._slots.data, self._alone.data
        self._place_of, self._size_of = self._places.data, self._sizes.data

    def mapper(self, number: int) -> MapFile:
        """Return what maps a shard to where it belongs."""
        return partial(self._region.map, int(self._numbers[number]))

    # -- one ------------------------------------------------------------------------------------------------------

    def find(self, index: int) -> tuple[int, int]:
        """Return address and size of a record that was checked, minus its place for one in two blocks; 0 if it was not."""
        if self._row_offset is None or not (self._slot_of[index >> self.slot_bits] == _SOUND or self._alone_of[index]):
            return 0, 0
        row = index + self._row_offset
        place = self._place_of[row]
        return (place + self._base if place > 0 else place), self._size_of[row]

    def note_one(self, index: int, number: int, address: int) -> None:
        """Remember that a record of a shard was read and checked by itself, at an address as ``ShardReader.read_one`` says."""
        if self._row_offset is not None and self._is_at(number, address, self._place_of[index + self._row_offset]):
            self._alone_of[index] = True

    def _is_at(self, number: int, address: int, place: int) -> bool:
        if address > 0:
            return address == place + self._base
        return address < 0 and -place == to_physical(-address) + int(self._offsets[number])

    def join(self, place: int, size: int) -> bytes:
        """Return the bytes of a record in several blocks, which begins at ``place``."""
        return self._crossings.join(place, size)

    @property
    def varies(self) -> npt.NDArray[np.uint8] | None:
        """In which bits records differ that were found to be sound, as long as each; None where that is not known."""
        varies = self._index.varies
        return None if varies is None or not self._heads_are_sound else varies[varies.size - self.size :]

    # -- many -----------------------------------------------------------------------------------------------------

    def gather(self, indices: Ints, owner: object, open_shard: OpenShard) -> Extents | None:
        """Return the records at ``indices``, checked; None where that takes more.

        Args:
          indices: At least one, all within bounds.
          owner: Keeps the mappings alive.
          open_shard: Shard number -> its reader, which stays open.
        """
        if self.is_long and is_due(indices.size):
            self.hint(indices, open_shard)
        slots = indices >> self.slot_bits
        if (self._slots[slots] != _SOUND).any():
            if not self.check(distinct(slots), open_shard).all():
                return None
        if self.is_long:
            return self._gather_long(self._rows(indices), owner)
        addresses, owners = self.locate(indices)
        sizes = self._sizes[self._rows(indices)]
        base = int(addresses.min())
        addresses -= base
        span = int((addresses + sizes).max())
        return Extents(base, addresses, sizes, span, int(sizes.min()), (owner, *owners))

    def _gather_long(self, rows: Ints, owner: object) -> Extents:
        """Return records where they are, block headers and all."""
        places = np.abs(self._places[rows])
        base = int(places.min())
        firsts = BLOCK_BYTES - places % BLOCK_BYTES
        return BlockedExtents.of(self._base + base, places - base, self._sizes[rows], firsts, (owner,))

    def hint(self, indices: Ints, open_shard: OpenShard) -> int:
        """Let the system read records, at least one, ahead if they are long, opening their shards; see ``hint_memory``."""
        if not self.is_long:
            return 0
        if not self._fits.all():
            indices = indices[self._open(np.searchsorted(self._ends, indices, side="right"), open_shard)]
        if not indices.size:
            return 0
        rows = self._rows(indices)
        starts, sizes = np.abs(self._places[rows]) - _HEAD_BYTES, self._sizes[rows] + _HEAD_BYTES
        return hint_memory(starts + self._base, sizes + BLOCK_HEADER_BYTES * (sizes // USABLE_BYTES + 2))

    def locate(self, indices: Ints) -> tuple[Ints, tuple[object, ...]]:
        """Return where in memory records are, in one piece, and what else keeps them there; all were checked."""
        if self.addresses is not None:
            return self.addresses.take(indices), ()  # 0.75 of the time of indexing
        rows = self._rows(indices) if self._row_offset != 0 else indices
        addresses = self._places[rows]
        owners: tuple[object, ...] = ()
        crossing = (addresses < 0).nonzero()[0]  # half the time of np.flatnonzero
        if crossing.size:
            owners = self._crossings.replace(addresses, crossing, lambda: self._sizes[rows[crossing]])
        addresses += self._base
        return addresses, owners

    def is_sound(self, indices: Ints) -> npt.NDArray[np.bool_]:
        """Return of which records ``locate`` knows."""
        sound: npt.NDArray[np.bool_] = self._slots[indices >> self.slot_bits] == _SOUND
        return sound

    def members(self, slots: Ints, owner: object, open_shard: OpenShard) -> tuple[Ints, Extents] | None:
        """Return the records of those of ``slots`` that are found to be sound, and where they are; None for none."""
        indices = self._indices(slots[self.check(slots, open_shard)])
        found = self.gather(indices, owner, open_shard) if indices.size else None
        return None if found is None else (indices, found)

    def check(self, slots: Ints, open_shard: OpenShard) -> npt.NDArray[np.bool_]:
        """Find out of ``slots``, once each and ascending, whether they are sound, where that is not known yet; return it."""
        unknown = slots[self._slots[slots] == _UNKNOWN]
        step = max(1, _CHECKED >> self.slot_bits)
        for start in range(0, unknown.size, step):
            self._check(unknown[start : start + step], open_shard)
        if unknown.size and self._count <= _MAX_ADDRESSES and not self.is_long:
            if (self._slots[: (self._count - 1 >> self.slot_bits) + 1] == _SOUND).all():
                self._keep_addresses()
        sound: npt.NDArray[np.bool_] = self._slots[slots] == _SOUND
        return sound

    def _check(self, slots: Ints, open_shard: OpenShard) -> None:
        samples, starts = self._samples(slots)
        numbers = np.searchsorted(self._ends, samples, side="right")
        fits = self._open(numbers, open_shard)
        intact = np.zeros(samples.size, np.bool_)
        intact[fits] = self._check_runs(samples[fits], numbers[fits])
        # A damaged run is looked at again: it is not as the index says, and never will be believed to be.
        self._slots[slots[~np.logical_and.reduceat(fits, starts)]] = _ODD
        slots = slots[np.logical_and.reduceat(intact, starts)]
        if self._heads_are_sound is None and slots.size:
            self._heads_are_sound = bool(self._check_heads(slots[:1] << self.slot_bits, open_shard)[0])
        if self._heads_are_sound:
            self._slots[slots] = _SOUND
        else:
            indices = self._indices(slots)
            sound = np.logical_and.reduceat(
                self._check_heads(indices, open_shard), np.searchsorted(indices, slots << self.slot_bits)
            )
            self._slots[slots] = np.where(sound, _SOUND, _ODD)

    def _samples(self, slots: Ints) -> tuple[Ints, Ints]:
        """Return records of slots, among them one of each run that reaches into one, and where those of each slot begin."""
        first, last = slots << self.slot_bits, np.minimum((slots + 1) << self.slot_bits, self._count) - 1
        numbers = np.searchsorted(self._ends, first, side="right")
        if not self._has_one_run or (last >= self._ends[np.minimum(numbers + 1, self._ends.size - 1)]).any():
            samples = self._indices(slots)  # of three shards, or with runs of several lengths
            return samples, np.searchsorted(samples, first)
        # Of one shard no more than two runs reach into a slot, which is as long as they are; where another begins, so do its
        # own.
        ends = self._ends[numbers]
        each = (first, np.minimum(ends - 1, last), np.minimum(ends, last), last) if (ends <= last).any() else (first, last)
        return np.stack(each, 1).reshape(-1), np.arange(0, len(each) * slots.size, len(each))

    def _keep_addresses(self) -> None:
        """Find the addresses of all records, unless too many have to be put together."""
        indices = np.arange(self._count)
        rows = self._rows(indices)
        crossing = rows[self._places[rows] < 0]
        if self._crossings.has_room(int(self._sizes[crossing].sum())):
            addresses, owners = self.locate(indices)
            self.addresses = None if owners else addresses

    def _indices(self, slots: Ints) -> Ints:
        """Return the records of slots."""
        indices: Ints = ((slots << self.slot_bits)[:, None] + np.arange(1 << self.slot_bits)).reshape(-1)
        return indices if not indices.size or indices[-1] < self._count else indices[indices < self._count]

    def _rows(self, indices: Ints) -> Ints:
        """Return where in the index's arrays records are."""
        rows = indices
        if self._row_offset is None:
            rows = indices + self._row_offsets[np.searchsorted(self._ends, indices, side="right")]
        elif self._row_offset:
            rows = indices + self._row_offset
        return rows

    def _open(self, numbers: Ints, open_shard: OpenShard) -> npt.NDArray[np.bool_]:
        """Open shards that are not open yet; return for each of ``numbers`` whether that was possible and the index fits it."""
        wanted = distinct(numbers)
        opened = []
        for number in wanted[self._fits[wanted] == 0].tolist():
            try:
                reader = open_shard(number)
            except DataError:
                continue  # only a neighbour may have been asked for; whoever asks for a record of this shard is told
            mapping = reader.file.mapping
            address = 0 if mapping is None else mapping.ctypes.data
            self._fits[number] = -1
            if reader.is_indexed and address == self._base + int(self._offsets[number]):
                opened.append(number)
        if opened:
            follow = places_follow(self._index, self._numbers[opened])
            self._fits[opened] = np.where(follow, 1, -1)
        fits: npt.NDArray[np.bool_] = self._fits[numbers] > 0
        return fits

    def _check_runs(self, indices: Ints, numbers: Ints) -> npt.NDArray[np.bool_]:
        """Return whether the runs that records are in have the checksums that the index says."""
        records = indices + (self._row_offsets - self._first_rows)[numbers]
        runs = self._first_runs[numbers] + (records >> self._run_bits[numbers])
        new = ~self._run_is_sound[runs]
        if new.any():
            wanted = runs[new]
            firsts = first_places(wanted)
            wanted = wanted[firsts]
            self._run_is_sound[wanted] = self._checksums(wanted, numbers[new][firsts]) == self._index.runs[wanted]
        sound: npt.NDArray[np.bool_] = self._run_is_sound[runs]
        return sound

    def _checksums(self, runs: Ints, numbers: Ints) -> npt.NDArray[np.uint32]:
        """Return the CRC32C of runs, each in the shard of its number."""
        bits, rows, shards = self._run_bits[numbers], self._first_rows[numbers], self._numbers[numbers]
        first = (runs - self._first_runs[numbers]) << bits
        bounds = first, np.minimum(first + (1 << bits), self._counts[numbers])
        start, stop = (to_physical(self._index.starts_of(rows, shards, bound)) + self._offsets[numbers] for bound in bounds)
        array, crc32c = self._region.array, self._crc32c
        ranges = zip(start.tolist(), stop.tolist(), strict=True)
        return np.array([crc32c(array[here:there]) for here, there in ranges], np.uint32)

    def _check_heads(self, indices: Ints, open_shard: OpenShard) -> npt.NDArray[np.bool_]:
        """Return whether records are plain, as the headers of their chunks say."""
        rows = self._rows(indices)
        sizes, places = self._sizes[rows], self._places[rows]
        sound: npt.NDArray[np.bool_] = places != 0
        places = np.abs(places)
        heads = head_bytes(sizes) if self.size < 0 else np.full(rows.size, head_bytes(np.array([self.size]))[0])
        whole = places % BLOCK_BYTES >= heads + BLOCK_HEADER_BYTES
        whole &= sound
        at = places - heads
        if not whole.all():
            at, heads, sizes = at[whole], heads[whole], sizes[whole]
        if at.size:
            lengths, base = heads + sizes, int(at.min())
            at -= base
            # Of a record in two blocks, no more than the head is looked at, which ends where the record begins.
            chunks = Extents(self._base + base, at, lengths, int((at + lengths).max()), int(lengths.min()), ())
            fits, begins = find_plain(chunks, sizes)
            sound[whole] = (begins == heads) & (True if fits is None else fits)
        for k in np.flatnonzero(sound & ~whole).tolist():  # of 800-byte records, one in 1,400
            sound[k] = self._is_plain_alone(int(indices[k]), int(rows[k]), open_shard)
        return sound

    def _is_plain_alone(self, index: int, row: int, open_shard: OpenShard) -> bool:
        number = int(np.searchsorted(self._ends, index, side="right"))
        try:
            _, address = open_shard(number).read_one(row - int(self._first_rows[number]))
        except CorruptShardError:
            return False
        return self._is_at(number, address, int(self._place_of[row]))
