"""Arrays of unlike shapes filled up to one."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ...datasource.columns import StructureError

__all__ = ["Pad", "pad"]


@dataclass(frozen=True, slots=True)
class Pad:
    """What ``pad`` returns; see there."""

    to: int | tuple[int | None, ...] | None
    value: Any
    multiple_of: int
    too_long: Literal["raise", "truncate"]

    def apply(self, arrays: Sequence[npt.NDArray[Any]], path: str) -> npt.NDArray[Any]:
        """Return ``arrays``, at least one, stacked and filled up; dtypes are promoted as ``np.stack`` promotes them.

        Raises:
          StructureError: They have unequal numbers of axes, or one is longer than ``to``; names the field and the example.
        """
        ndim = arrays[0].ndim
        for number, array in enumerate(arrays):
            if array.ndim != ndim:
                raise StructureError(
                    f"field {path!r}: example 0 of the batch has shape {arrays[0].shape}, example {number} has {array.shape}; "
                    "arrays are padded along axes that all of them have",
                    (0, number),
                )
        shape = self._shape(arrays, path)
        filled = np.full((len(arrays), *shape), self.value, np.result_type(*{array.dtype for array in arrays}))
        for row, array in zip(filled, arrays, strict=True):
            room = tuple(slice(0, min(have, want)) for have, want in zip(array.shape, shape, strict=True))
            row[room] = array[room]
        return filled

    def _shape(self, arrays: Sequence[npt.NDArray[Any]], path: str) -> list[int]:
        wanted = self.to if isinstance(self.to, tuple) else (self.to,)
        shape = []
        for axis in range(arrays[0].ndim):
            sizes = [array.shape[axis] for array in arrays]
            to = wanted[axis] if axis < len(wanted) else None
            longest = max(sizes)
            if to is None:
                # Only the first axis is rounded up, where nothing else is said: it is the one that sequences run along.
                shape.append(-(-longest // self.multiple_of) * self.multiple_of if axis == 0 else longest)
                continue
            if longest > to and self.too_long == "raise":
                number = sizes.index(longest)
                raise StructureError(
                    f"field {path!r}: example {number} of the batch has shape {arrays[number].shape}, axis {axis} is padded "
                    f'to {to}; pad to more, or use too_long="truncate"',
                    (number, number),
                )
            shape.append(to)
        return shape


def pad(
    to: int | tuple[int | None, ...] | None = None,
    *,
    value: Any = 0,
    multiple_of: int = 1,
    too_long: Literal["raise", "truncate"] = "raise",
) -> Pad:
    """Return how ``collate`` fills up a field whose arrays have unlike shapes.

        tf.data                                     here
        padded_batch(k)                             collate(pad())
        padded_batch(k, padding_values=-1)          collate(pad(value=-1))
        padded_batch(k, padded_shapes=[128])        collate(pad(128))
        padded_batch(k, padded_shapes=[None, 8])    collate(pad((None, 8)))

    Args:
      to: The length of the first axis, or a tuple for several; None for the longest of the batch.
      value: What is filled in behind; cast to the arrays' dtype.
      multiple_of: The first axis is rounded up to a multiple of this where ``to`` does not say its length.
      too_long: What becomes of an array longer than ``to``: ``"raise"``, or ``"truncate"``.

    Raises:
      ValueError: A length is negative, ``multiple_of`` below 1, or ``too_long`` something else.
    """
    lengths = to if isinstance(to, tuple) else (to,)
    if any(length is not None and operator.index(length) < 0 for length in lengths):
        raise ValueError(f"to is {to}; lengths must not be negative")
    if operator.index(multiple_of) < 1:
        raise ValueError(f"multiple_of is {multiple_of}; it must be at least 1")
    if too_long not in ("raise", "truncate"):
        raise ValueError(f"too_long is {too_long!r}; it must be 'raise' or 'truncate'")
    return Pad(to, value, operator.index(multiple_of), too_long)
