"""Examples and rows of columns as entries of a cache: bytes of which every leaf can be found with a little arithmetic.

An entry, little-endian; numbers are 64 bits wide, and every leaf starts at a multiple of 16 bytes:

    head        checksum (of the rest; 0 in memory), size in bytes, slot, template
    dims        for each leaf: an array's shape, any other value's length
    leaves      arrays as they lie in memory in C order, other values as ``values.py`` encodes them

What entries have in common (the structure, and dtype and number of axes of the arrays) is their template, kept once. So a batch
of entries of one template becomes columns again with one gather for each leaf, and no loop over the entries.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ...columns import Columns, StructureError
from ...memory import Extents
from ...structure import make_nester, walk
from .values import decode_value, dtype_from_name

__all__ = ["ALIGN", "HEAD", "HEAD_BYTES", "EntryError", "Leaf", "Template", "frame"]

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

HEAD = struct.Struct("<QQQQ")
HEAD_BYTES = HEAD.size
ALIGN = 16

#: What a leaf is: dtype and number of axes of an array, None for a value of another kind.
Leaf: TypeAlias = tuple[np.dtype[Any], int] | None


class EntryError(ValueError):
    """An entry contradicts itself."""


@dataclass(frozen=True)
class Template:
    """What a set of entries has in common.

    Attributes:
      description: The same as JSON. Structures of types that only the program knows are in it by name.
      like: The structure, with something in the place of every leaf.
      leaves: What the leaves are, in order.
    """

    description: str
    like: Columns
    leaves: tuple[Leaf, ...]

    @cached_property
    def dims(self) -> int:
        """How many lengths an entry has."""
        return sum(1 if leaf is None else leaf[1] for leaf in self.leaves)

    @cached_property
    def nest(self) -> Callable[[Sequence[Any]], Columns]:
        """Puts leaves in the place of those of ``like``."""
        return make_nester(self.like)

    @classmethod
    def parse(cls, description: str) -> Template | None:
        """Return the template that a description tells of; None where it names types of a program, or is none."""
        leaves: list[Leaf] = []
        try:
            return cls(description, _parse(json.loads(description), leaves), tuple(leaves))
        except (ValueError, TypeError, KeyError, RecursionError):
            return None

    def unpack(self, entry: bytearray) -> Any:
        """Return the example in one entry; its arrays are parts of ``entry``.

        Raises:
          EntryError: The entry is none of this template.
        """
        try:
            dims = struct.unpack_from(f"<{self.dims}Q", entry, HEAD_BYTES)
            at = _aligned(HEAD_BYTES + 8 * len(dims))
            values: list[Any] = []
            place = 0
            for leaf in self.leaves:
                if leaf is None:
                    end = at + dims[place]
                    values.append(decode_value(bytes(entry[at:end])))
                    place += 1
                else:
                    dtype, axes = leaf
                    shape = dims[place : place + axes]
                    count = 1
                    for length in shape:
                        count *= length
                    end = at + count * dtype.itemsize
                    values.append(np.frombuffer(entry, dtype, count, at).reshape(shape) if count else np.empty(shape, dtype))
                    place += axes
                if end > len(entry):
                    raise EntryError(f"a leaf ends at byte {end} of {len(entry)}")
                at = _aligned(end)
        except (struct.error, ValueError, OverflowError) as error:
            raise EntryError(str(error)) from None
        return self.nest(values)

    def unpack_rows(self, entries: Extents) -> Columns:
        """Return entries that are rows as columns.

        Raises:
          EntryError: One of them is none of this template.
          StructureError: Arrays differ in shape.
        """
        count = len(entries)
        try:
            dims = entries.field(HEAD_BYTES, "<i8", self.dims) if self.dims else np.empty((count, 0), np.int64)
            if dims.size and not 0 <= dims.min() <= dims.max() < 1 << 48:
                raise EntryError("a length that is no length")
            at: Ints = np.full(count, _aligned(HEAD_BYTES + 8 * self.dims))
            columns: list[npt.NDArray[Any]] = []
            place = 0
            for leaf in self.leaves:
                if leaf is None:
                    sizes = dims[:, place]
                    columns.append(_objects([decode_value(each) for each in entries.inner(at, sizes).tolist()]))
                    place += 1
                else:
                    dtype, axes = leaf
                    shapes = dims[:, place : place + axes]
                    if (shapes != shapes[0]).any():
                        raise self._explain(len(columns), shapes)
                    shape = tuple(shapes[0].tolist())
                    size = dtype.itemsize
                    for length in shape:
                        size *= length
                    sizes = np.full(count, size)
                    stored = entries.inner(at, sizes).field(0, np.uint8, size)
                    columns.append(stored.view(dtype).reshape(count, *shape) if size else np.empty((count, *shape), dtype))
                    place += axes
                at = at + sizes + (-sizes % ALIGN)
        except StructureError:
            raise
        except (IndexError, ValueError, OverflowError) as error:
            raise EntryError(str(error)) from None
        return self.nest(columns)

    def _explain(self, leaf: int, shapes: Ints) -> StructureError:
        path = walk(self.like)[leaf][0]
        where = f"field {path!r}" if path else "the examples"
        other = int(np.flatnonzero((shapes != shapes[0]).any(axis=1))[0])
        one, another = (tuple(shapes[row].tolist()) for row in (0, other))
        return StructureError(
            f"{where}: examples of the batch have the shapes {one} and {another}; make them equal in a map", (0, other)
        )


def frame(slots: Ints, template: int, bodies: Bytes | list[bytes]) -> tuple[Bytes, Ints]:
    """Return entries end to end, and the size of each: ``bodies`` with a head in front, checksums left 0."""
    if isinstance(bodies, np.ndarray):
        heads = np.zeros((len(slots), 4), "<u8")
        size = HEAD_BYTES + bodies.shape[1]
        heads[:, 1], heads[:, 2], heads[:, 3] = size, slots, template
        whole = np.concatenate([heads.view(np.uint8), bodies], axis=1)
        return whole.reshape(-1), np.full(len(slots), size)
    sizes = np.fromiter((HEAD_BYTES + len(body) for body in bodies), np.int64, len(bodies))
    parts: list[bytes] = []
    for slot, size, body in zip(slots.tolist(), sizes.tolist(), bodies, strict=True):
        parts += (HEAD.pack(0, size, slot, template), body)
    return np.frombuffer(b"".join(parts), np.uint8), sizes


def _parse(form: Any, leaves: list[Leaf]) -> Any:
    if form == "value":
        leaves.append(None)
        return None
    if isinstance(form, list):
        name, axes = form
        if not 0 <= axes <= 64:
            raise ValueError(f"an array of {axes} axes")
        leaves.append((dtype_from_name(name), int(axes)))
        return None
    if "tuple" in form:
        return tuple(_parse(each, leaves) for each in form["tuple"])
    return {str(name): _parse(each, leaves) for name, each in form["dict"]}


def _objects(values: Sequence[Any]) -> npt.NDArray[Any]:
    column = np.empty(len(values), object)
    for place, value in enumerate(values):
        column[place] = value
    return column


def _aligned(at: int) -> int:
    return -(-at // ALIGN) * ALIGN
