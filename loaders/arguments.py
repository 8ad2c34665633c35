"""What a loader was given, looked at before anything begins."""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..datasource.source import Source
from ..samplers import BatchSampler, BucketBatchSampler, Sampler
from .fetch import Fetcher
from .transforms.kinds import BatchMap, Filter, FlatMap, RandomMap, Transform
from .transforms.pack import Pack

__all__ = ["check_batches", "check_count", "check_sampler", "check_source", "check_steps", "listed", "unfold"]

_log = logging.getLogger("arrayfeed")


def check_count(name: str, value: int, *, at_least: int) -> int:
    """Return a whole number as an ``int``, or raise for what is none or too small."""
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; it must be a whole number") from None
    if count < at_least or isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}; it must be a whole number of at least {at_least}")
    return count


def check_source(source: object) -> None:
    """Raise for what is no source."""
    if not hasattr(source, "__len__") or not hasattr(source, "__getitem__"):
        raise TypeError(f"source needs __len__ and __getitem__; {type(source).__name__} has not both")
    if isinstance(source, Mapping):
        raise TypeError("source is a dict: of splits, perhaps; give the loader one of them")


def check_sampler(sampler: object, source: Source[Any], shuffle: bool, num_epochs: int | None) -> None:
    """Raise for a sampler that would fail later, or silently mean something else."""
    if not isinstance(sampler, Sampler):
        raise TypeError(f"sampler must be one of arrayfeed's samplers, got {type(sampler).__name__}")
    if shuffle:
        raise ValueError("shuffle and sampler exclude each other: give the sampler shuffle=True instead")
    if sampler.num_records != len(source):
        raise ValueError(f"the sampler is made for {sampler.num_records} records, the source has {len(source)}")
    if sampler.num_epochs not in (1, num_epochs):
        raise ValueError(
            f"the sampler has num_epochs={sampler.num_epochs}, the loader num_epochs={num_epochs}; give it to the loader"
        )


def listed(transforms: Transform | Sequence[Transform]) -> Sequence[Transform]:
    """Return one or several transforms as a sequence."""
    if callable(transforms) or isinstance(transforms, (RandomMap, Filter, FlatMap, BatchMap, Pack)):
        return (transforms,)
    return tuple(transforms)


def unfold(
    batch_sampler: BatchSampler, sampler: Sampler | None, batch_size: int, drop_last: bool, shuffle: bool
) -> tuple[Sampler, int, bool]:
    """Return the sampler, batch size and ``drop_last`` of a batch sampler.

    Raises:
      ValueError: One of these was given beside it.
    """
    if not isinstance(batch_sampler, BatchSampler):
        raise TypeError(f"batch_sampler must be one of arrayfeed's, got {type(batch_sampler).__name__}")
    if sampler is not None or batch_size != 1 or drop_last or shuffle:
        raise ValueError("batch_sampler decides itself: give no sampler, batch_size, shuffle or drop_last beside it")
    return batch_sampler.sampler, batch_sampler.batch_size or 1, batch_sampler.drop_last


def check_batches(
    batch_sampler: BatchSampler | None,
    fetcher: Fetcher,
    collate_fn: Callable[[list[Any]], Any] | None,
    mask: str | None,
    in_order: bool,
) -> None:
    """Raise where batches are to be made in two ways at once."""
    if not in_order and not fetcher.is_even:
        raise ValueError(
            "in_order=False delivers batches as they are made; with Filter, FlatMap, pack or on_error='skip' each depends on "
            "those before it. Filter the source, or use on_error='substitute'"
        )
    if not in_order and isinstance(batch_sampler, BucketBatchSampler):
        raise ValueError("in_order=False counts in batches of one size, which a BucketBatchSampler's have not")
    if isinstance(batch_sampler, BucketBatchSampler) and not fetcher.is_even:
        raise ValueError(
            "batches of like length cannot be kept full with Filter, FlatMap, pack or on_error='skip'; use "
            "on_error='substitute', or filter the source"
        )
    if mask is not None and not fetcher.is_even:
        raise ValueError(
            f"mask={mask!r} tells of each record whether its example counts; with Filter, FlatMap, pack or on_error='skip' a "
            "record need not have one"
        )
    if fetcher.chain.packing is not None and collate_fn is not None:
        raise ValueError("pack makes the batches itself: give no collate_fn, but a BatchMap")


def check_steps(sampler: Sampler, batch_size: int, drop_last: bool) -> None:
    """Log a warning, on rank 0, where ranks make unequally many steps: training that takes them together would hang."""
    ranks, length = sampler.shard.count, sampler.global_length
    if sampler.shard.index or getattr(sampler, "tail", "uneven") != "uneven":
        return
    most, fewest = (length // ranks + bool(rank < length % ranks) for rank in (0, ranks - 1))
    steps = [size // batch_size if drop_last else -(-size // batch_size) for size in (most, fewest)]
    if steps[0] != steps[1]:
        _log.warning(
            "%d records, %d ranks and batches of %d: rank 0 makes %d steps an epoch and rank %d makes %d. Where ranks take "
            "each step together, as in DistributedDataParallel or over a JAX mesh, some would wait for ever: give the sampler "
            "tail='drop' and batch_size, or tail='pad' and the loader mask=",
            length,
            ranks,
            batch_size,
            steps[0],
            ranks - 1,
            steps[1],
        )
