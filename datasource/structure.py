"""Dicts, tuples, named tuples and dataclasses of arrays: taking them apart, and putting them together as they were."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = [
    "Columns",
    "describe_path",
    "fields_of",
    "join_path",
    "map_leaves",
    "merge",
    "nester",
    "rebuild",
    "replaced",
    "structure_of",
    "walk",
]

# What a batch is made of: an array, or a dict, tuple, named tuple or dataclass of columns, as the examples were.
Columns: TypeAlias = Any


def map_leaves(function: Callable[[Any], Any], columns: Columns) -> Columns:
    """Return ``columns`` with ``function`` applied to every array (or other leaf); the structure is kept, lists are walked."""
    if isinstance(columns, list):
        return [map_leaves(function, value) for value in columns]
    fields = fields_of(columns)
    if fields is None:
        return function(columns)
    return rebuild(columns, [map_leaves(function, value) for value in fields.values()])


def merge(count: int, parts: Sequence[tuple[npt.NDArray[np.int64], Columns]]) -> Columns:
    """Return columns of ``count`` rows put together from parts: the rows of ``columns`` at ``places``, every place once.

    Args:
      parts: One ``(places, columns)`` or more, all of one structure; dtypes are promoted as NumPy promotes them.

    Raises:
      ValueError: Structures or shapes differ; names the field and both.
    """
    return _merge(count, [places for places, _ in parts], [columns for _, columns in parts], "")


def _merge(count: int, places: list[npt.NDArray[np.int64]], parts: list[Columns], path: str) -> Columns:
    fields = [fields_of(part) for part in parts]
    first = fields[0]
    if first is None:
        return _merge_leaf(count, places, [np.asarray(part) for part in parts], path)
    for part, found in zip(parts, fields, strict=True):
        if type(part) is not type(parts[0]) or found is None or found.keys() != first.keys():
            raise ValueError(_parts_differ(path, structure_of(parts[0]), structure_of(part)))
    merged = [_merge(count, places, [found[name] for found in fields if found], join_path(path, name)) for name in first]
    return rebuild(parts[0], merged)


def _merge_leaf(count: int, places: list[npt.NDArray[np.int64]], parts: list[npt.NDArray[Any]], path: str) -> npt.NDArray[Any]:
    shape = parts[0].shape[1:]
    for part in parts:
        if part.shape[1:] != shape:
            raise ValueError(_parts_differ(path, f"shape {shape}", f"shape {part.shape[1:]}"))
    boxed = any(part.dtype == object for part in parts)
    merged = np.empty((count, *shape), object if boxed else np.result_type(*[part.dtype for part in parts]))
    for where, part in zip(places, parts, strict=True):
        merged[where] = part
    return merged


def _parts_differ(path: str, expected: str, got: str) -> str:
    return f"{describe_path(path)}: one part of the batch has {expected}, another has {got}; make them equal in a map"


def fields_of(columns: Columns) -> dict[Any, Any] | None:
    """Return what a dict, tuple, named tuple or dataclass is made of, by name or place; None for a leaf."""
    if isinstance(columns, np.ndarray):  # asked first: most are
        return None
    if isinstance(columns, (dict, Mapping)):
        return dict(columns)
    if isinstance(columns, tuple):
        return dict(zip(getattr(columns, "_fields", range(len(columns))), columns, strict=True))
    if dataclasses.is_dataclass(columns) and not isinstance(columns, type):
        return {field.name: getattr(columns, field.name) for field in dataclasses.fields(columns)}
    return None


def rebuild(like: Columns, values: Sequence[Any]) -> Columns:
    """Return the same structure as ``like``, made of ``values`` in the order of ``fields_of(like)``."""
    if isinstance(like, Mapping):
        return dict(zip(like, values, strict=True))
    if isinstance(like, tuple):
        return type(like)(*values) if hasattr(like, "_fields") else tuple(values)
    names = [field.name for field in dataclasses.fields(like)]
    return replaced(like, dict(zip(names, values, strict=True)))


def walk(columns: Columns, path: str = "") -> list[tuple[str, Any]]:
    """Return every leaf with its place below ``path``, as ``"objects/bbox"``, in the order of ``map_leaves``."""
    fields = fields_of(columns)
    if fields is None:
        return [(path, columns)]
    return [leaf for name, value in fields.items() for leaf in walk(value, join_path(path, name))]


def nester(like: Columns) -> Callable[[Sequence[Any]], Any]:
    """Return a function that makes the structure of ``like`` out of its leaves, in the order of ``walk``."""
    fields = fields_of(like)
    if fields is None:
        return lambda values: values[0]
    if isinstance(like, dict) and all(fields_of(value) is None for value in fields.values()):
        names = tuple(fields)
        return lambda values: dict(zip(names, values, strict=True))

    def nest(values: Sequence[Any]) -> Any:
        remaining = iter(values)
        return map_leaves(lambda _: next(remaining), like)

    return nest


def replaced(example: Any, fields: dict[str, Any]) -> Any:
    """Return a copy of a dataclass with other values, frozen or not: what ``__post_init__`` demands is meant for examples."""
    replaced = copy.copy(example)
    for name, value in fields.items():
        object.__setattr__(replaced, name, value)
    return replaced


def structure_of(example: object) -> str:
    """Return in a few words what an example is made of, for an error message."""
    if isinstance(example, Mapping):
        return f"keys {[*example]}"
    if type(example) is tuple:
        return f"a tuple of {len(example)}"
    return type(example).__name__


def join_path(path: str, name: object) -> str:
    """Return the place of a part ``name`` of what is at ``path``: ``"objects/bbox"``."""
    return f"{path}/{name}" if path else str(name)


def describe_path(path: str) -> str:
    """Return a place in an example as error messages name it."""
    return f"field {path!r}" if path else "the examples"
