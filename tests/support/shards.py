"""ArrayRecord files for tests: written by array_record, or put together byte by byte, lies included, with hashes that match."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from array_record.python.array_record_module import ArrayRecordWriter

from arrayfeed.datasource.arrayrecord.highwayhash import hash_bytes
from arrayfeed.datasource.varint import encode_varint

__all__ = ["CODECS", "MAGIC", "Chunk", "Shard", "forge", "pack_about", "pack_fields", "pack_simple", "write_shard"]

#: Names of codecs as array_record's options spell them.
CODECS = ("uncompressed", "zstd", "brotli:1", "snappy")

MAGIC = 0x71930E704FDAE05E
_BLOCK = 65536


def write_shard(
    path: str | os.PathLike[str],
    records: Iterable[bytes],
    *,
    codec: str = "uncompressed",
    group_size: int = 1,
    options: str = "",
) -> str:
    """Write records with array_record's own writer; ``options`` are further ones of its, as "transpose:true"."""
    writer = ArrayRecordWriter(os.fspath(path), f"group_size:{group_size},{codec},max_parallelism:1{options and ',' + options}")
    for record in records:
        writer.write(record)
    writer.close()
    return os.fspath(path)


@dataclass
class Chunk:
    """A chunk as it is to stand in a file; what is None is computed, and true."""

    data: bytes
    num_records: int
    decoded_size: int
    kind: bytes = b"r"
    data_size: int | None = None
    data_hash: int | None = None
    header_hash: int | None = None

    def pack(self) -> bytes:
        header = struct.pack(
            "<QQc7sQ",
            len(self.data) if self.data_size is None else self.data_size,
            hash_bytes(self.data) if self.data_hash is None else self.data_hash,
            self.kind,
            self.num_records.to_bytes(7, "little"),
            self.decoded_size,
        )
        stored = hash_bytes(header) if self.header_hash is None else self.header_hash
        return struct.pack("<Q", stored) + header + self.data


def pack_simple(records: Sequence[bytes]) -> Chunk:
    """Return the uncompressed chunk of some records."""
    sizes = b"".join(encode_varint(len(record)) for record in records)
    values = b"".join(records)
    return Chunk(bytes(1) + encode_varint(len(sizes)) + sizes + values, len(records), len(values))


@dataclass
class Shard:
    """What a forged file holds; what is None is computed, and true.

    Attributes:
      chunks: Its data.
      entries: What the footer says of each chunk: (offset, decoded size, records), of None the truth.
      summary: What the footer says of all: (chunks, records).
      footer: The footer's chunk itself.
      footer_offset: Where the postscript says that it is.
      postscript: The postscript's chunk itself.
      hole_blocks: Blocks between data and footer that take no space on the disk.
    """

    chunks: list[Chunk]
    entries: Sequence[tuple[int | None, int | None, int | None]] | None = None
    summary: tuple[int, int] | None = None
    footer: Chunk | None = None
    footer_offset: int | None = None
    postscript: Chunk | None = None
    hole_blocks: int = 0


def forge(path: str | os.PathLike[str], shard: Shard) -> str:
    """Write a file laid out as riegeli does (but block headers are left 0: no reader of ours looks at them)."""
    head, tail = bytearray(64), bytearray()  # 64 bytes of signature, which is not looked at either
    offsets = [_append(head, chunk.pack()) for chunk in shard.chunks]
    truth = [(at, chunk.decoded_size, chunk.num_records) for at, chunk in zip(offsets, shard.chunks, strict=True)]
    entries = [
        [true if lie is None else lie for lie, true in zip(*pair, strict=True)]
        for pair in zip(shard.entries or [(None, None, None)] * len(truth), truth, strict=True)
    ]
    summary = shard.summary or (len(entries), sum(entry[2] for entry in entries))
    footer = shard.footer or pack_simple([pack_about(*summary), *(pack_fields(*entry) for entry in entries)])
    hole = shard.hole_blocks * _BLOCK
    if hole:
        head += bytes(-len(head) % _BLOCK)
        footer_offset = len(head) + hole + _append(tail, footer.pack())
    else:
        footer_offset = _append(head, footer.pack())
        head += bytes(-len(head) % _BLOCK)
    tail += bytes(-len(tail) % _BLOCK)
    pointer = pack_fields(footer_offset if shard.footer_offset is None else shard.footer_offset, MAGIC)
    _append(tail, (shard.postscript or pack_simple([pointer] * 3)).pack())
    tail += bytes(-len(tail) % _BLOCK)
    with open(path, "wb") as file:
        file.write(head)
        file.seek(hole, os.SEEK_CUR)
        file.write(tail)
    return os.fspath(path)


def pack_about(num_chunks: int, num_records: int) -> bytes:
    """Return the first record of a footer."""
    described = pack_fields(None, num_chunks, num_records)
    return b"\x0a" + encode_varint(len(described)) + described


def pack_fields(*values: int | None) -> bytes:
    """Return a protobuf message of numbers: field 1 is the first of ``values``; None is left out."""
    fields = [bytes([number << 3]) + encode_varint(v) for number, v in enumerate(values, start=1) if v is not None]
    return b"".join(fields)


def _append(out: bytearray, data: bytes) -> int:
    """Put data at the end of a file, block headers where they belong, and return the offset that others know it by."""
    start = len(out)
    while data:
        if len(out) % _BLOCK == 0:
            out += bytes(24)
        room = _BLOCK - len(out) % _BLOCK
        out += data[:room]
        data = data[room:]
    return start
