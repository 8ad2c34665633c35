"""Batches as PyTorch tensors. The only file of the library that imports torch, besides what a user's own code does."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..datasource.columns import Columns, map_leaves

__all__ = ["to_torch"]


def to_torch(batch: Columns) -> Any:
    """Return a batch with a tensor for every array, sharing its memory; text and other objects become lists.

    Raises:
      TypeError: torch has no such dtype (complex256, datetime64 ...); names it.
    """
    return map_leaves(_to_tensor, batch)


def _to_tensor(leaf: Any) -> Any:
    if not isinstance(leaf, np.ndarray):
        return leaf
    if leaf.dtype.kind in "OSU":
        return leaf.tolist()
    if not leaf.dtype.isnative:
        leaf = leaf.astype(leaf.dtype.newbyteorder("="))
    if leaf.dtype.name == "bfloat16":
        return torch.from_numpy(leaf.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(leaf)
