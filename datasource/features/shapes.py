"""Shapes of arrays, in which some lengths may be unknown."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import TypeAlias

from ..errors import DecodeError, SchemaError

__all__ = ["Shape", "check_shape", "fill_shape", "fits", "shape_to_json"]

# Lengths of the axes; None for one that differs between examples.
Shape: TypeAlias = tuple[int | None, ...]


def check_shape(shape: Iterable[int | None]) -> Shape:
    """Return ``shape`` as a tuple of lengths of 0 or more and ``None``.

    Raises:
      SchemaError: A length is negative or no integer.
    """
    try:
        result = tuple(None if size is None else operator.index(size) for size in shape)
    except TypeError:
        raise SchemaError(f"a shape is a tuple of integers and None, got {shape!r}") from None
    if any(size is not None and size < 0 for size in result):
        raise SchemaError(f"a shape has no negative lengths (None means unknown), got {result}")
    return result


def shape_to_json(shape: Shape) -> dict[str, list[str]]:
    """Return ``shape`` as features.json has it: int64 are strings in protocol-buffer JSON, -1 is unknown."""
    return {"dimensions": [str(-1 if size is None else size) for size in shape]} if shape else {}


def fits(shape: tuple[int, ...], expected: Shape) -> bool:
    """Return whether an array of ``shape`` is one of the ``expected`` shape."""
    return len(shape) == len(expected) and all(e in (None, s) for s, e in zip(shape, expected, strict=True))


def fill_shape(shape: Shape, count: int) -> tuple[int, ...]:
    """Return ``shape`` with its unknown length, if it has one, such that the array has ``count`` elements.

    Raises:
      DecodeError: No array of that shape has so many.
    """
    rest = 1
    unknown = 0
    for size in shape:
        if size is None:
            unknown += 1
        else:
            rest *= size
    if unknown > 1:
        raise DecodeError(f'{unknown} axes of unknown length cannot be told apart; encoding="bytes" stores them')
    if unknown == 0 and count == rest:
        return shape  # type: ignore[return-value]  # without None
    if unknown and (count % rest == 0 if rest else count == 0):
        return tuple((count // rest if rest else 0) if size is None else size for size in shape)
    raise DecodeError(f"shape {shape} expected, the record has {count} values")
