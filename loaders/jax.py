"""Batches as JAX arrays. The only file of the library that imports jax."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ..datasource.columns import Columns, map_leaves

__all__ = ["JaxConverter", "to_jax"]


def to_jax(batch: Columns, sharding: jax.sharding.Sharding | None = None) -> Any:
    """Return a batch with a JAX array for every array; text and other objects stay NumPy.

    As everywhere in JAX, 64-bit integers and floats become 32-bit ones unless ``jax_enable_x64`` is set.

    Args:
      batch: This process's part of the batch, arrays of shape ``[batch_size, ...]``.
      sharding: How the batch of all processes together, ``[processes * batch_size, ...]``, lies on the devices: this process's
        part goes to its own. None is the default device.

    Raises:
      ValueError: The batch does not divide by the devices.
    """
    devices = [jax.local_devices()[0]] if sharding is None else sharding.device_set
    # On a CPU, JAX would alias memory that somebody may yet write to; elsewhere it keeps the array until it is copied.
    borrows = any(device.platform == "cpu" for device in devices)

    def put(leaf: Any) -> Any:
        if not isinstance(leaf, np.ndarray) or leaf.dtype.kind in "OSUMm":
            return leaf
        dtype = jax.dtypes.canonicalize_dtype(leaf.dtype.newbyteorder("="))
        array = np.array(leaf, dtype) if borrows else np.asarray(leaf, dtype)
        if sharding is None:
            return jax.device_put(array)
        try:
            return jax.make_array_from_process_local_data(sharding, array)
        except ValueError as error:
            error.add_note(
                f"an array of shape {array.shape} was to be put on {len(sharding.device_set)} devices by {sharding}; a short "
                "last batch is left out by drop_last=True, or filled up by a sampler with tail='pad' and batch_size"
            )
            raise

    return map_leaves(put, batch)


class JaxConverter:
    """Starts copies to the devices, which JAX makes in the background; a ``Converter``."""

    def __init__(self, sharding: jax.sharding.Sharding | None, ahead: int) -> None:
        self._sharding = sharding
        self.ahead = ahead if sharding is not None or jax.default_backend() != "cpu" else 0

    def start(self, batch: Columns) -> Any:
        return to_jax(batch, self._sharding)

    def finish(self, started: Any) -> Any:
        return started
