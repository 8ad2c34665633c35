"""From an example to its record, compiled for the features of one data set.

The bytes are those of ``serialize_example(features.encode_example(example))``, in a sixth of the time. What stands around
the values in a record depends on their keys, kinds and lengths only: it is made once for all examples that agree in these,
and kept as a template. And a value of just the declared type goes a short way, see ``payload``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any

import numpy as np

from ..errors import SchemaError
from ..example.wire import WireValues, serialize_example
from ..features import FeaturesDict, Leaf
from ..varint import decode_varint, encode_packed, encode_varint
from .columns import take_row
from .payload import find_short_way

__all__ = ["RecordEncoder"]

# A record has one cell for each key. A cell's frame tells what it holds: its length in bytes, times 4, plus
#   0, 1, 2    the payload of a list of bytes, floats, integers: the numbers of the lists in tf.train.Feature, less 1
#   3          the whole entry of the key; b"" where the record has none
_FRAMES = {"bytes": 0, "float": 1, "int64": 2}
_WHOLE = 3

# protobuf, hence every reader of these records, takes no longer message.
_MAX_BYTES = (1 << 31) - 1
# Values of one shape need one template; encoded images come in thousands of lengths.
_MAX_TEMPLATES = 4096


class RecordEncoder:
    """Turns examples into records. Safe from threads."""

    def __init__(self, features: FeaturesDict) -> None:
        self._features = features
        leaves = features.leaves()
        ways = [find_short_way(leaf) for leaf in leaves]
        self._keys = sorted(key for leaf in leaves for key in leaf.keys)
        self._places = {key: place for place, key in enumerate(self._keys)}
        self._steps = [
            (leaf, None if way is None else way.one, self._places[leaf.keys[0]], _FRAMES.get(leaf.kind or "", _WHOLE))
            for leaf, way in zip(leaves, ways, strict=True)
        ]
        self._column_ways = [way.many for way in ways if way is not None]
        self._templates: dict[tuple[int, ...], list[bytes]] = {}
        # Features side by side, not nested, are taken out of an example in one go.
        self._names = sorted(features.keys())
        flat = len(leaves) > 1 and [leaf.path for leaf in leaves] == [(name,) for name in self._names]
        self._take = itemgetter(*self._names) if flat else None

    def encode(self, example: Mapping[str, Any]) -> bytes:
        """Return the record of ``example``.

        Raises:
          SchemaError: The example does not fit the features; names the feature, what was expected, what came.
        """
        cells = [b""] * len(self._keys)
        frames = [_WHOLE] * len(self._keys)
        for (leaf, way, place, frame), value in zip(self._steps, self._collect(example), strict=True):
            payload = None if way is None else way(value)
            if payload is None:
                self._ask(leaf, value, cells, frames)
            else:
                cells[place] = payload
                frames[place] = len(payload) << 2 | frame
        return self._join(tuple(frames), cells)

    def encode_columns(self, columns: Mapping[str, Any], count: int) -> Iterator[bytes]:
        """Yield the records of ``count`` examples given as columns, each of that length; as ``encode`` of each.

        Raises:
          SchemaError: As ``encode``, when the turn of the example at fault comes.
        """
        if len(self._column_ways) < len(self._steps):
            return (self.encode(take_row(columns, row)) for row in range(count))
        cells: list[Sequence[bytes]] = [()] * len(self._keys)
        frames: list[Iterable[int]] = [()] * len(self._keys)
        values = self._features.collect(columns, ())
        for (_, _, place, frame), way, column in zip(self._steps, self._column_ways, values, strict=True):
            payloads = None if column is None else way(column)
            if payloads is None:
                return (self.encode(take_row(columns, row)) for row in range(count))
            sizes = set(map(len, payloads))
            cells[place] = payloads
            frames[place] = (
                repeat(sizes.pop() << 2 | frame) if len(sizes) == 1 else [len(each) << 2 | frame for each in payloads]
            )
        return map(self._join, zip(*frames, strict=False), zip(*cells, strict=True))

    def _collect(self, example: Mapping[str, Any]) -> Sequence[Any]:
        """Return what ``example`` holds for each leaf."""
        if self._take is not None and type(example) is dict and len(example) == len(self._names):
            try:
                values: tuple[Any, ...] = self._take(example)
                return values
            except KeyError:
                pass  # to be named below
        return self._features.collect(example, ())

    def _ask(self, leaf: Leaf, value: Any, cells: list[bytes], frames: list[int]) -> None:
        """Fill in what the leaf's own encoding gives: any number of keys, each with any list."""
        wire: dict[str, WireValues] = {}
        leaf.write(value, wire)
        for key, values in wire.items():
            place = self._places[key]
            cells[place], frames[place] = _make_cell(key, values)

    def _join(self, frames: tuple[int, ...], cells: Sequence[bytes]) -> bytes:
        """Return the record of these cells."""
        parts = (self._templates.get(frames) or self._make_template(frames)).copy()
        parts[1::2] = cells
        return b"".join(parts)

    def _make_template(self, frames: tuple[int, ...]) -> list[bytes]:
        """Return the parts of a record in which every other one, from the second on, is left for a cell."""
        headers = [_make_header(key, frame) for key, frame in zip(self._keys, frames, strict=True)]
        size = sum(map(len, headers)) + sum(frame >> 2 for frame in frames)
        if size > _MAX_BYTES - 6:
            raise SchemaError(f"an example of {size} bytes: no reader of tf.train.Example takes more than {_MAX_BYTES}")
        template = [b"\x0a" + encode_varint(size)]
        for header in headers:
            template[-1] += header
            template += [b"", b""]
        if len(self._templates) >= _MAX_TEMPLATES:
            self._templates.clear()
        # The last part is empty and not needed, unless it is the only one.
        self._templates[frames] = template = template[: max(1, 2 * len(headers))]
        return template


def _make_cell(key: str, values: WireValues) -> tuple[bytes, int]:
    """Return the cell for any list, and its frame."""
    if isinstance(values, list) and len(values) == 1:
        payload, frame = values[0], "bytes"
    elif isinstance(values, np.ndarray) and values.size:
        if values.dtype == np.int64:
            payload, frame = encode_packed(values.reshape(-1).view(np.int64)), "int64"
        else:
            payload, frame = values.astype("<f4", copy=False).tobytes(), "float"
    else:
        record = serialize_example({key: values})
        _, start = decode_varint(record, 1, len(record))
        return record[start:], (len(record) - start) << 2 | _WHOLE
    return payload, len(payload) << 2 | _FRAMES[frame]


def _make_header(key: str, frame: int) -> bytes:
    """Return what stands before a cell: the beginnings of map entry, key, Feature and list; see ``example.wire``."""
    if frame & 3 == _WHOLE:
        return b""
    payload_bytes, number = frame >> 2, (frame & 3) + 1
    values = b"\x0a" + encode_varint(payload_bytes)
    feature = bytes([number << 3 | 2]) + encode_varint(len(values) + payload_bytes) + values
    name = key.encode()
    entry = b"\x0a%b%b\x12%b%b" % (encode_varint(len(name)), name, encode_varint(len(feature) + payload_bytes), feature)
    return b"\x0a" + encode_varint(len(entry) + payload_bytes) + entry
