"""From a list of examples to columns: every leaf one array with a leading batch axis."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np

__all__ = ["Columns", "map_leaves", "stack"]

_NUMBERS = (int, float, complex)

# What a batch is made of: an array, or a dict, tuple, named tuple or dataclass of columns, as the examples were.
Columns: TypeAlias = Any


def stack(examples: Sequence[Any], *, path: str = "") -> Columns:
    """Return ``examples``, all of one structure, as one structure of arrays of shape ``(len(examples), ...)``.

        dict, tuple, named tuple, dataclass     the same type, of columns
        array, NumPy scalar, list of numbers    ``np.stack``; dtypes promoted as NumPy promotes them
        int, float, bool                        int64, float64, bool; uint64 or Python integers where int64 does not reach
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
                raise ValueError(_mismatch(path, _structure(first), number, _structure(example)))
        return {key: stack([e[key] for e in examples], path=f"{path}/{key}" if path else str(key)) for key in first}
    if isinstance(first, tuple):
        for number, example in enumerate(examples):
            if type(example) is not type(first) or len(example) != len(first):
                raise ValueError(_mismatch(path, f"a tuple of {len(first)}", number, _structure(example)))
        names = getattr(first, "_fields", range(len(first)))
        fields = [stack([e[k] for e in examples], path=f"{path}/{name}".lstrip("/")) for k, name in enumerate(names)]
        return type(first)(*fields) if hasattr(first, "_fields") else tuple(fields)
    if dataclasses.is_dataclass(first) and not isinstance(first, type):
        for number, example in enumerate(examples):
            if type(example) is not type(first):
                raise ValueError(_mismatch(path, _structure(first), number, _structure(example)))
        names = [field.name for field in dataclasses.fields(first)]
        columns = {n: stack([getattr(e, n) for e in examples], path=f"{path}/{n}".lstrip("/")) for n in names}
        return dataclasses.replace(first, **columns)
    return _stack_leaf(examples, path)


def _stack_leaf(examples: Sequence[Any], path: str) -> np.ndarray[Any, Any]:
    if isinstance(examples[0], _NUMBERS) and all(isinstance(example, _NUMBERS) for example in examples):
        column = np.asarray(examples)
        if column.dtype.kind != "f" or not all(isinstance(example, int) for example in examples):
            return column
        # NumPy takes float64 for integers on both sides of 2**63, and rounds them.
        with suppress(OverflowError):
            return np.array(examples, np.uint64)
    elif isinstance(examples[0], (np.ndarray, np.generic, list, *_NUMBERS)):
        try:
            arrays = [np.asarray(example) for example in examples]
        except ValueError:  # a list that is ragged in itself
            arrays = []
        if arrays and all(array.dtype.kind in "biufcmMVO" for array in arrays):
            shape = arrays[0].shape
            for number, array in enumerate(arrays):
                if array.shape != shape:
                    raise ValueError(_mismatch(path, f"shape {shape}", number, f"shape {array.shape}"))
            return np.stack(arrays)
    column = np.empty(len(examples), object)
    for number, example in enumerate(examples):
        column[number] = example
    return column


def _structure(example: object) -> str:
    if isinstance(example, Mapping):
        return f"keys {sorted(example, key=str)}"
    if isinstance(example, tuple):
        return f"a tuple of {len(example)}"
    return type(example).__name__


def _mismatch(path: str, expected: str, number: int, got: str) -> str:
    where = f"field {path!r}" if path else "the examples"
    return f"{where}: example 0 of the batch has {expected}, example {number} has {got}; make them equal in a transform"


def map_leaves(function: Callable[[Any], Any], columns: Columns) -> Columns:
    """Return ``columns`` with ``function`` applied to every array (or other leaf); dicts, tuples and dataclasses are kept."""
    if isinstance(columns, Mapping):
        return {key: map_leaves(function, value) for key, value in columns.items()}
    if isinstance(columns, tuple):
        fields = [map_leaves(function, value) for value in columns]
        return type(columns)(*fields) if hasattr(columns, "_fields") else tuple(fields)
    if dataclasses.is_dataclass(columns) and not isinstance(columns, type):
        names = [field.name for field in dataclasses.fields(columns)]
        return dataclasses.replace(columns, **{name: map_leaves(function, getattr(columns, name)) for name in names})
    return function(columns)
