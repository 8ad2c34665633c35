"""Examples given as columns: dicts, nested or not, of arrays and lists of one length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import SchemaError

__all__ = ["count_rows", "slice_rows", "take_row"]


def count_rows(columns: Mapping[str, Any]) -> int:
    """Return the length of all columns; 0 where there are none.

    Raises:
      SchemaError: They differ, or one has none; names the columns.
    """
    lengths: dict[str, int] = {}

    def visit(columns: Mapping[str, Any], path: str) -> None:
        for name, column in columns.items():
            if isinstance(column, Mapping):
                visit(column, f"{path}{name}/")
                continue
            try:
                lengths[f"{path}{name}"] = len(column)
            except TypeError:
                raise SchemaError(
                    f"column {path + name!r}: an array or list, one value a row, expected, got {type(column).__name__}"
                ) from None

    visit(columns, "")
    if len(set(lengths.values())) > 1:
        raise SchemaError(f"columns of one length expected, got {lengths}")
    return next(iter(lengths.values()), 0)


def slice_rows(columns: Any, start: int, stop: int) -> Any:
    """Return rows ``start`` to ``stop`` of all columns."""
    if isinstance(columns, Mapping):
        return {name: slice_rows(column, start, stop) for name, column in columns.items()}
    return columns[start:stop]


def take_row(columns: Any, row: int) -> Any:
    """Return one example."""
    if isinstance(columns, Mapping):
        return {name: take_row(column, row) for name, column in columns.items()}
    return columns[row]
