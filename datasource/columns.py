"""From a list of examples to columns: every leaf one array with a leading batch axis."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

__all__ = ["Columns", "StructureError", "count_bytes", "map_leaves", "stack", "stack_leaf"]

# What a batch is made of: an array, or a dict, tuple, named tuple or dataclass of columns, as the examples were.
Columns: TypeAlias = Any
MakeLeaf: TypeAlias = Callable[[Sequence[Any], str], Any]


class StructureError(ValueError):
    """Examples of one batch differ where they must be alike.

    Attributes:
      message: Which field, and how they differ.
      places: The two examples, by their place in the batch.
    """

    def __init__(self, message: str, places: tuple[int, int]) -> None:
        super().__init__(message, places)
        self.message = message
        self.places = places

    def __str__(self) -> str:
        return self.message


def stack(examples: Sequence[Any], *, path: str = "", make_leaf: MakeLeaf | None = None) -> Columns:
    """Return ``examples``, all of one structure, as one structure of arrays of shape ``(len(examples), ...)``.

        dict, tuple, named tuple, dataclass     the same type, of columns
        array, NumPy scalar, list of numbers    ``np.stack``; dtypes promoted as NumPy promotes them
        tensors of torch and JAX                the same, by way of ``np.asarray``
        int, float, bool                        int64, float64, bool (uint64 where int64 does not reach)
        str, bytes, None, anything else         an object array of shape ``(len(examples),)``

    Args:
      examples: Any number of them; none at all gives an empty float64 array, as NumPy does.
      path: Where in the example this is, for error messages: ``"image"``, ``"objects/bbox"``.
      make_leaf: Makes a column of what the examples have at a path; by default ``stack_leaf``.

    Raises:
      StructureError: Structures or shapes differ; names the field, what two of the examples have, and which they are.
    """
    if not examples:
        return np.empty(0)
    first = examples[0]
    if isinstance(first, Mapping):
        for number, example in enumerate(examples):
            if not isinstance(example, Mapping) or example.keys() != first.keys():
                raise _mismatch(path, f"keys {[*first]}", number, _structure(example))
        return {key: stack([e[key] for e in examples], path=_join(path, key), make_leaf=make_leaf) for key in first}
    if isinstance(first, tuple):
        for number, example in enumerate(examples):
            if type(example) is not type(first) or len(example) != len(first):
                raise _mismatch(path, _structure(first), number, _structure(example))
        names = getattr(first, "_fields", range(len(first)))
        fields = [stack([e[k] for e in examples], path=_join(path, name), make_leaf=make_leaf) for k, name in enumerate(names)]
        return type(first)(*fields) if hasattr(first, "_fields") else tuple(fields)
    if dataclasses.is_dataclass(first) and not isinstance(first, type):
        for number, example in enumerate(examples):
            if type(example) is not type(first):
                raise _mismatch(path, _structure(first), number, _structure(example))
        columns = {}
        for name in [field.name for field in dataclasses.fields(first)]:
            values = [getattr(example, name) for example in examples]
            columns[name] = stack(values, path=_join(path, name), make_leaf=make_leaf)
        return _replaced(first, columns)
    return (make_leaf or stack_leaf)(examples, path)


def stack_leaf(examples: Sequence[Any], path: str) -> np.ndarray[Any, Any]:
    """Return what examples have at ``path``, which is no dict, tuple or data class, as one array; see ``stack``."""
    first = examples[0]
    if type(first) is int and all(type(example) is int for example in examples):
        return _stack_integers(examples)
    if isinstance(first, (np.ndarray, np.generic, list, int, float, complex)) or hasattr(first, "__array__"):
        arrays = [_as_array(example, number, path) for number, example in enumerate(examples)]
        if all(map(_is_stackable, arrays, examples)):
            shape = arrays[0].shape
            for number, array in enumerate(arrays):
                if array.shape != shape:
                    raise _mismatch(path, f"shape {shape}", number, f"shape {array.shape}", "; or pad them: see collate")
            return np.stack(arrays)
    column = np.empty(len(examples), object)
    for number, example in enumerate(examples):
        column[number] = example
    return column


def _stack_integers(numbers: Sequence[int]) -> np.ndarray[Any, Any]:
    """Return Python integers as the first of int64, uint64 and objects that holds all: NumPy makes floats of hashes."""
    low, high = min(numbers), max(numbers)
    if -(1 << 63) <= low and high < 1 << 63:
        return np.array(numbers, np.int64)
    return np.array(numbers, np.uint64 if low >= 0 and high < 1 << 64 else object)


def _is_stackable(array: np.ndarray[Any, Any], example: Any) -> bool:
    """Whether ``array`` is what ``example`` means: a list of texts is not an array of fixed-width ones."""
    return array.dtype.kind not in "US" or isinstance(example, np.ndarray)


def _as_array(example: Any, number: int, path: str) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(example)
    except ValueError:
        raise StructureError(
            f"{_where(path)}: example {number} of the batch is a list of lists of unequal lengths; pad them in a transform",
            (number, number),
        ) from None


def _replaced(example: Any, fields: dict[str, Any]) -> Any:
    """Return a copy of a dataclass with other values, frozen or not: what ``__post_init__`` demands is meant for examples."""
    replaced = copy.copy(example)
    for name, value in fields.items():
        object.__setattr__(replaced, name, value)
    return replaced


def _structure(example: object) -> str:
    if isinstance(example, Mapping):
        return f"keys {[*example]}"
    if type(example) is tuple:
        return f"a tuple of {len(example)}"
    return type(example).__name__


def _join(path: str, name: object) -> str:
    return f"{path}/{name}" if path else str(name)


def _where(path: str) -> str:
    return f"field {path!r}" if path else "the examples"


def _mismatch(path: str, expected: str, number: int, got: str, more: str = "") -> StructureError:
    return StructureError(
        f"{_where(path)}: example 0 of the batch has {expected}, example {number} has {got}; "
        f"make them equal in a transform{more}",
        (0, number),
    )


def map_leaves(function: Callable[[Any], Any], columns: Columns) -> Columns:
    """Return ``columns`` with ``function`` applied to every array (or other leaf); dicts, tuples, lists and dataclasses are
    kept."""
    if isinstance(columns, Mapping):
        return {key: map_leaves(function, value) for key, value in columns.items()}
    if isinstance(columns, (tuple, list)):
        fields = [map_leaves(function, value) for value in columns]
        if hasattr(columns, "_fields"):
            return type(columns)(*fields)
        return tuple(fields) if isinstance(columns, tuple) else fields
    if dataclasses.is_dataclass(columns) and not isinstance(columns, type):
        names = [field.name for field in dataclasses.fields(columns)]
        return _replaced(columns, {name: map_leaves(function, getattr(columns, name)) for name in names})
    return function(columns)


def count_bytes(columns: Columns) -> int:
    """Return about how much memory ``columns`` takes: arrays exactly, texts by their length, other objects by 64 bytes."""
    if isinstance(columns, np.ndarray):
        return columns.nbytes + (sum(map(count_bytes, columns.flat)) if columns.dtype == object else 0)
    if isinstance(columns, (str, bytes)):
        return len(columns)
    if isinstance(columns, Mapping):
        return sum(map(count_bytes, columns.values()))
    if isinstance(columns, (tuple, list)):
        return sum(map(count_bytes, columns))
    return int(getattr(columns, "nbytes", 64))
