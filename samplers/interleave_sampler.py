"""Several shards read side by side, a few records of each in turn: for disks that only like to read on."""

import operator
from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from .arrays import digest, integer_array
from .base import OrderedSampler, check_count
from .protocol import Indices
from .shard import ShardOptions
from .shuffle import Shuffle
from .stripe import Tail

__all__ = ["InterleaveSampler"]

# What the arguments mean, besides the shuffles they name; the next number for a change of any index at any place.
_VERSION: Final = 1


class InterleaveSampler(OrderedSampler):
    """Every record once an epoch: `block` records of each of `cycle` shards in turn, shard after shard.

    The order of ``tf.data.Dataset.interleave(cycle_length=cycle, block_length=block)`` over one file a shard: a shard that
    ends gives its turn to the next slot, and its slot opens the next shard when its turn comes again. Three shards of three
    records, two at a time:

        block 1    0 3 1 4 2 5 6 7 8
        block 2    0 1 3 4 2 5 6 7 8

    It mixes little (see `BlockShuffleSampler` for more); it keeps every shard a sequential read.

    Memory: for each stretch of turns in which no shard ends, 32 bytes and 8 for each open shard; there are a few of them a
    shard where shards are alike, and `cycle` where they are not.

    Args:
      lengths: Records of each shard, one after the other in the source; integers, at least 0.
      cycle: Shards that are read side by side, at least 1.
      block: Records that a shard gives in a turn, at least 1.
      shuffle: Whether each epoch opens the shards in a new random order; else in theirs.
      seed, num_epochs, shard, tail, batch_size: As for `IndexSampler`.
    """

    def __init__(
        self,
        lengths: npt.ArrayLike,
        *,
        cycle: int,
        block: int = 1,
        shuffle: bool = False,
        seed: int = 0,
        num_epochs: int | None = 1,
        shard: ShardOptions | None = None,
        tail: Tail = "uneven",
        batch_size: int | None = None,
    ) -> None:
        self._lengths = integer_array("lengths", lengths)
        if len(self._lengths) and self._lengths.min() < 0:
            raise ValueError(f"lengths holds {self._lengths.min()}; a shard has at least 0 records")
        if check_count("cycle", cycle) < 1 or check_count("block", block) < 1:
            raise ValueError(f"cycle is {cycle} and block is {block}; both must be at least 1")
        self._cycle, self._block = operator.index(cycle), operator.index(block)
        self._starts = np.cumsum(self._lengths) - self._lengths
        super().__init__(int(self._lengths.sum()), num_epochs=num_epochs, shard=shard, tail=tail, batch_size=batch_size)
        self._shards = Shuffle(len(self._lengths), seed, "shards") if shuffle else None
        self._latest: tuple[int, _Stretches] | None = None

    @property
    def num_records(self) -> int:
        """Records of all shards; every index is below it."""
        return self.global_length

    def identity(self) -> dict[str, object]:
        """Return, ready for JSON, all that decides the global order."""
        order = {} if self._shards is None else self._shards.identity()
        return {
            "kind": "interleave",
            "version": _VERSION,
            "num_records": self.num_records,
            "lengths": digest(self._lengths),
            "cycle": self._cycle,
            "block": self._block,
            "shuffle": self._shards is not None,
            **order,
        }

    def _order(self, epoch: int, places: Indices) -> Indices:
        latest = self._latest
        if latest is None or latest[0] != epoch:
            order = np.arange(len(self._lengths))
            if self._shards is not None:
                order = self._shards.of(epoch).forward(order)
            self._latest = latest = (epoch, _Stretches(self._starts[order], self._lengths[order], self._cycle, self._block))
        return latest[1].look_up(places)

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_latest": None}


class _Stretches:
    """An epoch cut where a shard ends: in each stretch the same slots take equal turns."""

    def __init__(self, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], cycle: int, block: int) -> None:
        self._block = block
        stretches = list(_simulate(starts.tolist(), lengths.tolist(), cycle, block))
        counts = [rounds * len(slots) * block if rounds else left for rounds, left, slots in stretches]
        self._ends = np.cumsum(counts, dtype=np.int64)
        self._widths = np.array([len(slots) for _, _, slots in stretches], np.int64)
        self._slot_starts = np.cumsum(self._widths) - self._widths
        self._slots = np.array([index for _, _, slots in stretches for index in slots], np.int64)
        self._counts = np.array(counts, np.int64)

    def look_up(self, places: Indices) -> Indices:
        """Return the indices at places of the epoch."""
        which = np.searchsorted(self._ends, places, side="right")
        offset = places - (self._ends - self._counts)[which]
        turn = offset // self._block
        width = self._widths[which]
        rounds = turn // width
        within = offset - turn * self._block
        indices: Indices = self._slots[self._slot_starts[which] + turn - rounds * width] + rounds * self._block + within
        return indices


def _simulate(starts: list[int], lengths: list[int], cycle: int, block: int) -> Iterator[tuple[int, int, list[int]]]:
    """Yield stretches: full rounds of the open slots' next indices; or 0, and how many a single slot gives in its turn."""
    waiting = iter([(start, start + length) for start, length in zip(starts, lengths, strict=True)])
    slots: list[tuple[int, int] | None] = [None] * min(cycle, max(1, len(starts)))
    ended, turn, idle = False, 0, 0
    while idle <= len(slots):
        if (turn == 0 and None not in slots) or ended:
            opened = [slot for slot in slots if slot is not None]
            rounds = min(((end - index) // block for index, end in opened), default=0)
            if turn == 0 and rounds:
                yield rounds, 0, [index for index, _ in opened]
                slots = [slot and (slot[0] + rounds * block, slot[1]) for slot in slots]
        slot = slots[turn]
        if slot is None and not ended:
            slots[turn] = slot = next(waiting, None)
            ended = slot is None
        if slot is not None:
            index, end = slot
            count = min(block, end - index)
            if count:
                yield 0, count, [index]
            # A shard's end is only noticed when one more record is asked for.
            slots[turn] = (index + count, end) if count == block else None
        idle = 0 if slot is not None else idle + 1
        turn = (turn + 1) % len(slots)
