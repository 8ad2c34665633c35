"""From the payload of one entry to a decoded value, or to the list that a parser would make of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..features import Leaf
from ..varint import decode_packed, decode_varint
from .entries import Entry
from .wire import WireValues

__all__ = ["Convert", "choose_convert"]

#: Payload -> value. Raises anything for what only the parser and the features can judge.
Convert: TypeAlias = Callable[[bytes], Any]

_FLOAT32 = np.dtype("<f4")


def choose_convert(leaf: Leaf | None, entry: Entry, nbytes: int | None) -> tuple[str, Convert | None]:
    """Return how the payload of an entry is cut out, and what makes the value of ``leaf`` of it; None if it is the value.

    The first is ``struct``'s code for it, ``{}`` standing for its length. Without a leaf, the value is the list that the parser
    would give.

    Args:
      nbytes: The length of the payload, if it is known.
    """
    parse = _split if entry.is_whole else _PARSERS[entry.kind]
    if leaf is None:
        return "{}s", parse
    if not entry.is_whole:
        if nbytes is not None and (form := leaf.payload_form(nbytes)) is not None:
            return form
        convert = leaf.payload_decoder()
        if convert is not None:
            return "{}s", None if convert is bytes else convert
    decode = leaf.decode
    return "{}s", lambda payload: decode(parse(payload))


def _parse_ints(payload: bytes) -> npt.NDArray[np.int64]:
    values = decode_packed(payload, 0, len(payload))
    if values is None:
        raise ValueError("no varints")
    return values


def _parse_floats(payload: bytes) -> npt.NDArray[np.float32]:
    return np.frombuffer(payload, _FLOAT32) if payload else np.empty(0, np.float32)


def _split(payload: bytes) -> list[bytes]:
    """Return the byte strings of a list, each behind tag and length."""
    values = []
    at, end = 0, len(payload)
    while at < end:
        if payload[at] != 10:
            raise ValueError("another field")
        size, at = payload[at + 1], at + 2
        if size > 127:
            size, at = decode_varint(payload, at - 1, end)
        if size > end - at:
            raise ValueError("a value runs past the list")
        values.append(payload[at : at + size])
        at += size
    return values


_PARSERS: dict[str, Callable[[bytes], WireValues]] = {
    "bytes": lambda payload: [payload],
    "float": _parse_floats,
    "int64": _parse_ints,
}
