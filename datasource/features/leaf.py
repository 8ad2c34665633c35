"""A leaf: one value of the decoded example, and the list of the record that holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..columns import stack
from ..errors import DecodeError, SchemaError
from ..example.wire import WireValues
from .base import LeafFeature, Shape, named
from .dtypes import STRING, Kind

__all__ = ["Leaf", "make_leaf"]


class Leaf:
    """One value of the decoded example: where it stands, which list of the record holds it, how it is decoded.

    Attributes:
      path: Place in the nested example.
      key: Key in the record: ``path`` joined by "/".
      keys: All keys of the record that it reads; ``(key,)`` for most.
      kind: Kind of the one list, ``None`` if there are several keys.
      feature: The feature.
      columns_dtype, columns_shape: Of one element of a column. A ``None`` length differs between batches; columns of
        dtype ``object`` have shape ``()``.

    Immutable, picklable, safe to share between threads.
    """

    def __init__(self, feature: LeafFeature, path: tuple[str, ...]) -> None:
        self.feature = feature
        self.path = path
        self.key = "/".join(path)
        self.keys = tuple(self.key + suffix for suffix in feature.parts)
        self.kind: Kind | None = next(iter(feature.parts.values())) if len(feature.parts) == 1 else None
        as_object = feature.optional or (feature.dtype == STRING and not feature.shape)
        self.columns_dtype: np.dtype[Any] = STRING if as_object else feature.dtype
        self.columns_shape: Shape = () if as_object else feature.shape
        self._decode = feature.decode

    def write(self, value: Any, wire: dict[str, WireValues]) -> None:
        """Encode ``value`` into ``wire``; ``None`` for an optional feature writes nothing.

        Raises:
          SchemaError: The value does not fit; names the key.
        """
        if value is None and self.feature.optional:
            return
        try:
            wire.update(zip(self.keys, self.feature.encode_parts(value), strict=True))
        except SchemaError as error:
            raise named(error, self.path) from error.__cause__

    def read(self, wire: Mapping[str, WireValues]) -> Any:
        """Return the decoded value from the lists of a record.

        Raises:
          DecodeError: It is not there or not as promised; names the key.
        """
        if len(self.keys) == 1:
            return self.decode(wire.get(self.key))
        parts = tuple(wire.get(key) for key in self.keys)
        if self.feature.optional and all(part is None for part in parts):
            return None
        try:
            return self.feature.decode_parts(parts)
        except DecodeError as error:
            raise named(error, self.path) from error.__cause__

    def decode(self, values: WireValues) -> Any:
        """Return the decoded value of a leaf with one key, of the type that ``tfds.data_source`` gives.

        Raises:
          DecodeError: The list is missing or not as promised; names the key.
        """
        if values is None and self.feature.optional:
            return None
        try:
            return self._decode(values)
        except DecodeError as error:
            raise named(error, self.path) from error.__cause__

    def to_columns(self, values: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
        """Return a column from n records that have the same layout, or ``None`` if this leaf is not decoded that way.

        Args:
          values: int64 or float32 of shape ``(n, count)``; for kind "bytes", uint8 of shape ``(n, nbytes)``: the single
            bytes value of each record. The last axis is contiguous.

        Returns:
          Shape ``(n, *columns_shape)``, dtype ``columns_dtype``; a view of ``values`` where possible.
        """
        return None if self.feature.optional else self.feature.decode_columns(values)

    def decode_batch(self, values: Sequence[WireValues]) -> npt.NDArray[Any]:
        """Return a column of shape ``(len(values), *columns_shape)`` from the lists of any records.

        Raises:
          DecodeError: As ``decode``.
          ValueError: The decoded values differ in shape.
        """
        return self.stack([self.decode(each) for each in values])

    def stack(self, decoded: Sequence[Any]) -> npt.NDArray[Any]:
        """Return decoded values as one column.

        Raises:
          ValueError: They differ in shape; names the key and the shapes.
        """
        if self.columns_dtype == STRING and not self.columns_shape:
            column = np.empty(len(decoded), object)
            for place, value in enumerate(decoded):
                column[place] = value
            return column
        if not decoded:
            return np.empty((0, *(size or 0 for size in self.columns_shape)), self.columns_dtype)
        if not self.columns_shape and not isinstance(decoded[0], np.ndarray):
            return np.array(decoded, self.columns_dtype)
        column = stack(decoded, path=self.key)
        assert isinstance(column, np.ndarray)
        return column.astype(self.columns_dtype, copy=False)

    def __repr__(self) -> str:
        return f"Leaf({self.key!r}, {self.feature!r})"


def make_leaf(feature: LeafFeature, path: tuple[str, ...], lengths: Shape) -> Leaf:
    """Return the leaf for ``feature`` at ``path`` inside sequences of ``lengths``."""
    if lengths:
        raise NotImplementedError("sequences")
    return Leaf(feature, path)
