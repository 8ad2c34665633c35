"""A ``collate_fn`` made of what is to become of each field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from ...datasource.columns import Columns, StructureError, stack, stack_leaf
from .padding import Pad
from .ragged import join_ragged

__all__ = ["Collate", "FieldOption", "collate"]

FieldOption: TypeAlias = Pad | Literal["stack", "ragged", "list"]


class Collate:
    """Makes batches of lists of examples; what ``collate`` returns. Picklable."""

    def __init__(self, default: FieldOption, fields: Mapping[str, FieldOption]) -> None:
        for name, option in {"default": default, **fields}.items():
            if not isinstance(option, Pad) and option not in ("stack", "ragged", "list"):
                raise ValueError(f"{name} is {option!r}; it must be pad(...), 'stack', 'ragged' or 'list'")
        self._default = default
        self._fields = dict(fields)

    def __call__(self, examples: Sequence[Any]) -> Columns:
        """Return the batch of some examples, at least one.

        Raises:
          StructureError: They cannot be put together so; names the field, what two of them have, and which they are.
          ValueError: There is no such field.
        """
        used: dict[str, list[str]] = {name: [] for name in self._fields}
        seen: list[str] = []

        def make_leaf(values: Sequence[Any], path: str) -> Any:
            seen.append(path)
            names = [name for name in self._fields if path == name or path.startswith(f"{name}/")]
            for name in names:
                used[name].append(path)
            option = self._fields[max(names, key=len)] if names else self._default
            return _apply(option, values, path)

        batch = stack(examples, make_leaf=make_leaf)
        missing = [name for name, paths in used.items() if not paths]
        if missing:
            raise ValueError(f"collate: there is no field {missing[0]!r} in the examples; there are {seen}")
        return batch

    def __repr__(self) -> str:
        fields = f"{self._fields!r}, " if self._fields else ""
        return f"collate({fields}default={self._default!r})"


def collate(default: FieldOption | Mapping[str, FieldOption] | None = None, /, **fields: FieldOption) -> Collate:
    """Return a ``collate_fn`` for examples whose fields have unlike shapes.

        collate(tokens=pad())                               one field padded to the batch's longest, all others stacked
        collate({"objects/bbox": "ragged"}, name="list")    fields within fields, by their path
        collate(pad(128, value=-1))                         every array that has an axis

    What may become of a field:

        "stack"     np.stack, the default: unlike shapes are an error that names field, shapes and records
        pad(...)    filled up to one shape; numbers and texts, which have no axis, are stacked
        "ragged"    ``Ragged(values, row_splits)``
        "list"      a list of what the examples have

    Nested dicts, tuples, named tuples and data classes stay what they are, as without a ``collate_fn``.

    Args:
      default: For all fields that are not named; or names and options as a dict.
      fields: By name, or by path with "/" between names; a field with fields below it stands for all of these.

    Raises:
      ValueError: An option that there is not.
    """
    if isinstance(default, Mapping):
        return Collate("stack", {**default, **fields})
    return Collate(default or "stack", fields)


def _apply(option: FieldOption, values: Sequence[Any], path: str) -> Any:
    if option == "list":
        return list(values)
    if option == "stack":
        return stack_leaf(values, path)
    arrays = []
    for number, value in enumerate(values):
        try:
            arrays.append(np.asarray(value))
        except ValueError:
            raise StructureError(
                f"field {path!r}: example {number} of the batch is a list of lists of unequal lengths; make it an array, or "
                'collate it as "list"',
                (number, number),
            ) from None
    # An empty list says nothing about the dtype: NumPy would make floats of it.
    unsure = [isinstance(value, list) and not array.size for value, array in zip(values, arrays, strict=True)]
    known = {array.dtype for array, maybe in zip(arrays, unsure, strict=True) if not maybe}
    if known:
        dtype = np.result_type(*known)
        arrays = [array.astype(dtype) if maybe else array for array, maybe in zip(arrays, unsure, strict=True)]
    if not isinstance(option, Pad):
        return join_ragged(arrays, path)
    return option.apply(arrays, path) if any(array.ndim for array in arrays) else stack_leaf(values, path)
