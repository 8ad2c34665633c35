"""A leaf inside sequences: lists of values, or lists of lists."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DecodeError, SchemaError
from ..example.wire import WireValues
from .base import named
from .dtypes import STRING
from .leaf import Leaf
from .leaf_feature import LeafFeature
from .rows import Rows, flatten, row_keys
from .shapes import Shape

__all__ = ["RowsLeaf", "SequenceLeaf"]


class RowsLeaf(Leaf):
    """A leaf inside sequences: first its rows are found, then they are decoded, whole or in part."""

    def read(self, wire: Mapping[str, WireValues]) -> Any:
        try:
            return self.value(self.rows(wire))
        except DecodeError as error:
            raise named(error, self.path) from error.__cause__

    @abstractmethod
    def rows(self, wire: Mapping[str, WireValues]) -> Any:
        """Return what the record has for this leaf, not yet decoded: it has ``len`` and ``row(place)``.

        Raises:
          DecodeError: A list is missing, or they do not fit together; does not name the leaf.
        """

    @abstractmethod
    def value(self, rows: Any) -> Any:
        """Return ``rows`` decoded; of a single element, the element, scalars as NumPy's.

        Raises:
          DecodeError: An element is not as promised; does not name the leaf.
        """


class SequenceLeaf(RowsLeaf):
    """A leaf inside one or more sequences.

    One level decodes to a list of NumPy scalars, bytes or arrays; more levels to lists of lists, the innermost of which are
    arrays if the elements are scalars: what ``tfds.data_source`` gives.

    Columns of one level are dense, ``(n, length, *shape)``; of more levels, ``object``.

    Attributes:
      lengths: Of the sequences around the leaf, outermost first; ``None`` where examples differ.
    """

    feature: LeafFeature

    def __init__(self, feature: LeafFeature, path: tuple[str, ...], lengths: Shape) -> None:
        super().__init__(feature, path)
        self.lengths = lengths
        self.keys = tuple(key for suffix in feature.parts for key in row_keys(self.key + suffix, len(lengths)))
        self.kind = next(iter(feature.parts.values())) if len(self.keys) == 1 else None
        self._is_simple = self.kind is not None and lengths[0] is None
        if len(lengths) == 1 and (feature.fills_arrays or feature.dtype == STRING):
            self.columns_dtype = feature.dtype
            self.columns_shape = (*lengths, *feature.shape)

    def write(self, value: Any, wire: dict[str, WireValues]) -> None:
        try:
            elements, row_lengths = flatten(value, self.lengths)
            parts = self.feature.encode_many(elements)
        except SchemaError as error:
            raise named(error, self.path) from error.__cause__
        levels = [np.array(level, np.int64) for level in row_lengths]
        for suffix, part in zip(self.feature.parts, parts, strict=True):
            wire.update(zip(row_keys(self.key + suffix, len(self.lengths)), (part, *levels), strict=True))

    def read(self, wire: Mapping[str, WireValues]) -> Any:
        values = wire.get(self.key) if self._is_simple else None
        count = self.feature.counts[0]
        if values is None or not count or len(values) % count:
            return super().read(wire)
        # One list of any length: nothing is to be checked but its elements, which saves a third of the time.
        try:
            return self.feature.join(self.feature.decode_many((values,), len(values) // count))
        except DecodeError as error:
            raise named(error, self.path) from error.__cause__

    def payload_decoder(self) -> Callable[[bytes], Any] | None:
        return self.feature.list_decoder() if self._is_simple else None

    def rows(self, wire: Mapping[str, WireValues]) -> Rows:
        return Rows.read(wire, self.key, self.feature, self.lengths)

    def value(self, rows: Rows) -> Any:
        elements = self.feature.decode_many(rows.parts, rows.size)
        if rows.rank == 0:
            return elements[0]
        if rows.rank == 1:
            return self.feature.join(elements)
        level: Any = elements
        # Rows of scalars stay arrays; rows of anything else become lists.
        are_scalars = isinstance(elements, np.ndarray) and elements.ndim == 1
        for lengths in reversed(rows.lengths):
            pieces = [level[end - length : end] for end, length in zip(accumulate(lengths), lengths, strict=True)]
            level = pieces if are_scalars else [list(piece) for piece in pieces]
            are_scalars = False
        return level

    def _as_array(self, value: Any) -> npt.NDArray[Any]:
        if len(value) == 0:
            return np.empty((0, *(size or 0 for size in self.feature.shape)), self.columns_dtype)
        try:
            return np.asarray(value, self.columns_dtype)
        except ValueError:
            shapes = sorted({np.shape(element) for element in value})
            raise ValueError(f"feature {self.key!r}: elements of shapes {shapes} make no array; pad or crop them") from None

    def to_columns(self, values: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
        count = self.feature.counts[0]
        if len(self.keys) > 1 or not count or self.kind == "bytes" or values.shape[1] % count:
            return None
        n, length = values.shape[0], values.shape[1] // count
        if self.lengths[0] not in (None, length):
            return None
        columns = self.feature.decode_columns(values.reshape(n * length, count))
        return None if columns is None else columns.reshape(n, length, *columns.shape[1:])
