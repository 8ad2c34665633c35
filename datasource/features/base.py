"""What every feature has: a shape, a dtype, an encoding, a description in JSON."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from ..errors import DataError, DecodeError, SchemaError
from ..example.wire import WireValues
from .dtypes import STRING, Kind, dtype_name

if TYPE_CHECKING:
    from .leaf import Leaf

__all__ = ["Feature", "Json", "LeafFeature", "Shape", "fits", "named", "require"]

Json: TypeAlias = dict[str, Any]
E = TypeVar("E", bound=DataError)
# Lengths of the axes; None for one that differs between examples.
Shape: TypeAlias = tuple[int | None, ...]


class Feature(ABC):
    """One field of an example, or a group of them: how it looks decoded, and how it is stored.

    Features are immutable values: equal if they describe the same data, picklable, safe to share between threads.

    Args:
      description: What the field means, for people.
      value_range: The values it takes, for people.
    """

    # What features.json calls the class, and the one key there that holds its parameters.
    json_class: ClassVar[str]
    content_key: ClassVar[str]
    # Whether a stored value is the array's own memory, so that decoding it is looking at it.
    stored_raw: bool = False

    def __init__(self, *, description: str = "", value_range: str = "") -> None:
        self.description = description
        self.value_range = value_range

    @property
    @abstractmethod
    def shape(self) -> Any:
        """Lengths of the decoded value's axes, ``None`` where examples differ; a dict of shapes for a dict of features."""

    @property
    @abstractmethod
    def dtype(self) -> Any:
        """Dtype of the decoded value (``object`` for bytes); a dict of dtypes for a dict of features."""

    # -- structure ------------------------------------------------------------------------------------------------

    @abstractmethod
    def walk(self, path: tuple[str, ...] = (), lengths: Shape = ()) -> Iterator[Leaf]:
        """Yield the leaves below, in the order of sorted keys.

        Args:
          path: Where in the example this feature stands.
          lengths: Length of each sequence around it, outermost first; ``None`` where examples differ.
        """

    @abstractmethod
    def collect(self, value: Any, path: tuple[str, ...]) -> list[Any]:
        """Return what ``value`` holds for each leaf, in the order of ``walk``; sequences around a leaf become lists.

        Raises:
          SchemaError: The structure is not that of the feature, which stands at ``path``.
        """

    @abstractmethod
    def nest(self, values: Iterator[Any]) -> Any:
        """Return the decoded feature, taking the value of each leaf from ``values``, in the order of ``walk``."""

    @abstractmethod
    def map_leaves(self, change: Callable[[LeafFeature, tuple[str, ...]], LeafFeature], path: tuple[str, ...] = ()) -> Any:
        """Return the same feature with ``change(leaf, its path)`` in the place of every leaf feature.

        Where nothing changes, the feature itself; a kind of feature that fixes what is in it becomes its general form.
        """

    # -- JSON -----------------------------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def from_content(cls, content: Json) -> Self:
        """Return the feature that ``content``, as ``to_content`` gives it, describes; see ``json_form``."""

    @abstractmethod
    def to_content(self) -> Json:
        """Return the parameters as features.json has them."""

    def to_json(self) -> Json:
        """Return what features.json holds for this feature."""
        form: Json = {"pythonClassName": f"tensorflow_datasets.core.features.{self.json_class}"}
        if self.description:
            form["description"] = self.description
        if self.value_range:
            form["valueRange"] = self.value_range
        form[self.content_key] = self.to_content()
        return form

    @staticmethod
    def from_json(form: Json) -> Feature:
        """Return the feature that a form of features.json describes, in any spelling that TFDS reads.

        Raises:
          SchemaError: The form describes none; names the place in it.
        """
        from .json_form import feature_from_json

        return feature_from_json(form)

    # -- value semantics ------------------------------------------------------------------------------------------

    def _identity(self) -> Any:
        """Return what two equal features share."""
        return self.to_json()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Feature) and type(self) is type(other) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(repr(self))

    def short_repr(self) -> str:
        """Return the ``repr`` as it stands inside another feature's."""
        return repr(self)


class LeafFeature(Feature):
    """A feature stored as one list of values (or a few, see ``parts``) in a ``tf.train.Example``.

    Attributes:
      parts: By suffix of the key, which list; ``{"": "bytes"}`` for most.
      counts: Wire values of one element in each of its lists, ``None`` where elements differ.
      optional: Whether the value may be ``None``, which is stored as nothing.
      joins_to_arrays: Whether a sequence of it is decoded to one array where the elements' shapes agree; see ``options``.
    """

    parts: Mapping[str, Kind]
    counts: tuple[int | None, ...] = (1,)
    optional: bool = False
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


def fits(shape: tuple[int, ...], expected: Shape) -> bool:
    """Return whether an array of ``shape`` is one of the ``expected`` shape."""
    return len(shape) == len(expected) and all(e in (None, s) for s, e in zip(shape, expected, strict=True))


def require(values: WireValues, kind: Kind) -> Any:
    """Return ``values`` if they are of ``kind``, else raise ``DecodeError`` saying what they are."""
    if isinstance(values, list):
        found = "bytes"
    elif values is None:
        raise DecodeError("the record has no value for it, and it is not optional")
    else:
        found = "int64" if values.dtype == np.int64 else "float"
    if found != kind:
        raise DecodeError(f"a list of {kind} expected, the record has {len(values)} values of {found}")
    return values


def named(error: E, path: tuple[str, ...]) -> E:
    """Return ``error`` with the feature's place in the example in front of its message."""
    where = f"feature {'/'.join(path)!r}" if path else "the example"
    return type(error)(f"{where}: {error.message}", error.path, error.record, error.offset)
