"""SeqTools 0.9: ``load_buffers``, which calls a function in workers for ever and hands out what they put in shared buffers.

Configurations after its example of fast minibatch sampling (https://seqtools-doc.readthedocs.io/en/stable/examples.html): data
in memory-mapped ``.npy`` files, ``load_buffers(sampler, max_cached=10, nworkers=2)``; and, without workers, ``gather`` and
``batch``. The example draws with replacement. For epochs of every record once, the workers share a counter of batches here, and
the function says which batch it has made, as the buffers come in any order. Later versions have no ``load_buffers``.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from . import records

NAME = "SeqTools 0.9"
CONFIGS: dict[str, dict[str, Any]] = {"default": {}, "load_buffers": {"nworkers": 2, "max_cached": 10}}
WORKLOADS = set("abcef")
SKIPPED = {"d": "no packing: an item is what it is"}


def version() -> str:
    from importlib.metadata import version

    return version("seqtools")


def prepare(workload: str, data: Path, into: Path) -> None:
    records.write_arrays(workload, data, into)


class Items:
    """The records as a sequence, by memory-mapped arrays; images are decoded when they are asked for."""

    def __init__(self, workload: str, data: Path, prepared: Path) -> None:
        self.arrays, name, self._encoded, self._offsets = records.map_arrays(workload, data, prepared)
        self._decode = None if name is None else records.DECODED[name][1]

    def __len__(self) -> int:
        return len(self.arrays["label"])

    def __getitem__(self, index: int) -> dict[str, Any]:
        example = {name: array[index] for name, array in self.arrays.items()}
        return example if self._decode is None else {**example, "image": self._image(index)}

    def rows(self, chosen: Any) -> dict[str, Any]:
        """Return many records as columns: what a user who knows NumPy draws a batch with."""
        columns = {name: array[chosen] for name, array in self.arrays.items()}
        return columns if self._decode is None else {**columns, "image": np.stack([self._image(each) for each in chosen])}

    def _image(self, index: int) -> Any:
        assert self._decode is not None
        return self._decode(self._encoded[self._offsets[index] : self._offsets[index + 1]])


class Batches:
    """Batches in this process: ``gather`` in a new order each epoch, then ``batch``."""

    def __init__(self, items: Items, batch_size: int, seed: int) -> None:
        self._items = items
        self._batch_size = batch_size
        self._seed = seed

    def epoch(self, number: int) -> Iterator[dict[str, Any]]:
        import seqtools

        order = _order(len(self._items), self._seed, number)
        yield from seqtools.batch(seqtools.gather(self._items, order), self._batch_size, collate_fn=records.stack)


class Draw:
    """A function without arguments that returns the next batch of all: those of an epoch, then those of the next one.

    Workers share the counter of batches. The first call is ``load_buffers``' own, to see the shapes; it takes no batch away.
    """

    def __init__(self, items: Items, batch_size: int, seed: int) -> None:
        self._items = items
        self.batch_size = batch_size
        self.batches = -(-len(items) // batch_size)
        self._seed = seed
        self._epoch, self._order = -1, np.empty(0, np.int64)
        self._counter = multiprocessing.Value("q", 0)
        self._sampled = False
        self.names = sorted(self._items.rows(np.arange(1)))

    def __call__(self) -> tuple[Any, ...]:
        """Return the batch's number and size, and its columns in the order of their names, padded to a full batch."""
        number = 0
        if self._sampled:
            with self._counter.get_lock():
                number = self._counter.value
                self._counter.value += 1
        self._sampled = True
        epoch, place = divmod(number, self.batches)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, _order(len(self._items), self._seed, epoch)
        columns = self._items.rows(self._order[place * self.batch_size : (place + 1) * self.batch_size])
        size = len(columns["label"])
        if size < self.batch_size:
            columns = {name: np.resize(column, (self.batch_size, *column.shape[1:])) for name, column in columns.items()}
        return np.array([number, size]), *(columns[name] for name in self.names)


class Buffers:
    """Batches that workers put in shared buffers. One is the caller's until the next is asked for."""

    def __init__(self, draw: Draw, options: dict[str, Any]) -> None:
        import seqtools
        from seqtools import buffering

        # It keeps the stack for its errors, and fails where a line of that has no source, as under ``python -m``.
        buffering.format_stack = lambda *skipped: "unknown"
        self._draw = draw
        self._buffers = seqtools.load_buffers(draw, **options)
        self._early: dict[int, dict[str, Any]] = {}

    def epoch(self, number: int) -> Iterator[dict[str, Any]]:
        start = number * self._draw.batches
        left = set(range(start, start + self._draw.batches))
        early = {position: self._early.pop(position) for position in left & self._early.keys()}
        left -= early.keys()
        yield from early.values()
        while left:
            (position, size), *arrays = next(self._buffers)
            batch = {name: array[:size] for name, array in zip(self._draw.names, arrays, strict=True)}
            if position in left:
                left.remove(position)
                yield batch
            elif position >= start:  # a worker was ahead of another; the buffer will be used again
                self._early[int(position)] = {name: array.copy() for name, array in batch.items()}


def _order(count: int, seed: int, epoch: int) -> Any:
    return np.random.default_rng([seed, epoch]).permutation(count)


def open(
    workload: str, data: Path, prepared: Path, config: str, *, batch_size: int, workers: int, seed: int
) -> Batches | Buffers:
    items = Items(workload, data, prepared)
    options = CONFIGS[config]
    return Buffers(Draw(items, batch_size, seed), options) if options else Batches(items, batch_size, seed)
