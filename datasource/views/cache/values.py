"""Any value made of plain parts as bytes and back: what a cache file holds in the place of pickles, which run code.

One byte says what follows; counts and lengths are uint64, everything is little-endian:

    N T F                      None, True, False
    i d c                      int64; float64; two float64, a complex number
    I b s                      length, then a longer integer (signed), bytes, text (UTF-8)
    l t m                      count, then the items of a list, a tuple; key and value by turns of a dict
    P Q                        count, then a list of int64, of float64: long lists of numbers take one call
    a g                        dtype (length, name), for an array its axes (count, lengths), then the values
    o                          shape and list of the elements of an object array
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["decode_value", "dtype_from_name", "encode_value", "name_dtype"]

_U64, _I64, _F64, _C128 = struct.Struct("<Q"), struct.Struct("<q"), struct.Struct("<d"), struct.Struct("<dd")
#: Deeper nesting is refused on both sides: a file could exhaust the stack with it.
_MAX_DEPTH = 64
#: From here on a list of numbers is worth an array.
_LONG_LIST = 4


def encode_value(value: Any) -> bytes:
    """Return ``value``, made of None, numbers, text, bytes, arrays, and lists, tuples and dicts of these, as bytes.

    Raises:
      TypeError: It is, or holds, something else: its type would not come back.
    """
    parts: list[bytes] = []
    _encode(value, parts, 0)
    return b"".join(parts)


def _encode(value: Any, parts: list[bytes], depth: int) -> None:
    kind = type(value)
    if value is None:
        parts.append(b"N")
    elif kind is bool:
        parts.append(b"T" if value else b"F")
    elif kind is int:
        if -(1 << 63) <= value < 1 << 63:
            parts += (b"i", _I64.pack(value))
        else:
            _encode_sized(b"I", value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True), parts)
    elif kind is float:
        parts += (b"d", _F64.pack(value))
    elif kind is complex:
        parts += (b"c", _C128.pack(value.real, value.imag))
    elif kind is bytes:
        _encode_sized(b"b", value, parts)
    elif kind is str:
        _encode_sized(b"s", value.encode("utf-8", "surrogatepass"), parts)
    elif kind in (list, tuple, dict):
        _encode_items(value, kind, parts, depth)
    elif isinstance(value, np.generic) or kind in (np.ndarray, np.memmap):
        array = np.asarray(value)
        name = name_dtype(array.dtype)
        if name is None:
            if array.dtype != object:
                raise TypeError(f"values of dtype {array.dtype}")
            # Object arrays are told from lists by a shape in front.
            parts.append(b"o")
            _encode(array.shape, parts, depth + 1)
            _encode(list(array.reshape(-1)), parts, depth + 1)
            return
        _encode_sized(b"g" if isinstance(value, np.generic) else b"a", name.encode(), parts)
        if not isinstance(value, np.generic):
            parts += (_U64.pack(array.ndim), *map(_U64.pack, array.shape))
        parts.append(array.tobytes())
    else:
        raise TypeError(f"a {kind.__module__}.{kind.__qualname__}")


def _encode_sized(tag: bytes, data: bytes, parts: list[bytes]) -> None:
    parts += (tag, _U64.pack(len(data)), data)


def _encode_items(value: Any, kind: type, parts: list[bytes], depth: int) -> None:
    if depth >= _MAX_DEPTH:
        raise TypeError(f"nesting deeper than {_MAX_DEPTH}")
    if kind is list and len(value) >= _LONG_LIST:
        kinds = set(map(type, value))
        if kinds == {float} or (kinds == {int} and -(1 << 63) <= min(value) and max(value) < 1 << 63):
            numbers = np.array(value, "<f8" if kinds == {float} else "<i8")
            parts += (b"Q" if kinds == {float} else b"P", _U64.pack(len(value)), numbers.tobytes())
            return
    parts += (b"l" if kind is list else b"t" if kind is tuple else b"m", _U64.pack(len(value)))
    items = value if kind is not dict else (item for pair in value.items() for item in pair)
    for item in items:
        _encode(item, parts, depth + 1)


def decode_value(data: bytes) -> Any:
    """Return the value that ``encode_value`` gave ``data`` for; arrays are the caller's own.

    Time and memory are bounded by the length of ``data``.

    Raises:
      ValueError: The bytes are none of its.
    """
    try:
        value, end = _decode(data, 0, 0)
    except (struct.error, IndexError, TypeError, UnicodeDecodeError, OverflowError) as error:
        raise ValueError(f"no encoded value: {error}") from None
    if end != len(data):
        raise ValueError(f"no encoded value: {len(data) - end} bytes are left over")
    return value


def _decode(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    tag = data[at]
    at += 1
    if tag == 0x69:  # i
        return _I64.unpack_from(data, at)[0], at + 8
    if tag == 0x64:  # d
        return _F64.unpack_from(data, at)[0], at + 8
    if tag == 0x4E:  # N
        return None, at
    if tag in b"TF":
        return tag == 0x54, at
    if tag == 0x63:  # c
        return complex(*_C128.unpack_from(data, at)), at + 16
    if tag == 0x6F:  # o
        return _decode_objects(data, at, depth)
    count = _U64.unpack_from(data, at)[0]
    at += 8
    # Every item takes a byte or more, so no count beyond what is left can be true.
    if count > len(data) - at:
        raise ValueError(f"no encoded value: {count} claimed, {len(data) - at} bytes are left")
    if tag in b"bsI":
        content, at = data[at : at + count], at + count
        if tag == 0x62:
            return content, at
        if tag == 0x73:
            return content.decode("utf-8", "surrogatepass"), at
        return int.from_bytes(content, "little", signed=True), at
    if tag in b"PQ":
        numbers = np.frombuffer(data, "<i8" if tag == 0x50 else "<f8", count, at) if count else np.empty(0)
        return numbers.tolist(), at + 8 * count
    if tag in b"ltm":
        return _decode_items(data, at, tag, count, depth)
    if tag in b"ag":
        return _decode_array(data, at, tag, count)
    raise ValueError(f"no encoded value: byte {tag} is no tag")


def _decode_items(data: bytes, at: int, tag: int, count: int, depth: int) -> tuple[Any, int]:
    if depth >= _MAX_DEPTH:
        raise ValueError(f"no encoded value: nesting deeper than {_MAX_DEPTH}")
    items = []
    for _ in range(count if tag != 0x6D else 2 * count):
        item, at = _decode(data, at, depth + 1)
        items.append(item)
    if tag == 0x6D:
        return dict(zip(items[::2], items[1::2], strict=True)), at
    return items if tag == 0x6C else tuple(items), at


def _decode_objects(data: bytes, at: int, depth: int) -> tuple[npt.NDArray[Any], int]:
    shape, at = _decode(data, at, depth + 1)
    items, at = _decode(data, at, depth + 1)
    array = np.empty(len(items), object)
    for place, item in enumerate(items):
        array[place] = item
    return array.reshape(shape), at


def _decode_array(data: bytes, at: int, tag: int, name_bytes: int) -> tuple[Any, int]:
    dtype = dtype_from_name(data[at : at + name_bytes].decode())
    at += name_bytes
    shape: tuple[int, ...] = ()
    if tag == 0x61:
        axes = _U64.unpack_from(data, at)[0]
        if axes > 64:
            raise ValueError(f"no encoded value: an array of {axes} axes")
        shape = struct.unpack_from(f"<{axes}Q", data, at + 8)
        at += 8 + 8 * axes
    size = dtype.itemsize
    for length in shape:
        size *= length
    if size > len(data) - at:
        raise ValueError(f"no encoded value: an array of {size} bytes claimed, {len(data) - at} are left")
    # Through bytearray: writable, and at an address that suits every dtype.
    array = np.frombuffer(bytearray(data[at : at + size]), dtype).reshape(shape) if size else np.empty(shape, dtype)
    return array if tag == 0x61 else array[()], at + size


@lru_cache(256)
def name_dtype(dtype: np.dtype[Any]) -> str | None:
    """Return a name that ``dtype_from_name`` gives ``dtype`` for; None if there is none: objects, records."""
    if dtype.hasobject or dtype.names is not None or dtype.subdtype is not None:
        return None
    # Types of ml_dtypes have a code that NumPy takes for bytes without meaning.
    return dtype.str if dtype.kind != "V" or dtype == np.dtype(dtype.str) else dtype.name


@lru_cache(256)
def dtype_from_name(name: str) -> np.dtype[Any]:
    """Return the dtype of that name.

    Raises:
      ValueError: There is none, or it is none of those that ``name_dtype`` names.
    """
    try:
        dtype = np.dtype(name)
    except TypeError:
        from ...features.dtypes import as_dtype

        dtype = as_dtype(name)
    if name_dtype(dtype) != name:
        raise ValueError(f"no plain dtype is called {name!r}")
    return dtype
