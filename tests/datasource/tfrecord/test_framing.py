"""Frames of TFRecord files, against the format's own numbers and a plain loop."""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrayfeed.datasource.tfrecord.framing import FrameError, mask, scan, seal


def framed(*records: bytes) -> bytes:
    return b"".join(part for record in records for part in (seal(record)[0], record, seal(record)[1]))


def scan_bytes(data: bytes) -> list[int]:
    offsets: list[int] = scan(np.frombuffer(data, np.uint8)).tolist()
    return offsets


def plain_crc32c(data: bytes) -> int:
    """CRC32C bit by bit: the polynomial 0x1EDC6F41, reflected."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_an_empty_record_has_the_bytes_that_tensorflow_writes() -> None:
    """The whole frame of no data, and the mask of eight zero bytes' checksum."""
    assert framed(b"").hex() == "000000000000000029039807d8ea82a2"
    assert mask(plain_crc32c(bytes(8))) == 0x07980329


@given(st.binary(max_size=64))
def test_a_seal_is_made_of_masked_checksums(record: bytes) -> None:
    """Length and data each have a CRC32C, turned and shifted."""
    header, footer = seal(record)
    length = struct.pack("<Q", len(record))

    assert header == length + struct.pack("<I", mask(plain_crc32c(length)))
    assert footer == struct.pack("<I", mask(plain_crc32c(record)))


@given(st.lists(st.sampled_from([0, 1, 5, 16, 100]), max_size=60), st.integers(0, 30))
def test_offsets_are_the_running_sum_of_the_frames(lengths: list[int], run: int) -> None:
    """Whether records are of one length, of many, or come in runs."""
    lengths = [*lengths, *[7] * run, *lengths]
    expected = np.cumsum([0, *(length + 16 for length in lengths)]).tolist()

    assert scan_bytes(framed(*[bytes(length) for length in lengths])) == expected


@pytest.mark.parametrize("period", [1, 2, 11])
def test_more_records_than_are_checked_at_once(period: int) -> None:
    """Blocks of 65,536 join without a seam, in runs and out of them."""
    lengths = np.arange(150_000) % period
    frames = {length: framed(bytes(length)) for length in range(period)}
    data = b"".join(frames[length] for length in lengths.tolist())

    assert scan_bytes(data) == np.cumsum([0, *(lengths + 16)]).tolist()


def test_no_bytes_are_no_records() -> None:
    """An empty file is a TFRecord file."""
    assert scan_bytes(b"") == [0]


LENGTHS = [3, 0, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 5]


def flipped(data: bytes, bit: int) -> npt.NDArray[np.uint8]:
    array = np.frombuffer(data, np.uint8).copy()
    array[bit // 8] ^= 1 << bit % 8
    return array


def test_every_flipped_bit_of_a_length_or_its_checksum_is_an_error_at_its_record() -> None:
    """Of a damaged length nothing is believed, wherever it leads."""
    data = framed(*map(bytes, LENGTHS))
    offsets = np.cumsum([0, *(length + 16 for length in LENGTHS)]).tolist()
    for record, offset in enumerate(offsets[:-1]):
        for bit in range(8 * offset, 8 * (offset + 12)):
            with pytest.raises(FrameError, match="length does not match") as caught:
                scan(flipped(data, bit))
            assert (caught.value.record, caught.value.offset) == (record, offset)


def test_every_cut_but_between_records_is_an_error_at_the_record_that_is_cut() -> None:
    """Inside data, and inside the header, where other readers take it for the end of the file."""
    data = framed(*map(bytes, LENGTHS))
    offsets = np.cumsum([0, *(length + 16 for length in LENGTHS)]).tolist()
    for end in range(len(data)):
        if end in offsets:
            assert scan_bytes(data[:end]) == offsets[: offsets.index(end) + 1]
            continue
        record = int(np.searchsorted(offsets, end)) - 1
        with pytest.raises(FrameError, match=f"the file ends after {end - offsets[record]} of the") as caught:
            scan_bytes(data[:end])
        assert (caught.value.record, caught.value.offset) == (record, offsets[record])


@given(st.binary(min_size=1, max_size=300))
def test_other_bytes_are_an_error(data: bytes) -> None:
    """Nothing but a frame error comes out of anything, and no offset behind the end."""
    for bytes_ in (data, framed(b"good") + data):
        with pytest.raises(FrameError):
            scan_bytes(bytes_)


def test_a_length_of_the_whole_address_space_is_an_error() -> None:
    """With a checksum that matches, too: nothing is added up in 64 bits."""
    for length in (2**64 - 1, 2**63, 2**63 - 1, 2**63 - 17):
        header = struct.pack("<Q", length)
        data = framed(b"good") + header + struct.pack("<I", mask(plain_crc32c(header))) + bytes(100)
        with pytest.raises(FrameError, match=f"of the {length + 16} bytes"):
            scan_bytes(data)


def test_a_file_of_zeros_is_given_up_soon() -> None:
    """Zeros are records of no data with wrong checksums: the first of them is the error, not millions of offsets."""
    with pytest.raises(FrameError) as caught:
        scan(np.zeros(64 << 20, np.uint8))
    assert caught.value.record == 0
