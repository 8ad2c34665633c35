"""How every known writer lays out an entry of a ``tf.train.Example``: found in a record, and written ahead of its payload.

An entry is five messages inside one another, each a tag and a length, around the payload::

    0a len   0a len key   12 len   0a|12|1a len   0a len payload
    entry    key          Feature  list           value

All but the payload is its *head*. Each length follows from the payload's, so the head does, too.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..varint import decode_varint, encode_varint

__all__ = ["Entry", "Head", "Heads", "Kind", "scan_entries", "without_length"]

Kind: TypeAlias = Literal["bytes", "float", "int64"]
#: The bytes of a head, how many they are, and how many the whole entry has.
Head: TypeAlias = tuple[bytes, int, int]

#: Heads kept of one entry, 100 to 200 bytes each.
_MAX_HEADS = 4096
_TAGS: dict[Kind, bytes] = {"bytes": b"\x0a", "float": b"\x12", "int64": b"\x1a"}
_KINDS: dict[int, Kind] = {1: "bytes", 2: "float", 3: "int64"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One list of values in a record, packed: ``record[start : start + nbytes]`` is its payload, its head stands before.

    Attributes:
      kind: ``"bytes"``: byte strings. ``"float"``: float32, little-endian. ``"int64"``: varints.
      head: Where the head starts.
      is_whole: The payload is the whole list, any number of byte strings, each behind tag and length of its own. Otherwise it
        is one byte string, or numbers, of which there may be none.
    """

    key: str
    kind: Kind
    head: int
    start: int
    nbytes: int
    is_whole: bool = False

    def make_head(self, nbytes: int) -> bytes:
        """Return the head of such an entry with a payload of ``nbytes``."""
        key = self.key.encode()
        value = b"" if self.is_whole or (nbytes == 0 and self.kind != "bytes") else b"\x0a" + encode_varint(nbytes)
        values = _TAGS[self.kind] + encode_varint(len(value) + nbytes) + value
        feature = b"\x0a" + encode_varint(len(key)) + key + b"\x12" + encode_varint(len(values) + nbytes) + values
        return b"\x0a" + encode_varint(len(feature) + nbytes) + feature

    def payload_of(self, entry_bytes: int) -> int:
        """Return the length of the payload of such an entry of ``entry_bytes``, its own tag and length left out.

        Raises:
          ValueError: No payload makes it as long.
        """
        key_bytes = len(self.key.encode())
        feature = without_length(entry_bytes - 2 - len(encode_varint(key_bytes)) - key_bytes)
        values = without_length(feature - 1)
        return values if self.is_whole or (values == 0 and self.kind != "bytes") else without_length(values - 1)


def scan_entries(record: bytes, lists: Container[str] = ()) -> list[Entry] | None:
    """Return the entries of a record in their order, None where one is laid out in another way or a key stands twice."""
    try:
        return _scan(record, lists)
    except (ValueError, IndexError):  # UnicodeDecodeError is a ValueError
        return None


def _scan(record: bytes, lists: Container[str]) -> list[Entry] | None:
    found: dict[str, Entry] = {}
    at, end = _enter(record, 0, len(record), 1)  # Example.features
    if end != len(record):
        return None
    while at < end:
        inner, stop = _enter(record, at, end, 1)  # Features.feature, one entry of the map
        key_start, key_stop = _enter(record, inner, stop, 1)
        feature, feature_stop = _enter(record, key_stop, stop, 2)
        key = record[key_start:key_stop].decode()
        number = record[feature] >> 3
        values, values_stop = _enter(record, feature, feature_stop, number)  # .bytes_list, .float_list or .int64_list
        if key in found or number not in _KINDS or not feature_stop == values_stop == stop:
            return None
        kind = _KINDS[number]
        start, count = values, 0
        value_stop = values
        while value_stop < stop:
            start, value_stop = _enter(record, value_stop, stop, 1)  # .value
            count += 1
        if kind == "bytes" and (count != 1 or key in lists):
            found[key] = Entry(key, kind, at, values, stop - values, True)
        elif count > 1 or (kind == "float" and (stop - start) % 4):
            return None
        else:
            found[key] = Entry(key, kind, at, start, stop - start)
        at = stop
    return list(found.values())


def _enter(record: bytes, start: int, end: int, number: int) -> tuple[int, int]:
    """Return start and end of the length-delimited field ``number`` that must stand at ``start``."""
    if start >= end or record[start] != number << 3 | 2:
        raise ValueError("another field, or another form of it")
    size, start = decode_varint(record, start + 1, end)
    if size > end - start:
        raise ValueError("a field runs past its message")
    return start, start + size


class Heads:
    """The heads that one entry has in different records, by the length that they start with. Threads may share it.

    Attributes:
      known: By the two bytes behind the tag, little-endian.
    """

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self.known: dict[int, Head] = {}

    def find(self, record: bytes, at: int) -> Head:
        """Return what ``known`` is to hold for the entry at ``at``, if it is this one; whether it is, is not looked at.

        Raises:
          ValueError, IndexError: No payload makes an entry of that length.
        """
        entry_bytes, start = decode_varint(record, at + 1, len(record))
        head = self._entry.make_head(self._entry.payload_of(entry_bytes))
        found = head, len(head), start - at + entry_bytes
        if entry_bytes < 1 << 14 and len(self.known) < _MAX_HEADS:  # else two bytes do not tell the length
            self.known[record[at + 1] | record[at + 2] << 8] = found
        return found


def without_length(total: int) -> int:
    """Return the length of what takes ``total`` bytes together with that length as a varint.

    Raises:
      ValueError: Nothing does.
    """
    for width in range(1, 6):
        if total >= width and len(encode_varint(total - width)) == width:
            return total - width
    raise ValueError(f"nothing takes {total} bytes together with its length")
