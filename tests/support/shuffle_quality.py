"""How well an order mixes a data set that is sorted by class: what a batch of it looks like."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

__all__ = ["BATCH", "CLASSES", "GROUP", "MODELS", "RECORDS", "mixing"]

RECORDS, CLASSES, BATCH, GROUP = 60_000, 10, 128, 256

_I64 = npt.NDArray[np.int64]


def mixing(order: _I64) -> tuple[float, float]:
    """Return two averages over an order's whole batches: the largest class's share, and how many groups are in it.

    Of 60,000 records sorted by class a uniform shuffle puts 0.14 of the largest of ten classes into a batch of 128, and
    records of 99 different groups of 256 neighbours.
    """
    batches = order[: len(order) // BATCH * BATCH].reshape(-1, BATCH)
    classes = batches * CLASSES // RECORDS
    largest = max_count(classes, CLASSES) / BATCH
    groups = [len(np.unique(batch)) for batch in batches // GROUP]
    return float(largest.mean()), float(np.mean(groups))


def max_count(rows: _I64, kinds: int) -> _I64:
    """Return how often the most frequent value of each row occurs."""
    counts: _I64 = np.stack([np.count_nonzero(rows == kind, axis=1) for kind in range(kinds)])
    largest: _I64 = counts.max(axis=0)
    return largest


def through_buffer(stream: Iterator[int], size: int, rng: np.random.Generator) -> _I64:
    """Return a stream's records as a shuffle buffer gives them: fill it, then swap a random one for the next that comes."""
    buffer, order = list[int](), list[int]()
    for record in stream:
        if len(buffer) < size:
            buffer.append(record)
            continue
        chosen = int(rng.integers(size))
        order.append(buffer[chosen])
        buffer[chosen] = record
    return np.array(order + [buffer[place] for place in rng.permutation(len(buffer))])


def interleaved(shards: list[_I64], cycle: int) -> Iterator[int]:
    """Yield one record of each of `cycle` open shards in turn; the next shard takes the place of one that ends."""
    waiting = [iter(shard.tolist()) for shard in shards]
    opened, waiting = waiting[:cycle], waiting[cycle:]
    while opened:
        for place, shard in enumerate(list(opened)):
            record = next(shard, None)
            if record is not None:
                yield record
            else:
                opened[place : place + 1] = [waiting.pop(0)] if waiting else []
                break


def _shards(count: int, rng: np.random.Generator | None = None) -> list[_I64]:
    shards = np.array_split(np.arange(RECORDS), count)
    return shards if rng is None else [shards[place] for place in rng.permutation(count)]


# Plain models of how pipelines that read in sequence shuffle.
MODELS: dict[str, Callable[[np.random.Generator], _I64]] = {
    "stored order": lambda rng: np.arange(RECORDS),
    "235 shards in random order": lambda rng: np.concatenate(_shards(235, rng)),
    "a buffer of 100": lambda rng: through_buffer(iter(range(RECORDS)), 100, rng),
    "a buffer of 1,024": lambda rng: through_buffer(iter(range(RECORDS)), 1024, rng),
    "16 shards, 4 interleaved, a buffer of 1,024": lambda rng: through_buffer(interleaved(_shards(16, rng), 4), 1024, rng),
    "shuffled inside each of 4 ranks' quarters": lambda rng: np.stack(
        [rng.permutation(part) for part in np.split(np.arange(RECORDS), 4)]
    )[0],
}
