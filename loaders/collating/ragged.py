"""Arrays of unlike lengths end to end, with where each begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...datasource.columns import StructureError

__all__ = ["Ragged", "join_ragged"]


class Ragged(NamedTuple):
    """A column of arrays whose first axes differ, as ``tf.RaggedTensor`` and ``torch.nested`` take it.

    Attributes:
      values: All of them end to end, ``[total, ...]``.
      row_splits: Row ``i`` is ``values[row_splits[i] : row_splits[i + 1]]``; int64, ``[rows + 1]``.
    """

    values: npt.NDArray[Any]
    row_splits: npt.NDArray[np.int64]


def join_ragged(arrays: Sequence[npt.NDArray[Any]], path: str) -> Ragged:
    """Return ``arrays``, at least one, end to end.

    Raises:
      StructureError: One has no axis, or they differ in another than the first; names the field and both.
    """
    inner = arrays[0].shape[1:]
    for number, array in enumerate(arrays):
        if array.ndim == 0 or array.shape[1:] != inner:
            raise StructureError(
                f"field {path!r}: example 0 of the batch has shape {arrays[0].shape}, example {number} has {array.shape}; "
                "ragged rows may differ along their first axis only",
                (0, number),
            )
    lengths = [0, *(len(array) for array in arrays)]
    return Ragged(np.concatenate(arrays), np.cumsum(lengths, dtype=np.int64))
