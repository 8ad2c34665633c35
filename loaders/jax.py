"""Batches as JAX arrays. The only file of the library that imports jax."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ..datasource.columns import Columns, map_leaves

__all__ = ["to_jax"]


def to_jax(batch: Columns) -> Any:
    """Return a batch with a JAX array on the default device for every array; text and other objects stay NumPy.

    As everywhere in JAX, 64-bit integers and floats become 32-bit ones unless ``jax_enable_x64`` is set.
    """
    return map_leaves(_to_array, batch)


def _to_array(leaf: Any) -> Any:
    if not isinstance(leaf, np.ndarray) or leaf.dtype.kind in "OSUMm":
        return leaf
    # Copied, not borrowed: on a CPU, JAX would otherwise alias memory that the user may write to.
    return jax.device_put(np.array(leaf, dtype=jax.dtypes.canonicalize_dtype(leaf.dtype.newbyteorder("="))))
