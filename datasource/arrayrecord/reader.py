"""One open shard: record numbers in, bytes out, each checked against what the index and the chunk's header say of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ..distinct import distinct
from ..errors import CorruptShardError
from ..hints import LEAST_BYTES, is_due, is_of_use
from ..memory import Extents
from .blocks import USABLE_BYTES, to_physical
from .cache import GroupCache
from .chunk import (
    CHUNK_HEADER_BYTES,
    ChunkError,
    Group,
    check_hashes,
    check_room,
    decode_group,
    decode_record,
    parse_header,
)
from .crc import load_crc32c
from .file import Io, MapFile, ShardFile, open_file
from .highwayhash import hash_many
from .index import IndexFormatError, ShardIndex, read_index
from .mapping import map_file
from .plain import ONE_SIMPLE, PLAIN_HEAD, find_plain
from .record_index import IndexedShard
from .steps import Steps

__all__ = ["Check", "ShardReader"]

Check = Literal["structure", "crc", "hash"]
Ints = npt.NDArray[np.int64]
Note: TypeAlias = Callable[[Ints, Ints, Ints], None]

#: From here on a chunk's own header is asked how long it is, before so much is read: padding may follow it.
_LONG_BYTES = 1 << 20


class ShardReader:
    """Reads one file. Threads may share it, a forked child may go on with it; it is not picklable (``path`` is).

    Raises on construction:
      ShardNotFoundError, CorruptShardError, DataError: see ``ArrayRecordDataSource``.
    """

    def __init__(
        self,
        path: str,
        *,
        io: Io,
        check: Check,
        max_chunk_bytes: int,
        cache: GroupCache,
        indexed: IndexedShard | None = None,
        map_file: MapFile = map_file,
    ) -> None:
        self.path = path
        self._check = check
        self._max_chunk_bytes = max_chunk_bytes
        self._cache = cache
        self._file = open_file(path, io, map_file)
        self._checksums: npt.NDArray[np.uint32] | None = None
        self.index = self._believe(indexed) or self._read_index()
        # Indexing a memoryview gives a Python int at a third of the price of indexing the array.
        starts = self.index.starts
        self._starts = starts if isinstance(starts, Steps) else starts.data
        self._sizes = self.index.decoded_sizes.data
        self._base = 0 if self._file.mapping is None else self._file.mapping.ctypes.data
        self._is_long = self._starts[-1] - self._starts[0] >= LEAST_BYTES * max(1, len(self._starts) - 1)

    def _believe(self, indexed: IndexedShard | None) -> ShardIndex | None:
        """Return the index that was made of this file, if it still fits."""
        if indexed is None:
            return None
        if indexed.index.num_records and is_of_use():
            # Else the three places that it is told by are read one after the other, with all that the system reads around them.
            heads = np.asarray(indexed.index.starts[np.array([0, -2, -1])])
            self._file.hint(heads, heads + CHUNK_HEADER_BYTES)
        if reason := indexed.mismatch(self._file):
            warnings.warn(
                f"{self.path}: the record index is not used, {reason}; make it again with `arrayfeed index`",
                RuntimeWarning,
                stacklevel=2,
            )
            return None
        if self._check == "crc":
            self._crc32c, self._checksums = load_crc32c(), indexed.checksums
        return indexed.index

    def _read_index(self) -> ShardIndex:
        try:
            return read_index(self._file.read, self._file.file_bytes, check_hash=self._check == "hash")
        except IndexFormatError as error:
            raise CorruptShardError(error.message, self.path, None, error.offset) from None

    @property
    def num_records(self) -> int:
        """Records in the file."""
        return self.index.num_records

    @property
    def file(self) -> ShardFile:
        """The file itself."""
        return self._file

    @property
    def is_indexed(self) -> bool:
        """Whether a record index is believed, by which every record is compared with its CRC."""
        return self._checksums is not None

    def read_one(self, record: int) -> tuple[bytes, int]:
        """Return record ``0 <= record < num_records``, and its address for ``Places``: 0 if it is not plain in a mapping.

        Raises:
          CorruptShardError: The record is damaged.
        """
        data, address = self._read_unchecked(record)
        if self._checksums is not None and (found := self._crc32c(data)) != self._checksums[record]:
            raise self._explain_crc(record, found)
        return data, address

    def address_of(self, starts: Ints) -> Ints:
        """Return where in memory logical positions of a mapped file are."""
        return to_physical(starts) + self._base

    def hint(self, records: Ints) -> int:
        """Let the system read records, at least one, ahead if chunks are long; see ``hint_memory``."""
        if not self._is_long:
            return 0
        chunks = records if self.index.record_ends is None else distinct(self.index.locate(records)[0])
        return self._file.hint(self.index.starts[chunks], self.index.starts[chunks + 1])

    def hint_due(self, records: Ints) -> None:
        """Do so for records that are read at once now, if that is of use; see ``is_due``."""
        if self._is_long and is_due(records.size):
            self.hint(records)

    def offset_of(self, record: int) -> int:
        """Return the byte of the file at which the chunk of record ``0 <= record < num_records`` begins."""
        chunk = record if self.index.record_ends is None else int(self.index.locate(np.array([record]))[0][0])
        return to_physical(self._starts[chunk])

    def _read_unchecked(self, record: int) -> tuple[bytes, int]:
        if self.index.record_ends is not None:
            chunks, places = self.index.locate(np.array([record]))
            return self._read_group(int(chunks[0]), record).record(int(places[0])), 0
        start, size = self._starts[record], self._sizes[record]
        span = self._starts[record + 1] - start
        try:
            if span > _LONG_BYTES or size > self._max_chunk_bytes or self._check == "hash":
                return bytes(decode_record(self._read_chunk(record), size)), 0
            chunk = self._file.read(start, span)
            if span >= PLAIN_HEAD.size:
                data_size, kind, decoded_size, codec, sizes_bytes = PLAIN_HEAD.unpack_from(chunk)
                values = PLAIN_HEAD.size + sizes_bytes
                if codec == 0 and kind == ONE_SIMPLE and decoded_size == size and sizes_bytes < 128:
                    if data_size + CHUNK_HEADER_BYTES == values + size <= span:
                        return bytes(chunk[values : values + size]), self._address(start + values, size)
            return bytes(decode_record(chunk, size)), 0
        except ChunkError as error:
            raise self._explain(error, record, record) from None

    def read_many(self, records: Ints, note: Note | None = None) -> Extents:
        """Return the bytes of ``records``, all within bounds, duplicates allowed: in place in the file where possible.

        Args:
          note: Is told, as ``note(records, addresses, sizes)``, where those are that stay in place; see ``Places``.

        Raises:
          CorruptShardError: A record is damaged; the first of them in the asked order is named.
        """
        self.hint_due(records)
        if self.index.record_ends is not None:
            return self._read_many_grouped(records)
        starts, sizes = self.index.starts[records], self.index.decoded_sizes[records]
        spans = self.index.starts[records + 1] - starts
        long = (spans > _LONG_BYTES) | (sizes > self._max_chunk_bytes)
        if long.any():
            for row in np.flatnonzero(long).tolist():
                try:
                    spans[row] = self._trim(int(records[row]))
                except ChunkError as error:
                    raise self._explain(error, int(records[row]), int(records[row])) from None
        chunks = self._file.gather(starts, spans).compact()
        checked: list[tuple[Ints, Ints, Ints]] = []
        found = self._open_chunks(chunks, records, sizes, lambda *places: checked.append(places))
        if self._checksums is not None:
            checksums = np.fromiter(map(self._crc32c, found.tolist()), np.uint32, len(found))
            damaged = np.flatnonzero(checksums != self._checksums[records])
            if damaged.size:
                raise self._explain_crc(int(records[damaged[0]]), int(checksums[damaged[0]]))
        if note is not None:
            for places in checked:
                note(*places)
        return found

    def _open_chunks(self, chunks: Extents, records: Ints, sizes: Ints, note: Note) -> Extents:
        """Turn chunks of one record each into the records in them, in place where they are not compressed."""
        if chunks.smallest < PLAIN_HEAD.size:
            return self._decode_each(chunks, records, sizes)
        # Whatever does not look as it should goes the slow way, which knows how to say what is wrong.
        fits, values = find_plain(chunks, sizes)
        if self._check == "hash":
            fits = np.ones(len(chunks), np.bool_) if fits is None else fits
            fits[fits] = self._hashes_match(chunks[fits], (values + sizes)[fits] - CHUNK_HEADER_BYTES)
        if fits is None or fits.all():
            self._tell(note, records, values, sizes)
            return chunks.inner(values, sizes)
        values = np.broadcast_to(values, sizes.shape)
        good, odd = np.flatnonzero(fits), np.flatnonzero(~fits)
        self._tell(note, records[good], values[good], sizes[good])
        decoded = self._decode_each(chunks[odd], records[odd], sizes[odd])
        return Extents.merged(len(chunks), [(good, chunks[good].inner(values[good], sizes[good])), (odd, decoded)])

    def _tell(self, note: Note, records: Ints, values: Ints | int, sizes: Ints) -> None:
        """Tell where the plain records of checked chunks are; ``values`` counts from each chunk's header."""
        if self._file.mapping is not None:
            starts = self.index.starts[records] + values
            whole = starts % USABLE_BYTES + sizes <= USABLE_BYTES
            note(records, np.where(whole, to_physical(starts) + self._base, -starts), sizes)

    def _address(self, start: int, size: int) -> int:
        if self._file.mapping is None:
            return 0
        return self._base + to_physical(start) if start % USABLE_BYTES + size <= USABLE_BYTES else -start

    def _hashes_match(self, chunks: Extents, data_sizes: Ints) -> npt.NDArray[np.bool_]:
        """Return for each chunk whether both its HighwayHash-64 match."""
        stored = chunks.field(0, "<u8", 3)
        headers = chunks.inner(8, np.full(len(chunks), CHUNK_HEADER_BYTES - 8))
        same: npt.NDArray[np.bool_] = hash_many(*headers.as_buffer()) == stored[:, 0]
        same &= hash_many(*chunks.inner(CHUNK_HEADER_BYTES, data_sizes).as_buffer()) == stored[:, 2]
        return same

    def _decode_each(self, chunks: Extents, records: Ints, sizes: Ints) -> Extents:
        """Decode chunks of one record one by one, compressed ones for a start, into a buffer of their own."""
        decoded: list[bytes | memoryview] = []
        for record, size, data in zip(records.tolist(), sizes.tolist(), chunks.tolist(), strict=True):
            chunk = memoryview(data)
            try:
                if self._check == "hash":
                    check_hashes(chunk)
                decoded.append(decode_record(chunk, size))
            except ChunkError as error:
                raise self._explain(error, record, record) from None
        return Extents.joined(decoded)

    def _read_many_grouped(self, records: Ints) -> Extents:
        chunks, places = self.index.locate(records)
        # Chunk by chunk, so that each is decompressed once, whatever order was asked for.
        order = np.argsort(chunks, kind="stable")
        found: list[bytes | memoryview] = []
        last, group = -1, None
        for chunk, place, record in zip(chunks[order].tolist(), places[order].tolist(), records[order].tolist(), strict=True):
            if chunk != last or group is None:
                group, last = self._read_group(chunk, record), chunk
            found.append(group.record(place))
        return Extents.merged(records.size, [(order, Extents.joined(found))])

    def _read_group(self, chunk: int, record: int) -> Group:
        """Return the records of one chunk; ``record`` is the one it is read for, to name it in an error."""
        group = self._cache.get(self.path, chunk)
        if group is None:
            record_ends = self.index.record_ends
            assert record_ends is not None
            num_records = int(record_ends[chunk]) - (int(record_ends[chunk - 1]) if chunk else 0)
            try:
                group = decode_group(self._read_chunk(chunk), num_records, self._sizes[chunk])
            except ChunkError as error:
                raise self._explain(error, chunk, record) from None
            self._cache.put(self.path, chunk, group)
        return group

    def _read_chunk(self, chunk: int) -> memoryview:
        """Return a chunk's bytes, hashes checked where asked."""
        data = self._file.read(self._starts[chunk], self._trim(chunk))
        if self._check == "hash":
            check_hashes(data)
        return data

    def _trim(self, chunk: int) -> int:
        """Return how many bytes a chunk takes, by its own header and within the limits."""
        start = self._starts[chunk]
        span = self._starts[chunk + 1] - start
        header = parse_header(self._file.read(start, CHUNK_HEADER_BYTES))
        check_room(header, span)
        stated = CHUNK_HEADER_BYTES + header.data_size
        largest = max(self._sizes[chunk], stated)
        if largest > self._max_chunk_bytes:
            raise ChunkError(
                f"a chunk of {largest} bytes is past the limit of max_chunk_bytes={self._max_chunk_bytes}; raise it if the "
                "file is to be trusted"
            )
        return stated

    def _explain_crc(self, record: int, found: int) -> CorruptShardError:
        assert self._checksums is not None
        return CorruptShardError(
            f"the record's CRC32C is {found:#010x}, the record index says {int(self._checksums[record]):#010x}: the record is "
            "damaged. Copy the file again, or leave it out",
            self.path,
            record,
            to_physical(self._starts[record]),
        )

    def _explain(self, error: ChunkError, chunk: int, record: int) -> CorruptShardError:
        offset = to_physical(self._starts[chunk] + error.offset)
        return CorruptShardError(f"{error.message}. Copy the file again, or leave it out", self.path, record, offset)
