"""From examples and columns to the bodies of entries: dims and leaves, see ``entries.py``."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...columns import Columns
from ...structure import fields_of
from .entries import ALIGN, HEAD_BYTES, Leaf, Template
from .values import encode_value, name_dtype

__all__ = ["pack_example", "pack_rows"]

Bytes = npt.NDArray[np.uint8]


def pack_example(example: Any) -> tuple[Template, bytes]:
    """Return the template of an example, and its dims and leaves.

    Raises:
      TypeError: Something in it has no form in bytes; names the field.
    """
    values: list[tuple[str, Any]] = []
    leaves: list[Leaf] = []
    form, like = _describe(example, "", values, leaves, _leaf_of)
    dims: list[int] = []
    parts: list[bytes] = []
    for (path, value), leaf in zip(values, leaves, strict=True):
        data = _encode(value, path) if leaf is None else np.asarray(value).tobytes()
        dims += [len(data)] if leaf is None else value.shape
        parts += (data, bytes(-len(data) % ALIGN))
    return Template(json.dumps(form), like, tuple(leaves)), _join_dims(dims) + b"".join(parts)


def pack_rows(columns: Columns, count: int) -> tuple[Template, Bytes | list[bytes]]:
    """Return the template of the rows of ``columns``, and their dims and leaves: equal sizes as a matrix, else one by one.

    Raises:
      TypeError: Something in them has no form in bytes; names the field.
    """
    values: list[tuple[str, Any]] = []
    leaves: list[Leaf] = []
    form, like = _describe(columns, "", values, leaves, _column_of)
    template = Template(json.dumps(form), like, tuple(leaves))
    if None not in leaves:
        dims = _join_dims([length for _, column in values for length in column.shape[1:]])
        pieces = [np.broadcast_to(np.frombuffer(dims, np.uint8), (count, len(dims)))]
        for _, column in values:
            data = np.frombuffer(column.tobytes(), np.uint8).reshape(count, column.nbytes // count)
            pieces += (data, np.zeros((count, -data.shape[1] % ALIGN), np.uint8))
        return template, np.concatenate(pieces, axis=1)
    rows = []
    for row in range(count):
        lengths: list[int] = []
        parts: list[bytes] = []
        for (path, column), leaf in zip(values, leaves, strict=True):
            value: bytes = _encode(column[row], path) if leaf is None else column[row].tobytes()
            lengths += [len(value)] if leaf is None else column.shape[1:]
            parts += (value, bytes(-len(value) % ALIGN))
        rows.append(_join_dims(lengths) + b"".join(parts))
    return template, rows


def _describe(
    node: Any, path: str, values: list[tuple[str, Any]], leaves: list[Leaf], judge: Callable[[Any], Leaf]
) -> tuple[Any, Any]:
    """Return a structure as JSON, and with placeholders for its leaves; appends the leaves."""
    fields = fields_of(node)
    if fields is None:
        leaf = judge(node)
        values.append((path, node))
        leaves.append(leaf)
        return ("value" if leaf is None else [name_dtype(leaf[0]), leaf[1]]), None
    below = {
        name: _describe(value, f"{path}/{name}" if path else str(name), values, leaves, judge) for name, value in fields.items()
    }
    forms = [form for form, _ in below.values()]
    likes = {name: like for name, (_, like) in below.items()}
    if type(node) is tuple:
        return {"tuple": forms}, tuple(likes.values())
    if type(node) is dict and all(type(name) is str for name in fields):
        return {"dict": [list(pair) for pair in zip(fields, forms, strict=True)]}, likes
    named = f"{type(node).__module__}.{type(node).__qualname__}"
    form = {"type": named, "fields": [[repr(name), each] for name, each in zip(fields, forms, strict=True)]}
    if isinstance(node, tuple):
        return form, type(node)(*likes.values())
    # A data class stays what it is: made of placeholders it might refuse them.
    return form, likes if isinstance(node, Mapping) else node


def _leaf_of(value: Any) -> Leaf:
    if type(value) not in (np.ndarray, np.memmap) or name_dtype(value.dtype) is None:
        return None
    return value.dtype, value.ndim


def _column_of(column: Any) -> Leaf:
    if not isinstance(column, np.ndarray):
        raise TypeError(f"columns are arrays, got {type(column).__name__}")
    return None if name_dtype(column.dtype) is None else (column.dtype, column.ndim - 1)


def _encode(value: Any, path: str) -> bytes:
    try:
        return encode_value(value)
    except TypeError as error:
        where = f"field {path!r}" if path else "the element"
        raise TypeError(
            f"{where} cannot be cached, it holds {error}. Cached are arrays, numbers, text, bytes and None, in dicts, lists, "
            "tuples and dataclasses; map it to those, or cache before the map that makes it"
        ) from None


def _join_dims(dims: Sequence[int]) -> bytes:
    data = struct.pack(f"<{len(dims)}Q", *dims)
    return data + bytes(-(HEAD_BYTES + len(data)) % ALIGN)
