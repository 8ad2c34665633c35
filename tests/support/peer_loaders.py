"""The same images through PyTorch's and Grain's loaders. Imported where these are wanted only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from support.jpegs import augment, one_thread

__all__ = ["by_grain", "by_torch"]


class Lazy:
    """Shards as a map-style data set, each read by array_record's own reader, which every worker opens for itself."""

    def __init__(self, paths: list[str]) -> None:
        self._paths = paths
        self._source: Any = None
        self._length = len(self._open())
        self._source = None  # the reader has threads, which a forked worker would miss

    def _open(self) -> Any:
        if self._source is None:
            from array_record.python.array_record_data_source import ArrayRecordDataSource

            self._source = ArrayRecordDataSource(self._paths)
        return self._source

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Any:
        return augment(self._open()[index])


class Augmented:
    """A source of JPEGs as a map-style data set."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> Any:
        return augment(self._source[index])


def by_torch(dataset: Any, batch_size: int, *, context: str = "fork") -> Iterator[Any]:
    """Yield batches for ever, from two workers that stay."""
    import torch.utils.data

    loader = torch.utils.data.DataLoader(
        dataset,
        batch_size=batch_size,
        shuffle=True,
        num_workers=2,
        drop_last=True,
        persistent_workers=True,
        worker_init_fn=one_thread,
        multiprocessing_context=context,
    )
    while True:
        yield from loader


def by_grain(paths: list[str], batch_size: int) -> Iterator[Any]:
    """Yield batches for ever, from two workers."""
    import absl.flags
    import grain.python as grain

    absl.flags.FLAGS(["arrayfeed"])

    class Augment(grain.MapTransform):  # type: ignore[misc]
        def map(self, element: bytes) -> Any:
            return augment(element)

    source = grain.ArrayRecordDataSource(paths)
    sampler = grain.IndexSampler(len(source), shard_options=grain.NoSharding(), shuffle=True, num_epochs=None, seed=0)
    operations = [Augment(), grain.Batch(batch_size, drop_remainder=True)]
    yield from grain.DataLoader(data_source=source, sampler=sampler, operations=operations, worker_count=2)
