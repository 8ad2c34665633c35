"""From a list of examples to columns: every leaf one array with a leading batch axis."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Columns", "fields_of", "map_leaves", "merge", "nester", "rebuild", "stack", "walk"]

# What a batch is made of: an array, or a dict, tuple, named tuple or dataclass of columns, as the examples were.
Columns: TypeAlias = Any


def stack(examples: Sequence[Any], *, path: str = "") -> Columns:
    """Return ``examples``, all of one structure, as one structure of arrays of shape ``(len(examples), ...)``.

        dict, tuple, named tuple, dataclass     the same type, of columns
        array, NumPy scalar, list of numbers    ``np.stack``; dtypes promoted as NumPy promotes them
        int, float, bool                        int64, float64, bool (uint64 where int64 does not reach)
        str, bytes, None, anything else         an object array of shape ``(len(examples),)``

    Args:
      examples: Any number of them; none at all gives an empty float64 array, as NumPy does.
      path: Where in the example this is, for error messages: ``"image"``, ``"objects/bbox"``.

    Raises:
      ValueError: Structures or shapes differ; names the field, the two shapes, and which examples.
    """
    if not examples:
        return np.empty(0)
    first = examples[0]
    if isinstance(first, Mapping):
        for number, example in enumerate(examples):
            if not isinstance(example, Mapping) or example.keys() != first.keys():
                raise ValueError(_mismatch(path, f"keys {sorted(first)}", number, _structure(example)))
        return {key: stack([e[key] for e in examples], path=f"{path}/{key}" if path else str(key)) for key in first}
    if isinstance(first, tuple):
        for number, example in enumerate(examples):
            if type(example) is not type(first) or len(example) != len(first):
                raise ValueError(_mismatch(path, f"a tuple of {len(first)}", number, _structure(example)))
        names = getattr(first, "_fields", range(len(first)))
        fields = [stack([e[k] for e in examples], path=f"{path}/{name}".lstrip("/")) for k, name in enumerate(names)]
        return type(first)(*fields) if hasattr(first, "_fields") else tuple(fields)
    if dataclasses.is_dataclass(first) and not isinstance(first, type):
        names = [field.name for field in dataclasses.fields(first)]
        columns = {n: stack([getattr(e, n) for e in examples], path=f"{path}/{n}".lstrip("/")) for n in names}
        return dataclasses.replace(first, **columns)
    return _stack_leaf(examples, path)


def _stack_leaf(examples: Sequence[Any], path: str) -> np.ndarray[Any, Any]:
    first = examples[0]
    if isinstance(first, (np.ndarray, np.generic, list, int, float, complex)):
        try:
            # One call for scalars and for arrays; ragged input raises here and is explained below.
            arrays = [np.asarray(example) for example in examples]
        except ValueError:
            arrays = []
        if arrays and all(array.dtype.kind in "biufcVO" for array in arrays):
            shape = arrays[0].shape
            for number, array in enumerate(arrays):
                if array.shape != shape:
                    raise ValueError(_mismatch(path, f"shape {shape}", number, f"shape {array.shape}"))
            return np.stack(arrays)
    column = np.empty(len(examples), object)
    column[:] = examples if not isinstance(first, (list, np.ndarray)) else [*examples]
    return column


def _structure(example: object) -> str:
    if isinstance(example, Mapping):
        return f"keys {sorted(example)}"
    if isinstance(example, tuple):
        return f"a tuple of {len(example)}"
    return type(example).__name__


def _mismatch(path: str, expected: str, number: int, got: str) -> str:
    where = f"field {path!r}" if path else "the examples"
    return f"{where}: example 0 of the batch has {expected}, example {number} has {got}; make them equal in a transform"


def map_leaves(function: Callable[[Any], Any], columns: Columns) -> Columns:
    """Return ``columns`` with ``function`` applied to every array (or other leaf); dicts, tuples and dataclasses are kept."""
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
            raise ValueError(_parts_differ(path, _structure(parts[0]), _structure(part)))
    merged = [
        _merge(count, places, [found[name] for found in fields if found], f"{path}/{name}" if path else str(name))
        for name in first
    ]
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
    where = f"field {path!r}" if path else "the examples"
    return f"{where}: one part of the batch has {expected}, another has {got}; make them equal in a map"


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
    return dataclasses.replace(like, **dict(zip(names, values, strict=True)))


def walk(columns: Columns, path: str = "") -> list[tuple[str, Any]]:
    """Return every leaf with its place below ``path``, as ``"objects/bbox"``, in the order of ``map_leaves``."""
    fields = fields_of(columns)
    if fields is None:
        return [(path, columns)]
    return [leaf for name, value in fields.items() for leaf in walk(value, f"{path}/{name}" if path else str(name))]


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
