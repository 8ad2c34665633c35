"""Sources for tests of the loader, and the plain loop that every loader is compared with."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import arrayfeed
from arrayfeed.samplers import Sampler

__all__ = ["Listed", "numbers_in", "plain_batches", "write_small"]


class Listed:
    """A list-like source: ``{"x": index, "y": three float32}``, and a note of every read.

    Args:
      length: Examples.
      delay_s: Seconds that each read takes.
    """

    def __init__(self, length: int, *, delay_s: float = 0.0) -> None:
        self._length = length
        self._delay_s = delay_s
        self.reads: list[int] = []
        self.threads: set[str] = set()

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not 0 <= index < self._length:
            raise IndexError(f"{index} of {self._length}")
        self.reads.append(index)
        self.threads.add(threading.current_thread().name)
        if self._delay_s:
            time.sleep(self._delay_s)
        return {"x": index, "y": np.full(3, index / 2, np.float32)}


FEATURES: dict[str, Any] = {
    "box": {"name": arrayfeed.features.Scalar(np.int32), "xy": arrayfeed.features.Tensor(shape=(2,), dtype=np.float32)},
    "flag": arrayfeed.features.Scalar(np.bool_),
    "hash": arrayfeed.features.Scalar(np.uint64),
    "image": arrayfeed.features.Tensor(shape=(17, 19), dtype=np.uint8, encoding="bytes"),
    "label": arrayfeed.features.ClassLabel(num_classes=1000),
}


def write_small(path: Path, count: int, *, shard_records: int = 100) -> arrayfeed.ExampleDataSource:
    """Write ``count`` examples whose every value differs, labels of one and two varint bytes among them; return them opened."""
    with arrayfeed.DatasetWriter(path, FEATURES, name="small", codec="none", shard_records=shard_records) as writer:
        for number in range(count):
            example = {
                "box": {"name": -number, "xy": np.array([number, -number], np.float32)},
                "flag": number % 3 == 0,
                "hash": (number * 0x9E3779B97F4A7C15) % 2**64,
                "image": np.random.default_rng(number).integers(0, 256, (17, 19), dtype=np.uint8),
                "label": number * 7 % 1000,
            }
            writer.write(example)
    return arrayfeed.open(path, split="train")


def plain_batches(
    source: Any,
    sampler: Sampler,
    batch_size: int,
    *,
    epoch: int = 0,
    drop_last: bool = False,
    transforms: Sequence[Callable[[Any], Any]] = (),
    dtypes: dict[str, Any] | None = None,
) -> Iterator[Any]:
    """Yield an epoch's batches the plain way: one example after the other, in the sampler's order, then ``np.stack``.

    Args:
      dtypes: What the columns are declared as, nested like an example; as they are stacked where it is None.
    """
    sampler = copy.copy(sampler)
    sampler.set_epoch(epoch)
    indices = [sampler[position] for position in range(sampler.epoch_length)]
    for start in range(0, len(indices), batch_size):
        chosen = indices[start : start + batch_size]
        if drop_last and len(chosen) < batch_size:
            return
        examples = [source[index] for index in chosen]
        for transform in transforms:
            examples = [transform(example) for example in examples]
        yield _stack(examples, dtypes)


def _stack(examples: list[Any], dtypes: Any) -> Any:
    if isinstance(examples[0], dict):
        return {key: _stack([e[key] for e in examples], dtypes[key] if dtypes else None) for key in examples[0]}
    return np.stack([np.asarray(example, dtypes) for example in examples])


def numbers_in(batches: Sequence[Any], key: str = "x") -> list[int]:
    """Return one column of some batches, end to end."""
    columns: list[npt.NDArray[Any]] = [batch[key] for batch in batches]
    return [int(number) for column in columns for number in column]
