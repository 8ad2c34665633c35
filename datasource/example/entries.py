"""How every known writer lays out an entry of a ``tf.train.Example``: found in a record, and written ahead of its payload.

An entry is five messages inside one another, each a tag and a length, around the payload::

    0a len   0a len key   12 len   0a|12|1a len   0a len payload
    entry    key          Feature  list           value

All but the payload is its *head*. Each length follows from the payload's, so the head does, too.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ..varint import decode_varint, encode_varint

__all__ = ["Entry", "Head", "Heads", "Kind", "Names", "scan_entries", "scan_made", "without_length"]

Kind: TypeAlias = Literal["bytes", "float", "int64"]
#: The bytes of a head, how many they are, and how many the whole entry has.
Head: TypeAlias = tuple[bytes, int, int]
#: Key, kind, and whether it is whole, of each entry in its order: what records of one make have in common.
Names: TypeAlias = tuple[tuple[str, Kind, bool], ...]

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
      name: The key as it stands in the head, behind its tag and length.
    """

    key: str
    kind: Kind
    head: int
    start: int
    nbytes: int
    is_whole: bool = False
    name: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        key = self.key.encode()
        object.__setattr__(self, "name", b"\x0a" + encode_varint(len(key)) + key)

    def make_head(self, nbytes: int) -> bytes:
        """Return the head of such an entry with a payload of ``nbytes``."""
        value = b"" if self.is_whole or (nbytes == 0 and self.kind != "bytes") else b"\x0a" + encode_varint(nbytes)
        values = _TAGS[self.kind] + encode_varint(len(value) + nbytes) + value
        feature = self.name + b"\x12" + encode_varint(len(values) + nbytes) + values
        return b"\x0a" + encode_varint(len(feature) + nbytes) + feature

    def payload_of(self, entry_bytes: int) -> int:
        """Return the length of the payload of such an entry of ``entry_bytes``, its own tag and length left out.

        Raises:
          ValueError: No payload makes it as long.
        """
        values = without_length(without_length(entry_bytes - len(self.name) - 1) - 1)
        return values if self.is_whole or (values == 0 and self.kind != "bytes") else without_length(values - 1)


def scan_entries(record: bytes, lists: Container[str] = ()) -> list[Entry] | None:
    """Return the entries of a record in their order, None where one is laid out in another way or a key stands twice."""
    try:
        return _scan(record, lists)
    except (ValueError, IndexError):  # UnicodeDecodeError is a ValueError
        return None


def scan_made(record: bytes, lists: Container[str]) -> tuple[Names, list[Entry]] | None:
    """Return how a record is made, and its entries, at least one; None where a head is another than its entry makes."""
    entries = scan_entries(record, lists)
    if not entries or any(record[entry.head : entry.start] != entry.make_head(entry.nbytes) for entry in entries):
        return None
    return tuple((entry.key, entry.kind, entry.is_whole) for entry in entries), entries


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
        #: From here on the lengths in an entry take three bytes each, or more.
        self._least_long = (1 << 14) + len(entry.name) + 12
        self.known: dict[int, Head] = {}

    def find(self, record: bytes | memoryview, at: int) -> Head:
        """Return what ``known`` is to hold for the entry at ``at``, if it is this one; whether it is, is not looked at.

        Raises:
          ValueError, IndexError: No payload makes an entry of that length.
        """
        first, second, third = record[at + 1 : at + 4]
        entry_bytes = (first & 127) | (second & 127) << 7 | third << 14
        if first > 127 and second > 127 and third < 128 and entry_bytes >= self._least_long:
            return self._make_long(entry_bytes)
        entry_bytes, start = decode_varint(record, at + 1, len(record))
        head = self._entry.make_head(self._entry.payload_of(entry_bytes))
        found = head, len(head), start - at + entry_bytes
        if entry_bytes < 1 << 14 and len(self.known) < _MAX_HEADS:  # else two bytes do not tell the length
            self.known[first | second << 8] = found
        return found

    def _make_long(self, entry_bytes: int) -> Head:
        """Return the head of an entry of which every length takes three bytes, as in most photographs: in half the time."""
        entry = self._entry
        feature = entry_bytes - len(entry.name) - 4
        pieces = [b"\x0a", encode_varint(entry_bytes), entry.name, b"\x12", encode_varint(feature)]
        pieces += _TAGS[entry.kind], encode_varint(feature - 4)
        if not entry.is_whole:
            pieces += b"\x0a", encode_varint(feature - 8)
        head = b"".join(pieces)
        return head, len(head), 4 + entry_bytes


def without_length(total: int) -> int:
    """Return the length of what takes ``total`` bytes together with that length as a varint.

    Raises:
      ValueError: Nothing does.
    """
    for width in range(1, 6):
        # A varint has as many bytes as it needs, and no more.
        if (1 << 7 * (width - 1) if width > 1 else 0) <= total - width < 1 << 7 * width:
            return total - width
    raise ValueError(f"nothing takes {total} bytes together with its length")
