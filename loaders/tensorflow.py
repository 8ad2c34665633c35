"""A loader as a ``tf.data.Dataset``. The only file of the library that imports tensorflow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from ..datasource.columns import map_leaves
from .loader import DataLoader
from .single import make_batch
from .supervised import Keys, Supervised

__all__ = ["as_dataset"]


def as_dataset(
    loader: DataLoader,
    *,
    x: Keys | None = None,
    y: Keys | None = None,
    sample_weight: Keys | None = None,
    output_signature: Any = None,
) -> tf.data.Dataset:
    """Return a data set whose elements are a loader's batches, for ``model.fit`` or any other use of ``tf.data``.

    Each iteration over it is a pass of the loader: the next one is shuffled anew. One iteration at a time. It is not to be
    shuffled, batched or repeated again; it knows its cardinality. A ``state_dict`` of the loader counts what TensorFlow has
    taken: with ``prefetch(n)`` behind it, up to ``n`` batches more than training has seen.

    Args:
      loader: With ``output="numpy"``.
      x, y, sample_weight: Which fields of the batches are what, as for ``as_keras``.
      output_signature: Nested ``tf.TensorSpec`` like a batch; by default as the first batch is, with a free batch axis unless
        all batches are of one size. Needed where other axes differ between batches.

    Raises:
      ValueError: The loader's output is not NumPy.
      TypeError: A field is no array that TensorFlow has a dtype for; says which.
    """
    if loader._converter is not None:
        raise ValueError("as_dataset takes a loader with output='numpy'; TensorFlow makes the tensors")
    fields = Supervised(x, y, sample_weight)
    if output_signature is None:
        first = fields.pick(map_leaves(_as_array, make_batch(loader, loader.state_dict()["epoch"], 0)))
        output_signature = tf.nest.map_structure(lambda leaf: _spec(leaf, loader.drop_last), first)

    def batches() -> Iterator[Any]:
        for batch in loader:
            yield fields.pick(map_leaves(_as_array, batch))

    dataset = tf.data.Dataset.from_generator(batches, output_signature=output_signature)
    return dataset if loader.num_epochs is None else dataset.apply(tf.data.experimental.assert_cardinality(len(loader)))


def _as_array(leaf: Any) -> Any:
    """Return text as TensorFlow takes it: bytes in an array of objects; other leaves as they are."""
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind == "U":
        return np.char.encode(leaf, "utf-8").astype(object)
    return leaf


def _spec(leaf: Any, fixed: bool) -> tf.TensorSpec:
    array = np.asarray(leaf)
    dtype = tf.string if array.dtype.kind in "OS" else tf.as_dtype(array.dtype)
    return tf.TensorSpec(array.shape if fixed else (None, *array.shape[1:]), dtype)
