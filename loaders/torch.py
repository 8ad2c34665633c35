"""Batches as PyTorch tensors. The only file of the library that imports torch, besides what a user's own code does."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..datasource.columns import Columns, map_leaves

__all__ = ["to_torch"]


def to_torch(batch: Columns) -> Any:
    """Return a batch with a tensor for every array; text and other objects become lists.

    Tensors share the arrays' memory, whatever their axes' order. Copied is what torch cannot share: read-only arrays, reversed
    axes, foreign byte order.

    Raises:
      TypeError: torch has no such dtype (structured, datetime64 ...); names it.
    """
    return map_leaves(_to_tensor, batch)


def _to_tensor(leaf: Any) -> Any:
    if not isinstance(leaf, np.ndarray):
        return leaf
    if leaf.dtype.kind in "OSU":
        return leaf.tolist()
    if not (leaf.flags.writeable and leaf.dtype.isnative) or any(step < 0 or step % leaf.itemsize for step in leaf.strides):
        leaf = leaf.astype(leaf.dtype.newbyteorder("="), order="C")
    if leaf.dtype.name.startswith(("bfloat16", "float8")) and hasattr(torch, leaf.dtype.name):
        # NumPy has these from ml_dtypes, torch of its own: the same bits under the same name.
        return torch.from_numpy(leaf.view(f"u{leaf.itemsize}")).view(getattr(torch, leaf.dtype.name))
    return torch.from_numpy(leaf)
