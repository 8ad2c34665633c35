"""Class labels: integers with names."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from ..errors import SchemaError
from ..example.wire import WireValues
from .arrays import to_array
from .base import Json
from .tensor import Tensor

__all__ = ["ClassLabel"]


class ClassLabel(Tensor):
    """A class, given by name or number, stored and decoded as its number: ``0 <= label < num_classes``; -1 is "none".

    Args:
      num_classes: How many classes there are; ``None`` if unknown (then nothing can be encoded).
      names: The classes' names, all different, in the order of their numbers.
    """

    json_class = "class_label_feature.ClassLabel"
    content_key = "classLabel"

    def __init__(
        self,
        num_classes: int | None = None,
        *,
        names: Iterable[str] | None = None,
        description: str = "",
        value_range: str = "",
    ) -> None:
        super().__init__(shape=(), dtype=np.int64, description=description, value_range=value_range)
        self._names = None if names is None else tuple(names)
        if self._names is not None:
            if num_classes is not None and num_classes != len(self._names):
                raise SchemaError(f"{num_classes} classes, but {len(self._names)} names")
            if len(set(self._names)) != len(self._names):
                double = next(name for name in self._names if self._names.count(name) > 1)
                raise SchemaError(f"two classes are called {double!r}")
            num_classes = len(self._names)
        self.num_classes = num_classes
        self._numbers = {name: number for number, name in enumerate(self._names or ())}

    @property
    def names(self) -> list[str]:
        """The classes' names; "0", "1", ... where none were given."""
        if self._names is not None:
            return list(self._names)
        return [str(number) for number in range(self.num_classes or 0)]

    @property
    def has_names(self) -> bool:
        """Whether the names are more than the numbers."""
        return self._names is not None

    def with_names(self, names: Iterable[str]) -> ClassLabel:
        """Return the same label with other names."""
        return ClassLabel(names=names, description=self.description, value_range=self.value_range)

    def str2int(self, name: str) -> int:
        """Return the number of the class called ``name``.

        Raises:
          ValueError: There is none.
        """
        if self._names is not None:
            number = self._numbers.get(name)
        else:
            number = int(name) if name.isascii() and name.isdigit() and int(name) < (self.num_classes or 0) else None
        if number is None:
            raise ValueError(f"no class is called {name!r}; there are {self._list_names()}")
        return number

    def int2str(self, number: int) -> str:
        """Return the name of class ``0 <= number < num_classes``.

        Raises:
          ValueError: There is no such class.
        """
        number = operator.index(number)
        if not 0 <= number < (self.num_classes or 0):
            raise ValueError(f"class {number} of {self.num_classes}")
        return self._names[number] if self._names is not None else str(number)

    def encode(self, value: Any) -> WireValues:
        if self.num_classes is None:
            raise SchemaError("the number of classes is unknown; give num_classes or names")
        if isinstance(value, (str, bytes)):
            try:
                value = self.str2int(value.decode() if isinstance(value, bytes) else value)
            except ValueError as error:
                raise SchemaError(str(error)) from None
        number = int(to_array(value, self.dtype, ()))
        if not -1 <= number < self.num_classes:
            raise SchemaError(f"a label from -1 to {self.num_classes - 1} expected, got {number}")
        return np.array([number], np.int64)

    def encode_many(self, elements: Any) -> tuple[WireValues, ...]:
        numbers = np.asarray(elements) if len(elements) else np.empty(0, np.int64)
        known = range(-1, self.num_classes or 0)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or not all(number in known for number in numbers.tolist()):
            return super(Tensor, self).encode_many(elements)  # Names, or what is to be refused: one by one.
        return (numbers.astype(np.int64),)

    def to_content(self) -> Json:
        return {} if self.num_classes is None else {"numClasses": str(self.num_classes)}

    @classmethod
    def from_content(cls, content: Json) -> Self:
        names = content.get("names")
        return cls(None if names else content.get("num_classes") or None, names=names)

    def _identity(self) -> Any:
        return self.to_json(), self._names

    def _list_names(self) -> str:
        names = self.names
        shown = ", ".join(repr(name) for name in names[:10])
        return f"{shown}, ... ({len(names)} in all)" if len(names) > 10 else shown or "no classes"

    def _details(self) -> dict[str, Any]:
        return {"num_classes": self.num_classes}
