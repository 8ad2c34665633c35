"""One open shard: record numbers in, bytes out, each checked against what the index and the chunk's header say of it."""

from __future__ import annotations

import struct
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..errors import CorruptShardError
from ..pieces import Piece, gather, join
from .blocks import to_physical
from .cache import GroupCache
from .chunk import (
    CHUNK_HEADER_BYTES,
    SIMPLE,
    ChunkError,
    Group,
    check_hashes,
    decode_group,
    decode_record,
    parse_header,
)
from .file import Io, open_file
from .highwayhash import hash_many
from .index import IndexFormatError, read_index

__all__ = ["Check", "ShardReader"]

Check = Literal["structure", "hash"]
Ints = npt.NDArray[np.int64]

#: What an uncompressed chunk of one record begins with: the header, the compression byte, the length of the sizes buffer.
_SINGLE = struct.Struct("<8xQ8xQQBB")
_SINGLE_DTYPE = np.dtype(
    {
        "names": ["data_size", "kind", "decoded_size", "codec", "sizes_bytes"],
        "formats": ["<u8", "<u8", "<u8", "u1", "u1"],
        "offsets": [8, 24, 32, 40, 41],
        "itemsize": _SINGLE.size,
    }
)
_ONE_SIMPLE = SIMPLE | 1 << 8
#: From here on a chunk's own header is asked how long it is, before so much is read: padding may follow it.
_LONG_BYTES = 1 << 20


class ShardReader:
    """Reads one file. Threads may share it, a forked child may go on with it; it is not picklable (``path`` is).

    Raises on construction:
      ShardNotFoundError, CorruptShardError, DataError: see ``ArrayRecordDataSource``.
    """

    def __init__(self, path: str, *, io: Io, check: Check, max_chunk_bytes: int, cache: GroupCache) -> None:
        self.path = path
        self._check = check
        self._max_chunk_bytes = max_chunk_bytes
        self._cache = cache
        self._file = open_file(path, io)
        try:
            self.index = read_index(self._file.read, self._file.file_bytes, check_hash=check == "hash")
        except IndexFormatError as error:
            raise CorruptShardError(error.message, path, None, error.offset) from None
        # Indexing a memoryview gives a Python int at a third of the price of indexing the array.
        self._starts = self.index.starts.data
        self._sizes = self.index.decoded_sizes.data

    @property
    def num_records(self) -> int:
        """Records in the file."""
        return self.index.num_records

    @property
    def file_bytes(self) -> int:
        """Size of the file."""
        return self._file.file_bytes

    def read_one(self, record: int) -> bytes:
        """Return record ``0 <= record < num_records``.

        Raises:
          CorruptShardError: The record is damaged.
        """
        if self.index.record_ends is not None:
            chunks, places = self.index.locate(np.array([record]))
            return self._read_group(int(chunks[0]), record).record(int(places[0]))
        start, size = self._starts[record], self._sizes[record]
        span = self._starts[record + 1] - start
        try:
            if span > _LONG_BYTES or size > self._max_chunk_bytes or self._check == "hash":
                return bytes(decode_record(self._read_chunk(record), size))
            chunk = self._file.read(start, span)
            if span >= _SINGLE.size:
                data_size, kind, decoded_size, codec, sizes_bytes = _SINGLE.unpack_from(chunk)
                if codec == 0 and kind == _ONE_SIMPLE and decoded_size == size and sizes_bytes < 128:
                    values = _SINGLE.size + sizes_bytes
                    if data_size == 2 + sizes_bytes + size and values + size <= span:
                        return bytes(chunk[values : values + size])
            return bytes(decode_record(chunk, size))
        except ChunkError as error:
            raise self._explain(error, record, record) from None

    def read_many(self, records: Ints) -> list[Piece]:
        """Return the bytes of ``records``, all within bounds, duplicates allowed, in a few buffers; see ``Piece``.

        Raises:
          CorruptShardError: A record is damaged; the first of them in the asked order is named.
        """
        if self.index.record_ends is not None:
            return self._read_many_grouped(records)
        starts, sizes = self.index.starts[records], self.index.decoded_sizes[records]
        spans = self.index.starts[records + 1] - starts
        for row in np.flatnonzero((spans > _LONG_BYTES) | (sizes > self._max_chunk_bytes)).tolist():
            try:
                spans[row] = self._trim(int(records[row]))
            except ChunkError as error:
                raise self._explain(error, int(records[row]), int(records[row])) from None
        pieces = []
        for piece in self._file.gather(starts, spans):
            pieces += self._open_chunks(piece, records[piece.rows], sizes[piece.rows])
        return pieces

    def _open_chunks(self, piece: Piece, records: Ints, sizes: Ints) -> list[Piece]:
        """Turn chunks of one record each into the records in them, in place where they are not compressed."""
        if not records.size:
            return []
        if int(piece.sizes.min()) < _SINGLE.size:
            return self._decode_each(piece, records, sizes)
        headers = gather(piece.buffer, piece.starts, _SINGLE_DTYPE)[:, 0]
        data_sizes = headers["data_size"].astype(np.int64)
        values = _SINGLE.size + headers["sizes_bytes"].astype(np.int64)
        plain = headers["codec"] == 0
        # Whatever does not look as it should goes the slow way, which knows how to say what is wrong.
        fits = plain & (headers["kind"] == _ONE_SIMPLE) & (headers["decoded_size"] == sizes)
        fits &= (data_sizes + CHUNK_HEADER_BYTES == values + sizes) & (values + sizes <= piece.sizes)
        fits &= headers["sizes_bytes"] < 128
        if self._check == "hash":
            fits &= (data_sizes >= 0) & (data_sizes <= piece.sizes - CHUNK_HEADER_BYTES)
            fits[fits] = self._hashes_match(piece, np.flatnonzero(fits), data_sizes)
        if fits.all():
            return [Piece(piece.rows, piece.buffer, piece.starts + values, sizes)]
        odd, good = np.flatnonzero(~fits), np.flatnonzero(fits)
        rest = Piece(piece.rows[odd], piece.buffer, piece.starts[odd], piece.sizes[odd])
        decoded = self._decode_each(rest, records[odd], sizes[odd])
        if not good.size:
            return decoded
        return [Piece(piece.rows[good], piece.buffer, piece.starts[good] + values[good], sizes[good]), *decoded]

    def _hashes_match(self, piece: Piece, rows: Ints, data_sizes: Ints) -> npt.NDArray[np.bool_]:
        """Return for each of ``rows`` of a piece whether both HighwayHash-64 of its chunk match."""
        starts = piece.starts[rows]
        stored = gather(piece.buffer, starts, "<u8", 3)
        header_hashes = hash_many(piece.buffer, starts + 8, np.full(rows.size, CHUNK_HEADER_BYTES - 8))
        data_hashes = hash_many(piece.buffer, starts + CHUNK_HEADER_BYTES, data_sizes[rows])
        same: npt.NDArray[np.bool_] = (header_hashes == stored[:, 0]) & (data_hashes == stored[:, 2])
        return same

    def _decode_each(self, piece: Piece, records: Ints, sizes: Ints) -> list[Piece]:
        """Decode chunks of one record one by one, compressed ones for a start, into a buffer of their own."""
        view = piece.buffer.data
        decoded: list[bytes | memoryview] = []
        rows = zip(records.tolist(), sizes.tolist(), piece.starts.tolist(), piece.sizes.tolist(), strict=True)
        for record, size, start, span in rows:
            chunk = view[start : start + span]
            try:
                if self._check == "hash":
                    self._check_hashes(chunk)
                decoded.append(decode_record(chunk, size))
            except ChunkError as error:
                raise self._explain(error, record, record) from None
        return [join(piece.rows, decoded)]

    def _read_many_grouped(self, records: Ints) -> list[Piece]:
        chunks, places = self.index.locate(records)
        # Chunk by chunk, so that each is decompressed once, whatever order was asked for.
        order = np.argsort(chunks, kind="stable")
        found: list[bytes | memoryview] = []
        last, group = -1, None
        for chunk, place, record in zip(
            chunks[order].tolist(), places[order].tolist(), records[order].tolist(), strict=True
        ):
            if chunk != last or group is None:
                group, last = self._read_group(chunk, record), chunk
            found.append(group.record(place))
        return [join(order, found)]

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
            self._check_hashes(data)
        return data

    def _trim(self, chunk: int) -> int:
        """Return how many bytes a chunk takes, by its own header and within the limits."""
        start = self._starts[chunk]
        span = self._starts[chunk + 1] - start
        stated = CHUNK_HEADER_BYTES + parse_header(self._file.read(start, CHUNK_HEADER_BYTES)).data_size
        largest = max(self._sizes[chunk], stated if stated <= span else 0)
        if largest > self._max_chunk_bytes:
            raise ChunkError(
                f"a chunk of {largest} bytes is past the limit of max_chunk_bytes={self._max_chunk_bytes}; raise it if the "
                "file is to be trusted"
            )
        return min(span, stated)

    def _check_hashes(self, chunk: memoryview) -> None:
        header = parse_header(chunk)
        if header.data_size > len(chunk) - CHUNK_HEADER_BYTES:
            raise ChunkError(f"the chunk claims {header.data_size} bytes of data, {len(chunk) - 40} are there", 8)
        check_hashes(chunk, header)

    def _explain(self, error: ChunkError, chunk: int, record: int) -> CorruptShardError:
        offset = to_physical(self._starts[chunk] + error.offset)
        return CorruptShardError(f"{error.message}. Copy the file again, or leave it out", self.path, record, offset)
