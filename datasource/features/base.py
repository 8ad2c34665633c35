"""What every feature has: a shape, a dtype, an encoding, a description in JSON."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, TypeVar

from ..errors import DataError
from .shapes import Shape

if TYPE_CHECKING:
    from .leaf import Leaf
    from .leaf_feature import LeafFeature

__all__ = ["Feature", "Json", "named"]

Json: TypeAlias = dict[str, Any]
E = TypeVar("E", bound=DataError)


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


def named(error: E, path: tuple[str, ...]) -> E:
    """Return ``error`` with the feature's place in the example in front of its message."""
    where = f"feature {'/'.join(path)!r}" if path else "the example"
    return type(error)(f"{where}: {error.message}", error.path, error.record, error.offset)
