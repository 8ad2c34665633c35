"""The byte layout of a ``tf.train.Example``: where records agree on it, a batch decodes without parsing a record.

What a parser reads of a record, it reads from its structural bytes: tags, lengths, keys. Two records of equal length and equal
structural bytes therefore have the same fields at the same places, whatever the fields hold. A layout is learnt from one
record; ``matches`` compares the structural bytes of many others with it, ``field`` then cuts a field out of all of them in one
gather. A record that does not match is parsed on its own: the layout is never a guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..memory import Extents
from ..varint import decode_varint

__all__ = ["Field", "Layout"]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Kind = Literal["bytes", "float", "int64"]

_KINDS: dict[int, Kind] = {1: "bytes", 2: "float", 3: "int64"}


@dataclass(frozen=True, slots=True)
class Field:
    """One list of values, packed: ``record[start : start + nbytes]``.

    Attributes:
      kind: ``"bytes"``: one byte string. ``"float"``: float32, little-endian. ``"int64"``: varints.
      varint_ends: For ``"int64"`` the place behind each varint, from ``start``; else empty.
    """

    kind: Kind
    start: int
    nbytes: int
    varint_ends: tuple[int, ...] = ()

    def decode(self, payload: Bytes) -> npt.NDArray[Any]:
        """Return what is in the stored bytes of n records, shape ``(n, nbytes)``; see ``Layout.field``. May be a view."""
        if self.kind == "float":
            return payload.view("<f4")
        return _decode_varints(payload, self.varint_ends) if self.kind == "int64" else payload


class Layout:
    """Where the fields of all records with certain structural bytes lie. Immutable; threads share it.

    Attributes:
      size: Bytes of such a record.
      fields: Flat key -> field.
    """

    def __init__(self, record: bytes, fields: dict[str, Field]) -> None:
        self.size = len(record)
        self.fields = fields
        mask = np.full(self.size, 0xFF, np.uint8)
        for field in fields.values():
            mask[field.start : field.start + field.nbytes] = 0
            # Of a varint the high bits are structure: they say where it ends. A tenth byte holds one bit of value only.
            start = field.start
            for end in field.varint_ends:
                mask[start : field.start + end] = 0x80 if field.start + end - start < 10 else [0x80] * 9 + [0xFF]
                start = field.start + end
        self._checks = _checks(np.frombuffer(record, np.uint8), mask)

    @classmethod
    def of(cls, record: bytes) -> Layout | None:
        """Learn the layout of a record; None where it holds anything but fields packed the usual way."""
        try:
            fields = _scan(record)
        except (ValueError, IndexError):
            return None
        return None if fields is None else cls(record, fields)

    def matches(self, records: Extents) -> npt.NDArray[np.bool_]:
        """Return which of ``records``, all of this layout's size, have this layout."""
        result = np.ones(len(records), np.bool_)
        for place, expected, mask in self._checks:
            differing = records.differing(place, expected, mask)
            if differing is not None:
                result &= ~differing
        return result

    def field(self, key: str, records: Extents) -> npt.NDArray[Any]:
        """Return one field of records that match, shape ``(len(records), count)``, in an array of its own.

        uint8 and as many as there are bytes for ``"bytes"``, float32 for ``"float"``, int64 for ``"int64"``.
        """
        field = self.fields[key]
        return field.decode(records.field(field.start, np.uint8, field.nbytes))


def _decode_varints(payload: Bytes, ends: tuple[int, ...]) -> Ints:
    """Return the varints in each row of ``payload``, which all end at the same places, shape ``(rows, len(ends))``."""
    if len(ends) == payload.shape[1]:
        return payload.astype(np.int64)
    values = np.zeros((payload.shape[0], len(ends)), np.uint64)
    start = 0
    for column, end in enumerate(ends):
        for place in range(end - start):
            bits = (payload[:, start + place] & 0x7F).astype(np.uint64)
            values[:, column] |= bits << np.uint64(7 * place)
        start = end
    return values.view(np.int64)


def _checks(record: Bytes, mask: Bytes) -> list[tuple[int, npt.NDArray[Any], npt.NDArray[Any]]]:
    """Cut the bytes to compare into runs: (place, expected and mask as words). Payload between runs is never touched."""
    checks = []
    places = np.flatnonzero(mask)
    if not places.size:
        return []
    # Runs less than 16 bytes apart are one: a gather costs more than the bytes in between.
    breaks = np.flatnonzero(np.diff(places) > 16) + 1
    for run in np.split(places, breaks):
        start, end = int(run[0]), int(run[-1]) + 1
        # Whole 64-bit words compare 8 times faster than bytes; the run grows into its neighbours, where the mask is 0.
        width = -(-(end - start) // 8) * 8
        dtype = "<u8"
        if width > record.size:
            width, dtype = end - start, "u1"
        start = min(start, record.size - width)
        expected, bits = record[start : start + width].copy(), mask[start : start + width].copy()
        checks.append((start, expected.view(dtype) & bits.view(dtype), bits.view(dtype)))
    return checks


def _scan(record: bytes) -> dict[str, Field] | None:
    """Return the fields of a record, None where one is not written as usual; any error means the same."""
    fields: dict[str, Field] = {}
    place, end = _enter(record, 0, len(record), 1)  # Example.features
    if end != len(record):
        return None
    while place < end:
        entry, entry_end = _enter(record, place, end, 1)  # Features.feature, one entry of the map
        key_start, key_end = _enter(record, entry, entry_end, 1)
        feature, feature_end = _enter(record, key_end, entry_end, 2)
        key = record[key_start:key_end].decode()
        if key in fields or feature_end != entry_end:
            return None
        field = _scan_list(record, feature, feature_end)
        if field is None:
            return None
        fields[key] = field
        place = entry_end
    return fields


def _scan_list(record: bytes, start: int, end: int) -> Field | None:
    number = record[start] >> 3
    kind = _KINDS.get(number)
    if kind is None:
        return None
    values, values_end = _enter(record, start, end, number)  # Feature.bytes_list, .float_list or .int64_list
    if values_end != end:
        return None
    payload, payload_end = _enter(record, values, values_end, 1)  # .value
    if payload_end != values_end:
        return None
    ends: list[int] = []
    if kind == "float" and (payload_end - payload) % 4:
        return None
    if kind == "int64":
        position = payload
        while position < payload_end:
            _, position = decode_varint(record, position, payload_end)
            ends.append(position - payload)
    return Field(kind, payload, payload_end - payload, tuple(ends))


def _enter(record: bytes, start: int, end: int, number: int) -> tuple[int, int]:
    """Return start and end of the length-delimited field ``number`` that must stand at ``start``."""
    if start >= end or record[start] != number << 3 | 2:
        raise ValueError("another field, or another form of it")
    size, start = decode_varint(record, start + 1, end)
    if size > end - start:
        raise ValueError("a field runs past its message")
    return start, start + size
