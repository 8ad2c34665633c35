"""What positions gave where they need not give one example each: before batches are cut from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ..datasource.columns import Columns, StructureError, count_bytes, stack, stack_leaf
from ..datasource.structure import make_nester, map_structure, merge, walk
from .transforms.faults import Skipped

__all__ = ["Chunk", "Piece", "join", "make_rows"]

Ints = npt.NDArray[np.int64]

#: What examples' leaves of these types are stacked to. Texts come as objects, whatever else is in a batch.
_DTYPES: dict[type, np.dtype[Any]] = {bool: np.dtype(bool), int: np.dtype(np.int64), float: np.dtype(np.float64)}
_TEXTS = {str, bytes, type(None)}


@dataclass(frozen=True, slots=True)
class Chunk:
    """What consecutive positions of an epoch gave.

    Attributes:
      rows: Columns, or the list of examples.
      size: How many positions; fewer than were asked for where one raised.
      counts: How many rows each position gave, int64; None for one each.
      skipped: The records among them that failed.
    """

    rows: Any
    size: int
    counts: Ints | None = None
    skipped: tuple[Skipped, ...] = ()

    @property
    def nbytes(self) -> int:
        return count_bytes(self.rows)


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows ``start <= row < stop`` of a chunk."""

    rows: Any
    start: int
    stop: int
    total: int


def make_rows(examples: list[Any]) -> Any:
    """Return examples as columns if any of their rows, stacked with any others, give what these give by themselves.

    So a batch does not depend on what else was in the chunks it is cut from: the examples themselves are returned where
    their dtypes or shapes differ.
    """
    try:
        return stack(examples, make_leaf=_stack_alike) if examples else examples
    except (StructureError, _Unlike):
        return examples


class _Unlike(Exception):
    """Values whose column depends on all of them."""


def _stack_alike(values: Sequence[Any], path: str) -> npt.NDArray[Any]:
    column = stack_leaf(values, path)
    kinds = set(map(type, values))
    dtypes = {_DTYPES.get(kind) for kind in kinds}
    if None in dtypes:
        if kinds <= _TEXTS:
            return column
        dtypes = {getattr(value, "dtype", None) for value in values}
    if dtypes != {column.dtype}:
        raise _Unlike
    return column


def join(pieces: Sequence[Piece]) -> Columns:
    """Return the rows of some pieces as one batch of columns: without a copy where it is a single piece."""
    if len(pieces) == 1 and not isinstance(pieces[0].rows, list):
        return _cut(pieces[0])
    if any(isinstance(piece.rows, list) for piece in pieces):
        return stack(listed(pieces))
    parts = [_cut(piece) for piece in pieces]
    joined = _concatenate(parts)
    if joined is not None:
        return joined
    ends = np.cumsum([0, *(piece.stop - piece.start for piece in pieces)])
    places = [np.arange(start, stop) for start, stop in pairwise(ends.tolist())]
    return merge(int(ends[-1]), list(zip(places, parts, strict=True)))


def listed(pieces: Sequence[Piece]) -> list[Any]:
    """Return the rows of some pieces as a list of examples."""
    examples: list[Any] = []
    for piece in pieces:
        if isinstance(piece.rows, list):
            examples += piece.rows[piece.start : piece.stop]
        else:
            examples += [map_structure(partial(_take, row=row), piece.rows) for row in range(piece.start, piece.stop)]
    return examples


def _concatenate(parts: Sequence[Columns]) -> Columns | None:
    """Return columns end to end, as ``merge`` does in half the time; None where their dtypes or shapes differ."""
    leaves = [walk(part) for part in parts]
    kinds = [[(path, leaf.dtype, leaf.shape[1:]) for path, leaf in each] for each in leaves]
    if any(kind != kinds[0] for kind in kinds) or any(type(part) is not type(parts[0]) for part in parts):
        return None
    columns = [np.concatenate([each[number][1] for each in leaves]) for number in range(len(kinds[0]))]
    return make_nester(parts[0])(columns)


def _take(leaf: npt.NDArray[Any], row: int) -> Any:
    value = leaf[row]
    # An int, as it most likely was: beside others beyond 63 bits it is stacked as one.
    return int(value) if type(value) is np.int64 else value


def _cut(piece: Piece) -> Columns:
    if piece.start == 0 and piece.stop == piece.total:
        return piece.rows
    return map_structure(lambda leaf: leaf[piece.start : piece.stop], piece.rows)
