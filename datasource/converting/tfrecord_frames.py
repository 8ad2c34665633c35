"""The records of a TFRecord file one after the other: plain, gzip or zlib, whole or damaged, in bounded memory."""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Literal, NamedTuple, TypeAlias

from ..arrayrecord.crc import load_crc32c
from ..errors import CorruptShardError, DataError, ShardNotFoundError
from ..tfrecord.framing import FOOTER_BYTES, FRAME_BYTES, HEADER_BYTES, mask

__all__ = ["Compression", "Frame", "Inflated", "detect_compression", "read_frames"]

Compression: TypeAlias = Literal["auto", "none", "gzip", "zlib"]

_HEADER = struct.Struct("<QI")
_CRC = struct.Struct("<I")
_PIECE_BYTES = 1 << 20
#: No message of protocol buffers is longer, and a length may be a lie.
_MAX_RECORD_BYTES = (1 << 31) - 1
#: As far as a length is tried whose checksum does not match.
_MAX_GUESS_BYTES = 1 << 26
#: zlib finds out by itself whether a stream has gzip's header or its own.
_EITHER = zlib.MAX_WBITS | 32


class Frame(NamedTuple):
    """One record of a file.

    Attributes:
      record: Its number; None for an error that concerns all that follows.
      data: Its bytes, or why they cannot be had.
      size: Bytes of the file, as it is stored, that were read for it.
    """

    record: int | None
    data: bytes | DataError
    size: int


class Inflated(io.RawIOBase):
    """What a gzip file (of several members, maybe) or a zlib file holds, as it is asked for.

    Raises, when read:
      zlib.error: It is neither, is damaged or was cut short.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._stream = zlib.decompressobj(_EITHER)
        self._left = b""
        self._begun = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        while True:
            if not self._left:
                self._left = self._file.read(_PIECE_BYTES)
                if not self._left:
                    if self._begun and not self._stream.eof:
                        raise zlib.error("the stream does not end")
                    return 0
            if self._stream.eof:
                self._stream = zlib.decompressobj(_EITHER)
            self._begun = True
            data = self._stream.decompress(self._left, len(buffer))
            self._left = self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail
            if data:
                buffer[: len(data)] = data
                return len(data)


def detect_compression(path: str) -> Literal["none", "gzip", "zlib"]:
    """Return how a TFRecord file is compressed. One that is no TFRecord file at all counts as plain.

    Raises:
      ShardNotFoundError, DataError: It is not there, or cannot be read.
    """
    with _open(path) as file:
        start = file.read(HEADER_BYTES)
    if len(start) == HEADER_BYTES and _is_header(start):
        return "none"
    if start[:2] == b"\x1f\x8b":
        return "gzip"
    # RFC 1950: deflate with a window of up to 32 KiB, and a header that is a multiple of 31.
    return "zlib" if len(start) >= 2 and start[0] == 0x78 and int.from_bytes(start[:2], "big") % 31 == 0 else "none"


def read_frames(
    path: str, compression: Compression = "auto", *, start: int = 0, stop: int | None = None, first: int = 0
) -> Iterator[Frame]:
    """Yield the records of a file in their order; in the place of one that is damaged, the error.

    A record whose data do not match their checksum is one error. Where a length does not match its own, the record is an
    error, too, and if its data do not match either, nobody knows where the next one begins: then it is the last.

    Args:
      start, stop: Bytes of a plain file, at which records begin; None for its end.
      first: The number of the record at ``start``.

    Raises:
      ShardNotFoundError, DataError: The file is not there, or cannot be opened.
    """
    if compression == "auto":
        compression = detect_compression(path)
    with _open(path) as raw:
        end = os.fstat(raw.fileno()).st_size if stop is None else stop
        if compression == "none":
            raw.seek(start)
            yield from _read(path, raw, raw, first, lambda: end - raw.tell())
        else:
            inflated = io.BufferedReader(Inflated(raw), _PIECE_BYTES)
            yield from _read(path, raw, inflated, first, lambda: _MAX_RECORD_BYTES + FRAME_BYTES)


def _read(path: str, raw: IO[bytes], file: IO[bytes], first: int, room: Callable[[], int]) -> Iterator[Frame]:
    crc32c = load_crc32c()
    record, told = first, raw.tell()
    # The offset is that of the record in the plain stream, from `start` on.
    offset = told

    def explain(message: str) -> CorruptShardError:
        return CorruptShardError(f"{message}. Copy the file again, or skip what is damaged", path, record, offset)

    while True:
        try:
            left = room()
            if left <= 0:
                return
            header = file.read(min(HEADER_BYTES, left))
            if not header:
                return
            if len(header) < HEADER_BYTES:
                message = f"the file ends after {len(header)} of the {HEADER_BYTES} bytes of its header"
                yield Frame(None, explain(message), raw.tell() - told)
                return
            length, stored = _HEADER.unpack(header)
            is_sound = stored == mask(crc32c(header[:8]))
            most = _MAX_RECORD_BYTES if is_sound else _MAX_GUESS_BYTES
            if length > min(left - FRAME_BYTES, most):
                if is_sound and length > _MAX_RECORD_BYTES:
                    message = f"it claims {length} bytes, and no record can have more than {_MAX_RECORD_BYTES}"
                elif is_sound:
                    message = f"the file ends before the {length} bytes that it takes"
                else:
                    message = "the checksum of its length does not match, and where the next record begins is not known"
                yield Frame(None, explain(message), raw.tell() - told)
                return
            data = _read_exactly(file, length + FOOTER_BYTES)
            if len(data) < length + FOOTER_BYTES:
                message = f"the file ends after {len(data)} of the {length + FOOTER_BYTES} bytes that it takes"
                yield Frame(None, explain(message), raw.tell() - told)
                return
        except (zlib.error, OSError) as error:
            yield Frame(None, explain(f"it cannot be read: {error}"), max(raw.tell() - told, 0))
            return
        body = data[:length]
        matches = _CRC.unpack_from(data, length)[0] == mask(crc32c(body))
        size, told = raw.tell() - told, raw.tell()
        if is_sound and matches:
            yield Frame(record, body, size)
        elif is_sound:
            yield Frame(record, explain("the checksum of its data does not match"), size)
        elif matches:
            yield Frame(record, explain("the checksum of its length does not match"), size)
        else:
            message = "the checksum of its length does not match, and where the next record begins is not known"
            yield Frame(None, explain(message), size)
            return
        record += 1
        offset += length + FRAME_BYTES


def _read_exactly(file: IO[bytes], count: int) -> bytes:
    """Return ``count`` bytes, fewer at the end; memory is taken as they come, for the count may be a lie."""
    if count <= _PIECE_BYTES:
        return file.read(count)
    found = bytearray()
    while len(found) < count and (piece := file.read(min(_PIECE_BYTES, count - len(found)))):
        found += piece
    return bytes(found)


def _is_header(header: bytes) -> bool:
    return bool(_HEADER.unpack(header)[1] == mask(load_crc32c()(header[:8])))


def _open(path: str) -> IO[bytes]:
    try:
        return open(path, "rb", buffering=_PIECE_BYTES)
    except FileNotFoundError:
        raise ShardNotFoundError("no such file", path) from None
    except OSError as error:
        raise DataError(f"cannot be opened: {error.strerror or error}", path) from error
