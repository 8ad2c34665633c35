"""A leaf: one value of the decoded example, and the lists of the record that hold it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..columns import stack
from ..errors import DecodeError, SchemaError
from ..example.wire import WireValues
from .base import Feature, named
from .dtypes import STRING, Kind
from .leaf_feature import LeafFeature
from .shapes import Shape, fits

__all__ = ["Leaf", "ValueLeaf", "make_leaf"]


class Leaf(ABC):
    """One value of the decoded example: where it stands, which lists of the record hold it, how it is decoded.

    Attributes:
      feature: The feature.
      path: Place in the nested example.
      key: Key in the record: ``path`` joined by "/".
      keys: All keys of the record that are read; ``(key,)`` for most.
      kind: Kind of the list under ``key``; ``None`` if several keys are read.
      decodes_views: See ``LeafFeature.decodes_views``.
      columns_dtype, columns_shape: Of one element of a column. A ``None`` length differs between batches; columns of
        dtype ``object`` and shape ``()`` hold any value.

    Immutable, picklable, safe to share between threads.
    """

    feature: Feature
    path: tuple[str, ...]
    key: str
    keys: tuple[str, ...]
    kind: Kind | None
    decodes_views: bool = False
    columns_dtype: np.dtype[Any] = STRING
    columns_shape: Shape = ()

    def __init__(self, feature: Feature, path: tuple[str, ...]) -> None:
        self.feature = feature
        self.path = path
        self.key = "/".join(path)

    @abstractmethod
    def write(self, value: Any, wire: dict[str, WireValues]) -> None:
        """Encode ``value`` into ``wire``; ``None`` for an optional feature writes nothing.

        Raises:
          SchemaError: The value does not fit; names the feature.
        """

    @abstractmethod
    def read(self, wire: Mapping[str, WireValues]) -> Any:
        """Return the decoded value from the lists of a record, of the type that ``tfds.data_source`` gives.

        Raises:
          DecodeError: It is not there or not as promised; names the feature.
        """

    def decode(self, values: WireValues) -> Any:
        """Return the decoded value of a leaf that has a ``kind`` from its one list; ``None`` for a missing list.

        Raises:
          DecodeError: As ``read``.
        """
        return self.read({} if values is None else {self.key: values})

    def payload_decoder(self) -> Callable[[bytes], Any] | None:
        """Return a faster ``decode``, of a payload; see ``LeafFeature.payload_decoder``."""
        return None

    def alike_decoder(
        self, heads: Callable[[int], npt.NDArray[np.uint8]], sizes: npt.NDArray[np.int64]
    ) -> Callable[[npt.NDArray[np.uint8]], npt.NDArray[Any]] | None:
        """Return a faster ``payload_decoder`` for payloads that are alike; see ``LeafFeature.alike_decoder``."""
        return None

    def payload_form(self, nbytes: int) -> tuple[str, Callable[[Any], Any] | None] | None:
        """Return how a payload of ``nbytes`` is unpacked to the value at once; see ``LeafFeature.payload_form``."""
        return None

    def to_columns(self, values: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
        """Return a column from n records that have the same layout; ``None`` if it must be decoded record by record.

        Args:
          values: int64 or float32 of shape ``(n, count)``; for kind "bytes", uint8 of shape ``(n, nbytes)``: the single
            bytes value of each record. The last axis is contiguous.

        Returns:
          Shape ``(n, *columns_shape)``, dtype ``columns_dtype``; a view of ``values`` where possible.
        """
        return None

    def decode_batch(self, values: Sequence[WireValues]) -> npt.NDArray[Any]:
        """Return a column of shape ``(len(values), *columns_shape)`` from the one list of each record.

        Raises:
          DecodeError: As ``read``.
          ValueError: The decoded values differ in shape.
        """
        return self.stack([self.decode(each) for each in values])

    def stack(self, decoded: Sequence[Any]) -> npt.NDArray[Any]:
        """Return decoded values as one column.

        Raises:
          ValueError: They differ in shape; names the feature and the shapes.
        """
        if self.columns_dtype == STRING and not self.columns_shape:
            objects = np.empty(len(decoded), object)
            for place, value in enumerate(decoded):
                objects[place] = value
            return objects
        if not decoded:
            return np.empty((0, *(size or 0 for size in self.columns_shape)), self.columns_dtype)
        if not self.columns_shape:
            return np.array(decoded, self.columns_dtype)
        column: npt.NDArray[Any] = stack([self._as_array(value) for value in decoded], path=self.key)
        if not fits(column.shape[1:], self.columns_shape):
            raise DecodeError(f"feature {self.key!r}: shape {self.columns_shape} expected, the records have {column.shape[1:]}")
        return column

    def _as_array(self, value: Any) -> npt.NDArray[Any]:
        return np.asarray(value, self.columns_dtype)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.key!r}, {self.feature!r})"


class ValueLeaf(Leaf):
    """A leaf outside of any sequence."""

    feature: LeafFeature

    def __init__(self, feature: LeafFeature, path: tuple[str, ...]) -> None:
        super().__init__(feature, path)
        self.keys = tuple(self.key + suffix for suffix in feature.parts)
        self.kind = next(iter(feature.parts.values())) if len(self.keys) == 1 else None
        self.decodes_views = feature.decodes_views
        if feature.fills_arrays:
            self.columns_dtype = feature.dtype
            self.columns_shape = feature.shape
        self._decode = feature.decoder()

    def write(self, value: Any, wire: dict[str, WireValues]) -> None:
        if value is None and self.feature.optional:
            return
        try:
            wire.update(zip(self.keys, self.feature.encode_parts(value), strict=True))
        except SchemaError as error:
            raise named(error, self.path) from error.__cause__

    def read(self, wire: Mapping[str, WireValues]) -> Any:
        if self.kind is not None:
            # As decode: its own call would be a tenth of the time of a scalar.
            values = wire.get(self.key)
            if values is None and self.feature.optional:
                return None
            try:
                return self._decode(values)
            except DecodeError as error:
                raise named(error, self.path) from error.__cause__
        parts = tuple(wire.get(key) for key in self.keys)
        if self.feature.optional and all(part is None for part in parts):
            return None
        try:
            return self.feature.decode_parts(parts)
        except DecodeError as error:
            raise named(error, self.path) from error.__cause__

    def decode(self, values: WireValues) -> Any:
        if values is None and self.feature.optional:
            return None
        try:
            return self._decode(values)
        except DecodeError as error:
            raise named(error, self.path) from error.__cause__

    def payload_decoder(self) -> Callable[[bytes], Any] | None:
        return self.feature.payload_decoder()

    def alike_decoder(
        self, heads: Callable[[int], npt.NDArray[np.uint8]], sizes: npt.NDArray[np.int64]
    ) -> Callable[[npt.NDArray[np.uint8]], npt.NDArray[Any]] | None:
        return self.feature.alike_decoder(heads, sizes)

    def payload_form(self, nbytes: int) -> tuple[str, Callable[[Any], Any] | None] | None:
        return self.feature.payload_form(nbytes)

    def to_columns(self, values: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
        return None if self.feature.optional else self.feature.decode_columns(values)


def make_leaf(feature: LeafFeature, path: tuple[str, ...], lengths: Shape) -> Leaf:
    """Return the leaf for ``feature`` at ``path`` inside sequences of ``lengths``."""
    if not lengths:
        return ValueLeaf(feature, path)
    from .sequence_leaf import SequenceLeaf

    return SequenceLeaf(feature, path, lengths)
