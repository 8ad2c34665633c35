"""Examples and columns taken apart and put together: dicts, tuples, named tuples and data classes around leaves.

A leaf is whatever is none of these, lists too.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .columns import Columns, StructureError

__all__ = ["fields_of", "make_nester", "map_structure", "merge", "rebuild", "walk"]

Ints = npt.NDArray[np.int64]


def fields_of(node: Any) -> dict[Any, Any] | None:
    """Return what a dict, tuple, named tuple or data class is made of, by name or place; None for a leaf."""
    if isinstance(node, np.ndarray):  # asked first: most are
        return None
    if isinstance(node, (dict, Mapping)):
        return dict(node)
    if isinstance(node, tuple):
        return dict(zip(getattr(node, "_fields", range(len(node))), node, strict=True))
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        return {field.name: getattr(node, field.name) for field in dataclasses.fields(node)}
    return None


def rebuild(like: Any, values: Sequence[Any]) -> Any:
    """Return the same as ``like``, which is no leaf, made of ``values`` in the order of ``fields_of(like)``."""
    if isinstance(like, Mapping):
        return dict(zip(like, values, strict=True))
    if isinstance(like, tuple):
        return type(like)(*values) if hasattr(like, "_fields") else tuple(values)
    # A copy, frozen or not: what __post_init__ demands is meant for examples, not for columns.
    made = copy.copy(like)
    for field, value in zip(dataclasses.fields(like), values, strict=True):
        object.__setattr__(made, field.name, value)
    return made


def map_structure(function: Callable[[Any], Any], node: Any) -> Any:
    """Return ``node`` with ``function(leaf)`` in the place of every leaf."""
    fields = fields_of(node)
    return function(node) if fields is None else rebuild(node, [map_structure(function, each) for each in fields.values()])


def walk(node: Any, path: str = "") -> list[tuple[str, Any]]:
    """Return every leaf with its place below ``path``, as ``"objects/bbox"``, in the order of ``map_structure``."""
    fields = fields_of(node)
    if fields is None:
        return [(path, node)]
    return [leaf for name, value in fields.items() for leaf in walk(value, _join(path, name))]


def make_nester(like: Any) -> Callable[[Sequence[Any]], Any]:
    """Return a function that makes the structure of ``like`` out of its leaves, in the order of ``walk``."""
    fields = fields_of(like)
    if fields is None:
        return lambda values: values[0]
    if isinstance(like, dict) and all(fields_of(value) is None for value in fields.values()):
        names = tuple(fields)
        return lambda values: dict(zip(names, values, strict=True))

    def nest(values: Sequence[Any]) -> Any:
        remaining = iter(values)
        return map_structure(lambda _: next(remaining), like)

    return nest


def merge(count: int, parts: Sequence[tuple[Ints, Columns]]) -> Columns:
    """Return columns of ``count`` rows put together from ``(places, columns)``, every place once.

    Dtypes are promoted as ``stack`` promotes them.

    Args:
      parts: One or more, none of them empty, unless it is the only one.

    Raises:
      StructureError: Structures or shapes differ; names the field and both.
    """
    return _merge(count, [places for places, _ in parts], [columns for _, columns in parts], "")


def _merge(count: int, places: list[Ints], parts: list[Columns], path: str) -> Columns:
    fields = [fields_of(part) for part in parts]
    first = fields[0]
    if first is None and all(each is None for each in fields):
        return _merge_leaf(count, places, [np.asarray(part) for part in parts], path)
    for number, (part, each) in enumerate(zip(parts, fields, strict=True)):
        if type(part) is not type(parts[0]) or first is None or each is None or each.keys() != first.keys():
            raise _mismatch(path, places, number, _describe(parts[0]), _describe(part))
    assert first is not None
    merged = [_merge(count, places, [each[name] for each in fields if each is not None], _join(path, name)) for name in first]
    return rebuild(parts[0], merged)


def _merge_leaf(count: int, places: list[Ints], parts: list[npt.NDArray[Any]], path: str) -> npt.NDArray[Any]:
    shape = parts[0].shape[1:]
    for number, part in enumerate(parts):
        if part.shape[1:] != shape:
            raise _mismatch(path, places, number, f"shape {shape}", f"shape {part.shape[1:]}")
    merged = np.empty((count, *shape), _promote(parts))
    for where, part in zip(places, parts, strict=True):
        merged[where] = part
    return merged


def _promote(parts: list[npt.NDArray[Any]]) -> np.dtype[Any]:
    dtypes = [part.dtype for part in parts]
    if object in dtypes:
        return np.dtype(object)
    promoted = np.result_type(*dtypes)
    if promoted.kind == "f" and all(dtype.kind in "iu" for dtype in dtypes):
        # NumPy makes floats of int64 and uint64, and of what does not fit into those something else.
        return np.dtype(np.uint64 if all(part.size == 0 or part.min() >= 0 for part in parts) else object)
    return promoted


def _mismatch(path: str, places: list[Ints], number: int, expected: str, got: str) -> StructureError:
    where = f"field {path!r}" if path else "the examples"
    one, other = (int(each[0]) if each.size else 0 for each in (places[0], places[number]))
    return StructureError(
        f"{where}: example {one} of the batch has {expected}, example {other} has {got}; make them equal in a map", (one, other)
    )


def _describe(node: Any) -> str:
    fields = fields_of(node)
    if fields is None:
        return "no fields"
    return f"a tuple of {len(fields)}" if type(node) is tuple else f"keys {[*fields]}"


def _join(path: str, name: object) -> str:
    return f"{path}/{name}" if path else str(name)
