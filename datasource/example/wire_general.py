"""The complete parser of ``tf.train.Example``: everything that protobuf accepts, and a reason for everything else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..varint import decode_packed
from .wire_errors import WireError

__all__ = ["parse_general"]

# Wire types: https://protobuf.dev/programming-guides/encoding/#structure
_VARINT, _FIXED64, _LENGTH, _START_GROUP, _END_GROUP, _FIXED32 = range(6)
# As deep as protobuf follows nested messages.
_MAX_DEPTH = 100
_BYTES, _FLOATS, _INTS = 1, 2, 3
_FLOAT32 = np.dtype("<f4")


def parse_general(data: bytes) -> dict[str, Any]:
    """Return the features of ``data`` by key, as ``wire.parse_example`` promises; raise ``WireError`` otherwise."""
    features: dict[str, Any] = {}
    for number, wire_type, start, stop in _fields(data, 0, len(data)):
        if number == 1 and wire_type == _LENGTH:
            for inner, inner_type, entry_start, entry_stop in _fields(data, start, stop):
                if inner == 1 and inner_type == _LENGTH:
                    key, value = _parse_entry(data, entry_start, entry_stop)
                    features[key] = value
    return features


def _parse_entry(data: bytes, start: int, stop: int) -> tuple[str, Any]:
    key = ""
    parts = _Lists()
    for number, wire_type, begin, end in _fields(data, start, stop):
        if wire_type != _LENGTH:
            continue
        if number == 1:
            try:
                key = data[begin:end].decode()
            except UnicodeDecodeError as error:
                raise WireError(f"a key that is not UTF-8: {data[begin:end][:40]!r}", begin + error.start) from None
        elif number == 2:
            for kind, kind_type, list_start, list_stop in _fields(data, begin, end):
                if kind_type == _LENGTH and kind in (_BYTES, _FLOATS, _INTS):
                    parts.add(kind, data, list_start, list_stop)
    return key, parts.merged()


class _Lists:
    """The lists of one feature: those of one kind are joined; one of another kind replaces what came before."""

    def __init__(self) -> None:
        self._kind = 0
        self._parts: list[Any] = []

    def add(self, kind: int, data: bytes, start: int, stop: int) -> None:
        if kind != self._kind:
            self._kind, self._parts = kind, []
        for number, wire_type, begin, end in _fields(data, start, stop):
            if number != 1:
                continue
            if kind == _BYTES:
                if wire_type == _LENGTH:
                    self._parts.append(data[begin:end])
            elif kind == _FLOATS:
                self._add_floats(data, wire_type, begin, end)
            else:
                self._add_ints(data, wire_type, begin, end)

    def _add_floats(self, data: bytes, wire_type: int, start: int, stop: int) -> None:
        if wire_type == _LENGTH and (stop - start) % 4:
            raise WireError(f"packed float32 values in {stop - start} bytes, which is no multiple of 4", start)
        if wire_type in (_LENGTH, _FIXED32):
            self._parts.append(np.frombuffer(data, _FLOAT32, (stop - start) // 4, start))

    def _add_ints(self, data: bytes, wire_type: int, start: int, stop: int) -> None:
        if wire_type in (_LENGTH, _VARINT):
            values = decode_packed(data, start, stop)
            if values is None:
                raise WireError(f"a varint of more than 10 bytes, or cut off, in {stop - start} packed bytes", start)
            self._parts.append(values)

    def merged(self) -> Any:
        if self._kind == 0:
            return None
        if self._kind == _BYTES:
            return self._parts
        if len(self._parts) == 1:
            return self._parts[0]
        return np.concatenate([np.empty(0, _FLOAT32 if self._kind == _FLOATS else np.int64), *self._parts])


def _fields(data: bytes, start: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield number, wire type, start and end of the content of each field of the message ``data[start:stop]``.

    A group, which no version of these messages has, is stepped over whole.
    """
    at = start
    groups: list[int] = []
    while at < stop:
        tag_at = at
        tag, at = _varint(data, at, stop)
        number, wire_type = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise WireError(f"field number {number}", tag_at)
        begin = at
        if wire_type == _VARINT:
            _, at = _varint(data, at, stop)
        elif wire_type == _FIXED64:
            at += 8
        elif wire_type == _FIXED32:
            at += 4
        elif wire_type == _LENGTH:
            length, begin = _varint(data, at, stop)
            at = begin + length
        elif wire_type == _START_GROUP:
            groups.append(number)
            if len(groups) > _MAX_DEPTH:
                raise WireError(f"groups nested deeper than {_MAX_DEPTH}", tag_at)
            continue
        elif wire_type == _END_GROUP and groups and groups[-1] == number:
            groups.pop()
            continue
        else:
            raise WireError(f"a tag of wire type {wire_type} has no meaning here", tag_at)
        if at > stop:
            raise WireError(f"a field ends {at - stop} bytes after the message that holds it", tag_at)
        if not groups:
            yield number, wire_type, begin, at
    if groups:
        raise WireError(f"group {groups[-1]} does not end", stop)


def _varint(data: bytes, at: int, stop: int) -> tuple[int, int]:
    value = 0
    begin = at
    for shift in range(0, 70, 7):
        if at >= stop:
            raise WireError("the message ends inside a varint", begin)
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & ((1 << 64) - 1), at
    raise WireError("a varint of more than 10 bytes", begin)
