"""A table of pictures: a CSV file, a row for each, one of whose columns names its file."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import DataError, ShardNotFoundError
from ..features import ClassLabel, Feature, Scalar, Text
from .image_listing import IMAGE_SUFFIXES, Listing
from .infer_array import infer_array

__all__ = ["read_table"]

_CLASS_COLUMNS = ("label", "class")
_SPLIT_COLUMN = "split"
_MAX_INT = 1 << 63


def read_table(directory: str, table: str, split: str) -> Listing:
    """Return the pictures that a table names, in its order, with the values of its other columns.

    Raises:
      ShardNotFoundError: There is no such table, or files that it names are missing; lists them.
      DataError: It is no such table; names the line.
    """
    header, rows = _read(table)
    file_column = _find_files(header, rows, table)
    names = [row[file_column] for row in rows]
    missing = [name for name in names if not os.path.exists(os.path.join(directory, name))]
    if missing:
        named = ", ".join(missing[:5]) + f" and {len(missing) - 5} more" * (len(missing) > 5)
        raise ShardNotFoundError(f"{len(missing)} of the {len(names)} files that it names are missing: {named}", table)
    others = [place for place, name in enumerate(header) if place != file_column and name != _SPLIT_COLUMN]
    columns: list[Sequence[Any]] = []
    features: dict[str, Feature] = {}
    for place in others:
        values, features[header[place]] = _interpret(header[place], [row[place] for row in rows])
        columns.append(values)
    split_column = header.index(_SPLIT_COLUMN) if _SPLIT_COLUMN in header else None
    files: dict[str, list[str]] = {}
    values_of: dict[str, list[tuple[Any, ...]]] = {}
    for number, name in enumerate(names):
        home = split if split_column is None else rows[number][split_column]
        files.setdefault(home, []).append(name)
        values_of.setdefault(home, []).append(tuple(column[number] for column in columns))
    return Listing(files, tuple(features), values_of, features)


def _read(table: str) -> tuple[list[str], list[list[str]]]:
    try:
        with open(table, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            header = next(reader, [])
            rows = []
            for row in reader:
                if len(row) != len(header):
                    raise DataError(f"line {reader.line_num} has {len(row)} columns, the header {len(header)}", table)
                rows.append(row)
    except FileNotFoundError:
        raise ShardNotFoundError("no such table", table) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"no table in UTF-8 with commas: {error}", table) from None
    if len(set(header)) < len(header) or "" in header or not rows:
        raise DataError(f"a line of column names, all different, and rows below expected, got {header[:10]}", table)
    return header, rows


def _find_files(header: list[str], rows: list[list[str]], table: str) -> int:
    for place in range(len(header)):
        if all(row[place].lower().endswith(IMAGE_SUFFIXES) for row in rows):
            return place
    raise DataError(f"no column holds the names of picture files, {', '.join(IMAGE_SUFFIXES)}; there are {header[:10]}", table)


def _interpret(name: str, texts: list[str]) -> tuple[Sequence[Any], Feature]:
    """Return a column's values, and the feature that keeps them."""
    try:
        numbers = [int(text) for text in texts]
        if all(-_MAX_INT <= number < _MAX_INT for number in numbers):
            return numbers, Scalar(np.int64)
    except ValueError:
        pass
    try:
        return [np.float64(text) for text in texts], infer_array(np.dtype(np.float64), ())
    except ValueError:
        pass
    if name in _CLASS_COLUMNS:
        return texts, ClassLabel(names=sorted(set(texts)))
    return texts, Text()
