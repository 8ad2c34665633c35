"""From an example to its record, compiled for the features of one data set.

The bytes are those of ``serialize_example(features.encode_example(example))``, in a fourth of the time. What stands
around a value in the record depends on its key, kind and length only: that very function makes it once, and it is kept.
And a value of just the declared type goes a short way, see ``payload``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import SchemaError
from ..example.varint import encode_varint, encode_varints
from ..example.wire import WireValues, serialize_example
from ..features import FeaturesDict, Leaf
from ..varint import decode_varint
from .columns import take_row
from .payload import find_short_way

__all__ = ["RecordEncoder"]

# protobuf, hence every reader of these records, takes no longer message.
_MAX_BYTES = (1 << 31) - 1


class RecordEncoder:
    """Turns examples into records. Immutable, safe from threads."""

    def __init__(self, features: FeaturesDict) -> None:
        self._features = features
        leaves = features.leaves()
        # A record is joined from its head and, for each key in order, what stands before the value, and the value.
        keys = sorted(key for leaf in leaves for key in leaf.keys)
        places = {key: 1 + 2 * number for number, key in enumerate(keys)}
        self._blank = [b""] * (1 + 2 * len(keys))
        self._leaves = [_LeafEncoder(leaf, places) for leaf in leaves]

    def encode(self, example: Mapping[str, Any]) -> bytes:
        """Return the record of ``example``.

        Raises:
          SchemaError: The example does not fit the features; names the feature, what was expected, what came.
        """
        parts = self._blank.copy()
        for leaf, value in zip(self._leaves, self._features.collect(example, ()), strict=True):
            leaf.put(value, parts)
        return _join(parts)

    def encode_columns(self, columns: Mapping[str, Any], count: int) -> Iterator[bytes]:
        """Yield the records of ``count`` examples given as columns, each of that length; as ``encode`` of each.

        Raises:
          SchemaError: As ``encode``, when the turn of the example at fault comes.
        """
        parts = self._part_columns(columns)
        if parts is None:
            return (self.encode(take_row(columns, row)) for row in range(count))
        return (_join([b"", *row]) for row in zip(*parts, strict=False))

    def _part_columns(self, columns: Mapping[str, Any]) -> list[Iterable[bytes]] | None:
        """Return the parts of all records, one column for each part; None where a value does not go the short way."""
        if not all(leaf.has_short_way for leaf in self._leaves):
            return None
        parts: list[Iterable[bytes]] = [()] * len(self._blank)
        for leaf, values in zip(self._leaves, self._features.collect(columns, ()), strict=True):
            if not leaf.put_column(values, parts):
                return None
        return parts[1:]


class _LeafEncoder:
    """Puts what one leaf stores into the parts of a record."""

    def __init__(self, leaf: Leaf, places: Mapping[str, int]) -> None:
        self._leaf = leaf
        self._places = places
        self._short = find_short_way(leaf)

    @property
    def has_short_way(self) -> bool:
        return self._short is not None

    def put(self, value: Any, parts: list[bytes]) -> None:
        """Put what is stored for one value."""
        leaf = self._leaf
        payload = None if self._short is None else self._short.one(value)
        if payload is not None:
            place = self._places[leaf.key]
            parts[place] = _header(leaf.key, leaf.kind, len(payload))
            parts[place + 1] = payload
            return
        wire: dict[str, WireValues] = {}
        leaf.write(value, wire)
        for key, values in wire.items():
            place = self._places[key]
            parts[place : place + 2] = _frame(key, values)

    def put_column(self, values: Any, parts: list[Iterable[bytes]]) -> bool:
        """Put what is stored for many values, or return False where one of them does not go the short way."""
        payloads = None if self._short is None or values is None else self._short.many(values)
        if payloads is None:
            return False
        key, kind, place = self._leaf.key, self._leaf.kind, self._places[self._leaf.key]
        parts[place] = [_header(key, kind, len(payload)) for payload in payloads]
        parts[place + 1] = payloads
        return True


def _frame(key: str, values: WireValues) -> tuple[bytes, bytes]:
    """Return any list of a record in two parts, the second its payload where it has just one."""
    if isinstance(values, list):
        return (_header(key, "bytes", len(values[0])), values[0]) if len(values) == 1 else (_entry(key, values), b"")
    if values is None or not values.size:
        return _entry(key, values), b""
    if values.dtype == np.int64:
        kind, payload = "int64", encode_varints(values.reshape(-1).view(np.int64))
    else:
        kind, payload = "float", values.astype("<f4", copy=False).tobytes()
    return _header(key, kind, len(payload)), payload


# Values of one shape need one header for each key; encoded images come in thousands of lengths.
@lru_cache(maxsize=1 << 16)
def _header(key: str, kind: str | None, size: int) -> bytes:
    """Return what stands in a record before the payload of ``key``, of ``size`` bytes."""
    stand_in: WireValues
    if kind == "bytes":
        stand_in = [bytes(size)]
    else:
        stand_in = np.zeros(size, np.int64) if kind == "int64" else np.zeros(size // 4, np.float32)
    entry = _entry(key, stand_in)
    return entry[: len(entry) - size]


def _entry(key: str, values: WireValues) -> bytes:
    """Return what a record holds for one key."""
    record = serialize_example({key: values})
    _, start = decode_varint(record, 1, len(record))
    return record[start:]


@lru_cache(maxsize=1 << 16)
def _head(size: int) -> bytes:
    """Return what a record begins with, before ``size`` bytes of entries."""
    return b"\x0a" + encode_varint(size)


def _join(parts: list[bytes]) -> bytes:
    size = sum(map(len, parts))
    if size > _MAX_BYTES - 6:
        raise SchemaError(f"an example of {size} bytes: no reader of tf.train.Example takes more than {_MAX_BYTES}")
    parts[0] = _head(size)
    return b"".join(parts)
