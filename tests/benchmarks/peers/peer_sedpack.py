"""Sedpack: whole shards in a row, shuffled as shards, and within what is in hand.

Configurations after its tutorial and the docstrings of ``sedpack.io.dataset_iteration``
(https://google.github.io/sedpack/tutorials/mnist/, https://github.com/google/sedpack): LZ4 is what its Rust readers like best,
and the iterator that shuffles is the default. A batch is the user's to make, but for the Rust batched iterator.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from . import records

NAME = "Sedpack"
CONFIGS: dict[str, dict[str, Any]] = {
    "default": {"iterator": "as_numpy_iterator"},
    # A function of the user's, such as decoding, runs in the threads that read: the best it has for images.
    "concurrent": {"iterator": "as_numpy_iterator_concurrent", "file_parallelism": 2},
    "rust": {"iterator": "as_numpy_iterator_rust", "file_parallelism": 2},
    "rust batched": {"iterator": "as_numpy_iterator_rust_batched", "file_parallelism": 2},
    # The same class with its shuffle buffer, which the iterator above has no argument for.
    "rust batched, shuffle buffer": {"buffer": 10_000, "file_parallelism": 2},
}
WORKLOADS = set("abcef")
SKIPPED = {"d": "no packing: a record is what was written"}


def version() -> str:
    from importlib.metadata import version

    return version("sedpack")


def prepare(workload: str, data: Path, into: Path) -> None:
    from sedpack.io import Dataset, Metadata
    from sedpack.io.metadata import Attribute, DatasetStructure

    first = next(records.examples(workload, data))
    structure = DatasetStructure(
        saved_data_description=[_attribute(Attribute, name, value) for name, value in first.items()],
        compression="LZ4",
        shard_file_type="fb",
    )
    dataset = Dataset.create(path=into, metadata=Metadata(description=workload), dataset_structure=structure)
    with dataset.filler() as filler:
        for example in records.examples(workload, data):
            filler.write_example(values={name: _stored(value) for name, value in example.items()}, split="train")


def _attribute(attribute: Any, name: str, value: Any) -> Any:
    if isinstance(value, bytes):
        return attribute(name=name, dtype="bytes", shape=())
    stored = _stored(value)
    return attribute(name=name, dtype=str(stored.dtype), shape=stored.shape)


def _stored(value: Any) -> Any:
    """Return an attribute's value: text of fixed width as its bytes, a truth value as one; there are no types for them."""
    if isinstance(value, bytes):
        return value
    if value.dtype.kind == "S":
        return np.frombuffer(value.tobytes(), np.uint8)
    return value.astype(np.uint8) if value.dtype.kind == "b" else value


class Shards:
    """A dataset, of which every epoch makes a new iterator."""

    def __init__(self, path: Path, fields: dict[str, np.dtype[Any]], batch_size: int, options: dict[str, Any]) -> None:
        from sedpack.io import Dataset

        self._dataset = Dataset(path)
        self._fields = fields
        self._batch_size = batch_size
        self._options = dict(options)
        self._iterator = self._options.pop("iterator", None)

    def epoch(self, number: int) -> Iterator[dict[str, Any]]:
        options = {"split": "train", "repeat": False, **self._options}
        if self._iterator is None:
            batches = self._with_shuffle_buffer(options)
        elif self._iterator.endswith("batched"):
            batches = getattr(self._dataset, self._iterator)(batch_size=self._batch_size, **options)
        else:
            decode = getattr(self._dataset, self._iterator)(process_record=records.decode, **options)
            yield from map(self._typed, records.batched(decode, self._batch_size))
            return
        for batch in batches:
            yield self._typed(self._decoded(batch))

    def _with_shuffle_buffer(self, options: dict[str, Any]) -> Iterator[dict[str, Any]]:
        from sedpack.io.iteration import RustBatchedGenerator
        from sedpack.io.shard_info_iterator import CachedShardInfoIterator

        shards = CachedShardInfoIterator(
            dataset_path=self._dataset.path,
            dataset_info=self._dataset.dataset_info,
            split="train",
            repeat=False,
            shards=None,
            custom_metadata_type_limit=None,
            shard_filter=None,
            shuffle=1_000,
        )
        with RustBatchedGenerator(
            dataset_path=self._dataset.path,
            dataset_structure=self._dataset.dataset_structure,
            shard_iterator=shards,
            batch_size=self._batch_size,
            file_parallelism=options["file_parallelism"],
            shuffle_buffer_size=options["buffer"],
        ) as generator:
            yield from generator()

    def _decoded(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Decode the images of a batch, one by one."""
        if "image" in self._fields and "image" in batch:
            return batch
        columns = {}
        for name, values in batch.items():
            field, function = records.DECODED.get(name, (name, None))
            columns[field] = values if function is None else np.stack([function(bytes(value)) for value in values])
        return columns

    def _typed(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return texts and truth values as what they were."""
        for name, dtype in self._fields.items():
            if dtype.kind in "Sb":
                batch[name] = batch[name].view(dtype).reshape(len(batch[name]))
        return batch


def open(workload: str, data: Path, prepared: Path, config: str, *, batch_size: int, workers: int, seed: int) -> Shards:
    return Shards(prepared, records.fields(data), batch_size, CONFIGS[config])
