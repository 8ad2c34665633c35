"""Varints, against the definition: seven bits a byte, lowest first."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrayfeed.datasource.varint import decode_packed, decode_varint, decode_varints, encode_packed, encode_varint

# Short ones and long ones alike, and the edges of every length.
EDGES = [value for place in range(1, 10) for value in (2 ** (7 * place) - 1, 2 ** (7 * place))]
NUMBERS = st.one_of(st.integers(0, 127), st.integers(0, 2**64 - 1), st.sampled_from([*EDGES, 2**63, 2**64 - 1]))


def plain(value: int) -> bytes:
    """The definition, digit by digit."""
    digits = [value >> shift & 127 for shift in range(0, max(value.bit_length(), 1), 7)]
    return bytes(digit | 128 for digit in digits[:-1]) + bytes(digits[-1:])


@given(st.lists(NUMBERS, max_size=200))
def test_numbers_come_back_from_their_varints(values: list[int]) -> None:
    """One by one, all at once, and as a packed list of int64."""
    data = b"".join(map(plain, values))

    assert b"".join(map(encode_varint, values)) == data
    decoded, ends = decode_varints(np.frombuffer(data, np.uint8))
    assert decoded.tolist() == values
    assert ends.tolist() == np.cumsum([len(plain(value)) for value in values], dtype=np.int64).tolist()
    place = 0
    for value in values:
        found, place = decode_varint(data, place, len(data))
        assert found == value
    signed = np.array(values, np.uint64).view(np.int64)
    assert encode_packed(signed) == data
    packed = decode_packed(b"\xff" + data + b"\xff", 1, len(data) + 1)
    assert packed is not None and packed.tolist() == signed.tolist()


@pytest.mark.parametrize("data", [b"\x80", b"\x01\xff", b"\x80" * 10 + b"\x01", b"\x01" * 100 + b"\x80"])
def test_an_unfinished_or_endless_varint_is_an_error(data: bytes) -> None:
    """Never a number, and never a read past the end."""
    with pytest.raises(ValueError, match="varint"):
        decode_varints(np.frombuffer(data, np.uint8))
    assert decode_packed(data, 0, len(data)) is None
    if data[0] > 127:
        with pytest.raises(ValueError, match="varint"):
            decode_varint(data, 0, len(data))


def test_a_tenth_byte_holds_one_bit() -> None:
    """More of it is an error in a file's index; in a record it is ignored, as protobuf's own parsers do."""
    data = b"\x80" * 9 + b"\x03"

    with pytest.raises(ValueError, match="64 bits"):
        decode_varints(np.frombuffer(data, np.uint8))
    with pytest.raises(ValueError, match="64 bits"):
        decode_varint(data, 0, 10)
    assert decode_packed(data, 0, 10).tolist() == [-(2**63)]  # type: ignore[union-attr]
    assert decode_packed(data * 20, 0, 200).tolist() == [-(2**63)] * 20  # type: ignore[union-attr]
