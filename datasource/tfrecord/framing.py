"""The frames of a TFRecord file: bytes in, offsets out. Pure.

Each record, little-endian (tensorflow/core/lib/io/record_writer.cc):

    u64 length, u32 masked CRC32C of these 8 bytes, data, u32 masked CRC32C of the data
"""

from __future__ import annotations

import struct
from functools import cache

import numpy as np
import numpy.typing as npt

from ..arrayrecord.crc import load_crc32c

__all__ = ["FOOTER_BYTES", "FRAME_BYTES", "HEADER_BYTES", "FrameError", "mask", "scan", "seal"]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

HEADER_BYTES, FOOTER_BYTES = 12, 4
FRAME_BYTES = HEADER_BYTES + FOOTER_BYTES

_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")
_MASK_DELTA = 0xA282EAD8
#: Records whose checksums are compared at once; this bounds what is read of a file that is something else.
_BLOCK_RECORDS = 1 << 16
#: So many records of one length make it likely that more follow: those are found without a loop.
_RUN_RECORDS = 8


class FrameError(ValueError):
    """A file's frames contradict themselves.

    Attributes:
      message: How.
      record: The number of the record at fault.
      offset: The byte at which it starts.
    """

    def __init__(self, message: str, record: int, offset: int) -> None:
        super().__init__(message, record, offset)
        self.message = message
        self.record = record
        self.offset = offset

    def __str__(self) -> str:
        return self.message


def mask(crc32c: int) -> int:
    """Return a CRC32C as it is stored: turned by 15 bits and shifted, so that a checksum of a checksum is none."""
    return ((crc32c >> 15 | crc32c << 17) + _MASK_DELTA) & 0xFFFFFFFF


def seal(record: bytes) -> tuple[bytes, bytes]:
    """Return what stands before a record in a file, and what behind it."""
    crc32c = load_crc32c()
    length = _LENGTH.pack(len(record))
    return length + _CRC.pack(mask(crc32c(length))), _CRC.pack(mask(crc32c(record)))


def scan(data: Bytes) -> Ints:
    """Return where each record of a file starts, and where the last one ends: int64, records + 1.

    Every length is compared with its checksum; data are not looked at. Records of equal lengths take 0.02 us each, others 0.3.

    Raises:
      FrameError: A length does not match its checksum, or the file ends inside a record, be it inside its header.
    """
    found = [np.zeros(1, np.int64)]
    records = at = 0
    while at < data.size:
        starts = _follow(data, at)
        if not starts.size:
            left = data.size - at
            raise FrameError(f"the file ends after {left} of the {HEADER_BYTES} bytes of its header", records, at)
        damaged = _first_damaged(data, starts)
        if damaged is not None:
            offset = int(starts[damaged])
            raise FrameError("the checksum of its length does not match", records + damaged, offset)
        records += starts.size
        last = int(starts[-1])
        at = last + FRAME_BYTES + _LENGTH.unpack_from(data.data, last)[0]
        if at > data.size:
            left = data.size - last
            raise FrameError(f"the file ends after {left} of the {at - last} bytes that it takes", records - 1, last)
        found += (starts[1:], np.array([at], np.int64))
    return np.concatenate(found)


def _follow(data: Bytes, at: int) -> Ints:
    """Return where records start, from byte ``at`` on: as far as the lengths lead, or some 65,536 of them.

    The last may reach past the end of the file, and is then alone.
    """
    view, unpack = data.data, _LENGTH.unpack_from
    pieces: list[Ints] = []
    starts: list[int] = []
    size, count, run, previous = data.size, 0, 0, -1
    while count < _BLOCK_RECORDS and at <= size - HEADER_BYTES:
        length = unpack(view, at)[0]
        if length > size - at - FRAME_BYTES:
            if not count:
                return np.array([at], np.int64)
            break
        starts.append(at)
        at += length + FRAME_BYTES
        count += 1
        run = run + 1 if length == previous else 0
        previous = length
        if run == _RUN_RECORDS:
            more = _count_equal(data, at, length)
            pieces += (np.array(starts, np.int64), at + (length + FRAME_BYTES) * np.arange(more, dtype=np.int64))
            starts, run = [], 0
            count += more
            at += more * (length + FRAME_BYTES)
    return np.concatenate([*pieces, np.array(starts, np.int64)])


def _count_equal(data: Bytes, at: int, length: int) -> int:
    """Return how many records from byte ``at`` on, up to 65,536, have this length and end within the file."""
    stride = length + FRAME_BYTES
    room = min((data.size - at) // stride, _BLOCK_RECORDS)
    checked, width = 0, 64
    while checked < room:
        width = min(4 * width, room - checked)
        lengths = np.ndarray((width,), "<u8", data, at + checked * stride, (stride,))
        equal = lengths == length
        if not equal.all():
            return checked + int(equal.argmin())
        checked += width
    return checked


def _first_damaged(data: Bytes, starts: Ints) -> int | None:
    """Return the first of the records whose length does not match its checksum."""
    if not starts.size:
        return None
    headers = np.ndarray((data.size - HEADER_BYTES + 1,), f"V{HEADER_BYTES}", data, 0, (1,))[starts]
    columns = headers.view(np.uint8).reshape(-1, HEADER_BYTES)
    start, tables = _length_tables()
    crc = np.full(starts.size, start, np.uint32)
    for column in range(_LENGTH.size):
        crc ^= tables[column][columns[:, column]]
    masked = (crc >> np.uint32(15) | crc << np.uint32(17)) + np.uint32(_MASK_DELTA)
    differs = masked != np.ascontiguousarray(columns[:, _LENGTH.size :]).view("<u4")[:, 0]
    return int(differs.argmax()) if differs.any() else None


@cache
def _length_tables() -> tuple[int, npt.NDArray[np.uint32]]:
    """Return the CRC32C of 8 zero bytes, and what each value of each byte changes of it, shape (8, 256).

    A CRC is linear: the changes of all bytes, combined by exclusive or, are the change of the whole.
    """
    crc32c = load_crc32c()
    zero = crc32c(bytes(8))
    changes = [[crc32c(bytes(k) + bytes([v]) + bytes(7 - k)) ^ zero for v in range(256)] for k in range(8)]
    return zero, np.array(changes, np.uint32)
