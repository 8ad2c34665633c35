"""The byte layout of a ``tf.train.Example``: where records agree on it, a batch decodes without parsing a record.

What a parser reads of a record, it reads from its structural bytes: tags, lengths, keys. Two records of equal length and equal
structural bytes therefore have the same fields at the same places, whatever the fields hold. A layout is learnt from one
record; ``matches`` compares the structural bytes of many others with it, ``field`` then cuts a field out of all of them in one
gather. A record that does not match is parsed on its own: the layout is never a guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..memory import Extents
from ..varint import decode_varint
from .entries import Entry, Kind, scan_entries

__all__ = ["Field", "Layout"]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]


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
            fields = _find_fields(record)
        except ValueError:
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

    def is_common(self, varies: Bytes) -> bool:
        """Return whether all records have this layout that differ from one that has it in no bits but those of ``varies``, a
        mask of ``size`` bytes."""
        parts = [(varies[place : place + mask.nbytes].view(mask.dtype) & mask) for place, _, mask in self._checks]
        return not any(part.any() for part in parts)

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


def _find_fields(record: bytes) -> dict[str, Field] | None:
    """Return the fields of a record; None unless each is one byte string, or numbers, of which there are some.

    Raises:
      ValueError: Varints run past their list.
    """
    entries = scan_entries(record)
    if entries is None or any(entry.is_whole or (entry.kind != "bytes" and not entry.nbytes) for entry in entries):
        return None
    return {
        entry.key: Field(entry.kind, entry.start, entry.nbytes, _find_ends(record, entry) if entry.kind == "int64" else ())
        for entry in entries
    }


def _find_ends(record: bytes, entry: Entry) -> tuple[int, ...]:
    ends, at, stop = [], entry.start, entry.start + entry.nbytes
    while at < stop:
        _, at = decode_varint(record, at, stop)
        ends.append(at - entry.start)
    return tuple(ends)
