"""Features that are values of their own: a tensor, an image, a text."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import SchemaError
from ..example.wire import WireValues
from .base import Feature
from .dtypes import STRING, Kind, dtype_name
from .shapes import Shape

if TYPE_CHECKING:
    from .leaf import Leaf

__all__ = ["LeafFeature"]


class LeafFeature(Feature):
    """A feature stored as one list of values (or a few, see ``parts``) in a ``tf.train.Example``.

    Attributes:
      parts: By suffix of the key, which list; ``{"": "bytes"}`` for most.
      counts: Wire values of one element in each of its lists, ``None`` where elements differ.
      optional: Whether the value may be ``None``, which is stored as nothing.
      decodes_views: Whether what ``payload_decoder`` returns takes a memoryview, too, and keeps nothing of it.
      joins_to_arrays: Whether a sequence of it is decoded to one array where the elements' shapes agree; see ``options``.
    """

    parts: Mapping[str, Kind]
    counts: tuple[int | None, ...] = (1,)
    optional: bool = False
    decodes_views: bool = False
    joins_to_arrays: bool = False

    @property
    @abstractmethod
    def shape(self) -> Shape: ...

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]: ...

    @abstractmethod
    def encode(self, value: Any) -> WireValues:
        """Return ``value`` as the flat list that is stored.

        Raises:
          SchemaError: The value does not fit: what was expected, what came.
        """

    @abstractmethod
    def decode(self, values: WireValues) -> Any:
        """Return the value that ``values``, one element's stored list, encodes.

        Raises:
          DecodeError: The list is of another kind or length, or its content cannot be decoded.
        """

    def decoder(self) -> Callable[[WireValues], Any]:
        """Return the function to decode many records with: ``decode``, or what it would call."""
        return self.decode

    def payload_decoder(self) -> Callable[[bytes], Any] | None:
        """Return a function that decodes a list packed in one piece, its *payload*: one byte string, float32 or varints.

        It returns what ``decode`` returns for that list, or raises anything, even where ``decode`` would not. None where there
        is none that is faster; ``bytes`` where the payload is the value.
        """
        return None

    def alike_decoder(
        self, heads: Callable[[int], npt.NDArray[np.uint8]], sizes: npt.NDArray[np.int64]
    ) -> Callable[[npt.NDArray[np.uint8]], npt.NDArray[Any]] | None:
        """Return a faster ``payload_decoder``, of arrays, for some payloads that are alike; None where there is none.

        Args:
          heads: Number of bytes -> the first bytes of each payload, of shape ``(n, bytes)``; none may be shorter.
          sizes: Bytes of each, at least one payload.
        """
        return None

    def list_decoder(self) -> Callable[[bytes], list[Any]] | None:
        """Return a function that does to the payload of any number of joined elements what ``decode_many`` and ``join`` do."""
        return None

    def payload_form(self, nbytes: int) -> tuple[str, Callable[[Any], Any] | None] | None:
        """Return a ``payload_decoder`` for payloads of ``nbytes`` in two parts, None where there is none.

        They are the code that ``struct`` cuts the payload out with, little-endian, and what makes the value of what it gives,
        None if that is the value.
        """
        return None

    @property
    def fills_arrays(self) -> bool:
        """Whether decoded values are of the declared shape and dtype, so that a column is one array of them."""
        return not self.optional and (self.dtype != STRING or bool(self.shape))

    def encode_parts(self, value: Any) -> tuple[WireValues, ...]:
        """Return one element's list for each of ``parts``."""
        return (self.encode(value),)

    def decode_parts(self, parts: tuple[WireValues, ...]) -> Any:
        """Return the value of one element from its list for each of ``parts``."""
        return self.decode(parts[0])

    def encode_many(self, elements: Sequence[Any]) -> tuple[WireValues, ...]:
        """Return the elements of a sequence as one joined list for each of ``parts``.

        Raises:
          SchemaError: An element does not fit; says which.
        """
        encoded = []
        for place, element in enumerate(elements):
            try:
                encoded.append(self.encode_parts(element))
            except SchemaError as error:
                raise SchemaError(f"element {place} of {len(elements)}: {error.message}") from error.__cause__
        columns = zip(*encoded, strict=True) if encoded else [()] * len(self.parts)
        return tuple(_join(column, kind) for column, kind in zip(columns, self.parts.values(), strict=True))

    def decode_many(self, parts: tuple[WireValues, ...], size: int) -> Sequence[Any] | npt.NDArray[Any]:
        """Return the ``size`` elements whose lists were joined; scalars as an array."""
        if len(self.parts) == 1 and self.counts == (1,):
            values: Any = parts[0]
            return [self.decode(values[place : place + 1]) for place in range(size)]
        return [self.decode_parts(_cut(parts, size, place)) for place in range(size)]

    def join(self, elements: Sequence[Any] | npt.NDArray[Any]) -> Any:
        """Return the decoded elements of a sequence as the value of the sequence: a list, or an array if so configured."""
        if self.joins_to_arrays and self.dtype != STRING:
            if len(elements) == 0:
                return np.empty((0, *(size or 0 for size in self.shape)), self.dtype)
            if all(np.shape(element) == np.shape(elements[0]) for element in elements):
                return np.asarray(elements, self.dtype)
        return list(elements)

    def decode_columns(self, values: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
        """Return n values decoded at once, shape ``(n, *shape)``; ``None`` where that cannot be done this way.

        Args:
          values: int64 or float32 of shape ``(n, count)``; for bytes, uint8 of shape ``(n, bytes of the one value)``.
            The last axis is contiguous. The result may be a view.
        """
        return None

    def walk(self, path: tuple[str, ...] = (), lengths: Shape = ()) -> Iterator[Leaf]:
        from .leaf import make_leaf

        yield make_leaf(self, path, lengths)

    def collect(self, value: Any, path: tuple[str, ...]) -> list[Any]:
        return [value]

    def nest(self, values: Iterator[Any]) -> Any:
        return next(values)

    def map_leaves(
        self, change: Callable[[LeafFeature, tuple[str, ...]], LeafFeature], path: tuple[str, ...] = ()
    ) -> LeafFeature:
        return change(self, path)

    def _details(self) -> dict[str, Any]:
        """Return what the ``repr`` shows after shape and dtype."""
        return {"description": self.description} if self.description else {}

    def __repr__(self) -> str:
        shown = {"shape": self.shape, "dtype": dtype_name(self.dtype), **self._details()}
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in shown.items())})"


def _join(column: Sequence[Any], kind: Kind) -> WireValues:
    if kind == "bytes":
        return [value for values in column for value in values]
    empty = np.empty(0, np.int64) if kind == "int64" else np.empty(0, np.float32)
    joined: npt.NDArray[Any] = np.concatenate([empty, *column])
    return joined


def _cut(parts: tuple[WireValues, ...], size: int, place: int) -> tuple[WireValues, ...]:
    """Return element ``place`` of ``size`` equally long ones from each of ``parts``."""
    counts = [len(part) // size if part is not None else 0 for part in parts]
    return tuple(
        part[place * count : (place + 1) * count] if part is not None else None
        for part, count in zip(parts, counts, strict=True)
    )
