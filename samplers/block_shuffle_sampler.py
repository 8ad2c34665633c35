"""A shuffle that reads in runs: blocks in random order, records mixed within a window of blocks."""

import operator
from typing import Final

import numpy as np
import numpy.typing as npt

from .base import OrderedSampler, check_count
from .protocol import Indices
from .shard import ShardOptions
from .shuffle import Shuffle
from .stripe import Tail

__all__ = ["BlockShuffleSampler"]

# What the arguments mean, besides the shuffles they name; the next number for a change of any index at any place.
_VERSION: Final = 1


class BlockShuffleSampler(OrderedSampler):
    """Every record once an epoch, close to where it is stored: for disks, object stores and compressed groups of records.

    The data set is cut into blocks of consecutive records, the blocks are shuffled, and the records are shuffled again
    within windows of that many consecutive blocks. So each window reads `window_blocks` runs of `block_size` records, while
    a batch mixes records of all these runs. Twelve records, blocks of 2, windows of 3 blocks:

        blocks shuffled    (6 7)(0 1)(10 11) | (4 5)(8 9)(2 3)
        one epoch           10 7 0 11 6 1    |  3 8 5 2 4 9

    How well that mixes is up to the window. Of 60,000 records sorted by class (10 classes), in blocks of 256, a batch of 128
    has this share of its largest class, and records of so many of the 235 blocks:

        window_blocks    largest class    blocks in a batch
                    1             0.93                  1.3
                    4             0.39                  4.3
                   16             0.23                 16.0
                   64             0.17                 52.9
                  235             0.14                 98.9

    The last row is a uniform shuffle.

    Memory: 2 bytes a record of a window of at most 65,536, nothing for longer ones; of many short windows at a time 128 kB.

    Args:
      num_records: Records of the source, ``0 <= num_records < 2**63``.
      block_size: Consecutive records that stay in one window, at least 1; a multiple of what one read brings.
      window_blocks: Blocks in a window, at least 1.
      seed, num_epochs, shard, tail, batch_size: As for `IndexSampler`.
    """

    def __init__(
        self,
        num_records: int,
        *,
        block_size: int,
        window_blocks: int,
        seed: int = 0,
        num_epochs: int | None = 1,
        shard: ShardOptions | None = None,
        tail: Tail = "uneven",
        batch_size: int | None = None,
    ) -> None:
        check_count("num_records", num_records)
        if check_count("block_size", block_size) < 1 or check_count("window_blocks", window_blocks) < 1:
            raise ValueError(f"block_size is {block_size} and window_blocks {window_blocks}; both must be at least 1")
        if num_records + block_size > 1 << 63:
            raise ValueError(f"num_records is {num_records} and block_size {block_size}; together they must not exceed 2**63")
        super().__init__(operator.index(num_records), num_epochs=num_epochs, shard=shard, tail=tail, batch_size=batch_size)
        self._block = min(operator.index(block_size), max(1, self.num_records))
        self._window_blocks = operator.index(window_blocks)
        blocks = -(-self.num_records // self._block)
        self._window = min(self._window_blocks, max(1, blocks)) * self._block
        # How many records the data set's last block lacks. Wherever the shuffle puts that block, all after it moves up.
        self._missing = blocks * self._block - self.num_records
        self._seed = operator.index(seed)
        self._blocks = Shuffle(blocks, self._seed, "blocks")
        self._latest: tuple[int, Shuffle, Shuffle, Shuffle] | None = None

    @property
    def num_records(self) -> int:
        """Records of the source; every index is below it."""
        return self._stripe.length

    def identity(self) -> dict[str, object]:
        """Return, ready for JSON, all that decides the global order."""
        return {
            "kind": "block_shuffle",
            "version": _VERSION,
            "num_records": self.num_records,
            "block_size": self._block,
            "window_blocks": self._window_blocks,
            **self._blocks.identity(),
        }

    def _order(self, epoch: int, places: Indices) -> Indices:
        # All of this is about the one short block. `slot` is a block's place in the shuffled order, and `seat` a
        # record's place in an order in which the short block has empty seats at its end.
        short_slot = self._short_slot(epoch)
        short_window = short_slot * self._block // self._window
        first = short_window * self._window  # places before it and in it are seats too, but for the window's own mixing
        last = min(first + self._window, self._seats) - self._missing
        inside = (places >= first) & (places < last)
        seats = np.where(places >= last, places + self._missing, places)

        windows, offsets = self._divide(seats, self._window)
        mixed = np.empty_like(offsets)
        tail_window, tail_length = (self._seats - 1) // self._window, (self._seats - 1) % self._window + 1
        full, tail, short = self._mixers(epoch, tail_length, last - first)
        in_tail = (windows == tail_window) & ~inside
        rest = ~(inside | in_tail)
        for chosen, mixer in ((rest, full), (in_tail, tail), (inside, short)):
            if chosen.any():
                mixed[chosen] = mixer.across(windows[chosen], offsets[chosen])
        # Within the short block's window, an offset behind that block skips its empty seats.
        gap = short_slot * self._block + self._block - self._missing - first
        mixed += np.where(inside & (mixed >= gap), self._missing, 0)

        slots, within = self._divide(windows * self._window + mixed, self._block)
        return self._blocks.of(epoch).forward(slots) * self._block + within

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_latest": None}

    @property
    def _seats(self) -> int:
        return self.num_records + self._missing

    def _short_slot(self, epoch: int) -> int:
        last_block = np.array([self._blocks.length - 1], np.int64)
        return int(self._blocks.of(epoch).inverse(last_block)[0])

    def _mixers(self, epoch: int, tail_length: int, short_length: int) -> tuple[Shuffle, Shuffle, Shuffle]:
        """Return the shuffles of an epoch's windows: full ones, the last, and the one with the short block."""
        latest = self._latest
        if latest is None or latest[0] != epoch:
            purpose = f"windows.{epoch}"
            lengths = (self._window, tail_length, short_length)
            full, tail, short = (Shuffle(length, self._seed, purpose) for length in lengths)
            self._latest = latest = (epoch, full, tail, short)
        return latest[1:]

    @staticmethod
    def _divide(numbers: npt.NDArray[np.int64], size: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        quotients = numbers // size
        return quotients, numbers - quotients * size
