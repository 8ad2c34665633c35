"""A piece of a data set as one ``.npz`` file, written feature by feature, a few rows in memory."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from .. import dataset
from ..columns import StructureError
from ..errors import SchemaError
from ..features import FeaturesDict, Leaf
from ..structure import walk
from ..writing.publish import sync
from .arrayrecord import Records
from .conversion import Piece
from .export import Kept
from .pieces import choose_block

__all__ = ["NpzWriter"]

Array = npt.NDArray[Any]
#: A zip archive says when its members were made; the same rows are to be the same file.
_NO_TIME = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class NpzWriter:
    """Writes the arrays of a piece. Records that cannot be read end it: rows must be those of all features."""

    source: str
    features: FeaturesDict
    records: Records

    def __call__(self, number: int, piece: Piece, directory: str, kept: Kept) -> None:
        mine = [each for each in self.records.pieces if each.split == piece.split]
        name = f"{piece.split}-{mine.index(piece):05d}-of-{len(mine):05d}.npz"
        rows = self._choose_rows(piece, kept)
        with zipfile.ZipFile(os.path.join(directory, name), "w") as archive:
            for leaf in self.features.leaves():
                info = zipfile.ZipInfo(f"{leaf.key}.npy", _NO_TIME)
                with archive.open(info, "w", force_zip64=True) as member:
                    self._write(leaf, piece.split, rows, member)
        sync(os.path.join(directory, name))

    def _choose_rows(self, piece: Piece, kept: Kept) -> npt.NDArray[np.int64]:
        """Return the numbers of the records that can be read."""
        start, stop = piece.source
        items = self.records.read(piece)
        return np.array(
            [row for row, item in zip(range(start, stop), items, strict=True) if kept.take(item) is not None], np.int64
        )

    def _write(self, leaf: Leaf, split: str, rows: npt.NDArray[np.int64], member: IO[bytes]) -> None:
        dtype, shape = leaf.columns_dtype, leaf.columns_shape
        if None in shape or dtype.hasobject:
            dtype, shape = self._measure(leaf, split, rows)
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (len(rows), *shape)}
        np.lib.format.write_array_header_1_0(member, header)
        for block in self._blocks(leaf, split, rows):
            member.write(np.ascontiguousarray(block.astype(dtype)).tobytes())

    def _measure(self, leaf: Leaf, split: str, rows: npt.NDArray[np.int64]) -> tuple[np.dtype[Any], tuple[int, ...]]:
        """Return the dtype and shape that all rows of a feature have."""
        shapes, width, dtype = set(), 1, leaf.columns_dtype
        for block in self._blocks(leaf, split, rows):
            shapes.add(block.shape[1:])
            if block.dtype.hasobject:
                values = block.reshape(-1).tolist()
                if any(not isinstance(value, bytes) or value.endswith(b"\0") for value in values):
                    raise SchemaError(f"feature {leaf.key!r}: no array holds such values; leave it out by features=")
                width = max([width, *map(len, values)])
                dtype = np.dtype(f"S{width}")
        if len(shapes) > 1:
            raise _differs(leaf)
        return dtype, next(iter(shapes), ())

    def _blocks(self, leaf: Leaf, split: str, rows: npt.NDArray[np.int64]) -> Iterator[Array]:
        with dataset.open(self.source, split=split, features=[leaf.key], io="pread") as source:
            start, count = 0, 1
            while start < len(rows):
                try:
                    block = dict(walk(source.read_batch(rows[start : start + count])))[leaf.key]
                except StructureError:
                    raise _differs(leaf) from None
                yield block
                start += count
                count = min(2 * count, choose_block(len(block), block.nbytes))


def _differs(leaf: Leaf) -> SchemaError:
    return SchemaError(
        f"feature {leaf.key!r}: its shape differs between records, so that they are no array; leave it out by features="
    )
