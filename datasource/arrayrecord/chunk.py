"""One chunk: a 40-byte header and a run of records. Takes bytes, gives values.

Layout, all little-endian (riegeli, ``doc/riegeli_records_file_format.md``); block headers are removed before it gets here::

    header   0 header_hash u64 | 8 data_size u64 | 16 data_hash u64 | 24 type u8 | 25 num_records u56 | 32 decoded_size u64
    data     compression u8 | varint n | n bytes: the sizes buffer, a varint per record | the values buffer: the records
    buffer   compressed: varint of its decompressed size, then the frame; not compressed: the plain bytes
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..varint import decode_varint, decode_varints
from .codecs import CODECS, decompress
from .highwayhash import hash_bytes

__all__ = [
    "CHUNK_HEADER_BYTES",
    "SIMPLE",
    "ChunkError",
    "ChunkHeader",
    "Group",
    "check_hashes",
    "check_room",
    "decode_group",
    "decode_record",
    "parse_header",
]

CHUNK_HEADER_BYTES = 40
SIMPLE = ord("r")
_HEADER = struct.Struct("<QQQQQ")
_KINDS = {
    ord("r"): "simple",
    ord("t"): "transposed",
    ord("s"): "file signature",
    ord("m"): "metadata",
    ord("p"): "padding",
}


class ChunkError(ValueError):
    """A chunk contradicts itself or the index. ``offset`` counts from the chunk's header, without block headers."""

    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(message, offset)
        self.message = message
        self.offset = offset

    def __str__(self) -> str:
        return self.message


class ChunkHeader(NamedTuple):
    """The fields of a chunk's header; sizes in bytes. A tuple, because one is made for every single read."""

    header_hash: int
    data_size: int
    data_hash: int
    kind: int
    num_records: int
    decoded_size: int


@dataclass(frozen=True, slots=True)
class Group:
    """The records of one chunk: record ``k`` is ``values[ends[k - 1] : ends[k]]``, the first starting at 0."""

    values: bytes | memoryview
    ends: npt.NDArray[np.int64]

    def record(self, place: int) -> bytes:
        """Return record ``0 <= place < len(ends)``."""
        start = int(self.ends[place - 1]) if place else 0
        return bytes(self.values[start : int(self.ends[place])])


def parse_header(data: bytes | memoryview) -> ChunkHeader:
    """Return the header at the start of ``data``, at least 40 bytes."""
    header_hash, data_size, data_hash, kind, decoded_size = _HEADER.unpack_from(data)
    return ChunkHeader(header_hash, data_size, data_hash, kind & 0xFF, kind >> 8, decoded_size)


def check_room(header: ChunkHeader, chunk_bytes: int) -> None:
    """Raise ``ChunkError`` unless the data that a header claims are in the bytes of its chunk, and enough to be data."""
    there = chunk_bytes - CHUNK_HEADER_BYTES
    if not 2 <= header.data_size <= there:
        raise ChunkError(f"the chunk claims {header.data_size} bytes of data, {there} are there", 8)


def check_hashes(chunk: memoryview) -> None:
    """Raise ``ChunkError`` unless both HighwayHash-64 of a whole chunk match its bytes."""
    header = parse_header(chunk)
    check_room(header, len(chunk))
    for name, stored, data, at in (
        ("header", header.header_hash, chunk[8:CHUNK_HEADER_BYTES], 0),
        ("data", header.data_hash, chunk[CHUNK_HEADER_BYTES : CHUNK_HEADER_BYTES + header.data_size], 40),
    ):
        found = hash_bytes(data)
        if found != stored:
            raise ChunkError(f"the chunk's {name} hash is {found:#018x}, {stored:#018x} is stored: it is damaged", at)


def _open_data(chunk: memoryview, num_records: int, decoded_size: int) -> tuple[int, int, int, int]:
    """Check a whole simple chunk against what the index says of it.

    Returns:
      The codec, the start and end of the sizes buffer, and the end of the data.
    """
    header = parse_header(chunk)
    if header.kind != SIMPLE:
        kind = _KINDS.get(header.kind, f"unknown ({header.kind:#04x})")
        hint = "; array-record's own reader reads it, or write it again without `transpose`" if kind == "transposed" else ""
        raise ChunkError(f"a {kind} chunk stands where the index says records are{hint}", 24)
    if header.num_records != num_records or header.decoded_size != decoded_size:
        raise ChunkError(
            f"the chunk holds {header.num_records} records of {header.decoded_size} bytes together, "
            f"the index says {num_records} of {decoded_size}",
            24,
        )
    check_room(header, len(chunk))
    end = CHUNK_HEADER_BYTES + header.data_size
    codec = chunk[CHUNK_HEADER_BYTES]
    if codec not in CODECS:
        raise ChunkError(f"unknown compression {codec:#04x} (known: {', '.join(CODECS.values())})", CHUNK_HEADER_BYTES)
    try:
        sizes_bytes, start = decode_varint(chunk, CHUNK_HEADER_BYTES + 1, end)
    except ValueError as error:
        raise ChunkError(f"length of the sizes buffer: {error}", CHUNK_HEADER_BYTES + 1) from None
    if sizes_bytes > end - start:
        raise ChunkError(f"a sizes buffer of {sizes_bytes} bytes is claimed, {end - start} are left", start)
    return codec, start, start + sizes_bytes, end


def _decompress(chunk: memoryview, codec: int, start: int, end: int, bounds: tuple[int, int], what: str) -> bytes | memoryview:
    """Return one buffer of a chunk, whose decompressed size is within ``bounds``: seen before memory is taken for it."""
    try:
        size, frame = decode_varint(chunk, start, end) if codec else (end - start, start)
        if not bounds[0] <= size <= bounds[1]:
            expected = " to ".join(map(str, sorted({*bounds})))
            raise ValueError(f"it is said to have {size} bytes where {expected} are expected")
        return decompress(codec, chunk[frame:end], size)
    except ValueError as error:
        raise ChunkError(f"{what}: {error}", start) from None


def decode_record(chunk: memoryview, size: int) -> bytes | memoryview:
    """Return the record of a chunk that holds one, of ``size`` bytes.

    The sizes buffer of such a chunk only repeats ``size``, so it is not decompressed.

    Raises:
      ChunkError: Anything does not add up.
    """
    codec, _, values, end = _open_data(chunk, 1, size)
    return _decompress(chunk, codec, values, end, (size, size), "the record")


def decode_group(chunk: memoryview, num_records: int, decoded_size: int) -> Group:
    """Return all records of a chunk; ``decoded_size`` bytes together, which the caller has bounded.

    Raises:
      ChunkError: Anything does not add up.
    """
    codec, start, values_start, end = _open_data(chunk, num_records, decoded_size)
    sizes_buffer = _decompress(chunk, codec, start, values_start, (num_records, 10 * num_records), "the sizes buffer")
    try:
        sizes, _ = decode_varints(np.frombuffer(sizes_buffer, np.uint8))
    except ValueError as error:
        raise ChunkError(f"the sizes buffer: {error}", start) from None
    ends = np.cumsum(sizes)
    # A sum that wraps around 2**64 descends where it does.
    if ends.size != num_records or (ends[1:] < ends[:-1]).any() or int(ends[-1]) != decoded_size:
        raise ChunkError(f"{ends.size} sizes stand for {num_records} records, or do not sum to {decoded_size} bytes", start)
    values = _decompress(chunk, codec, values_start, end, (decoded_size, decoded_size), "the values buffer")
    return Group(values, ends.view(np.int64))
