"""BlockShuffleSampler: what stays together, what mixes, at every size of block, window and data set."""

from __future__ import annotations

import tracemalloc
from itertools import product

import numpy as np
import pytest

from arrayfeed.samplers import BlockShuffleSampler
from support.uniformity import chi_square


@pytest.mark.parametrize("block_size", [1, 2, 3, 7, 16, 100])
@pytest.mark.parametrize("window_blocks", [1, 2, 3, 50])
def test_each_window_holds_whole_blocks_and_nothing_else(block_size: int, window_blocks: int) -> None:
    """For all lengths up to 60: an epoch is cut into windows, each the records of its own blocks, each block in one
    window.

    The short last block can come to stand in any window, and the last window can be short: the plain version below
    knows only that a window is some blocks.
    """
    for length in range(60):
        sampler = BlockShuffleSampler(length, block_size=block_size, window_blocks=window_blocks, num_epochs=3, seed=length)
        for epoch in range(3):
            order = sampler.block(epoch * length, (epoch + 1) * length).tolist()
            assert sorted(order) == list(range(length))
            windows, place = [], 0
            while place < length:
                blocks: set[int] = set()
                end = place
                while end < length and len(blocks | {order[end] // block_size}) <= window_blocks:
                    blocks.add(order[end] // block_size)
                    end += 1
                records = [r for b in blocks for r in range(b * block_size, min((b + 1) * block_size, length))]
                assert sorted(order[place:end]) == sorted(records)
                windows.append(blocks)
                place = end
            assert all(len(blocks) == window_blocks for blocks in windows[:-1])


def test_blocks_and_windows_are_new_every_epoch() -> None:
    """The order of blocks changes, and so does the order within a window of the same blocks."""
    sampler = BlockShuffleSampler(1000, block_size=10, window_blocks=5, num_epochs=50)
    epochs = sampler.block(0, 50_000).reshape(50, 1000)
    firsts = {tuple(dict.fromkeys((epoch // 10).tolist())) for epoch in epochs}
    single = BlockShuffleSampler(10, block_size=10, window_blocks=1, num_epochs=50).block(0, 500).reshape(50, 10)

    assert len(firsts) == 50
    assert len({tuple(order) for order in single}) == 50


def test_every_record_comes_equally_often_at_every_place() -> None:
    """Both levels together are uniform in where a record comes: 4,000 epochs of two windows of two blocks of three."""
    sampler = BlockShuffleSampler(12, block_size=3, window_blocks=2, num_epochs=4000)
    orders = sampler.block(0, 12 * 4000).reshape(-1, 12)
    counts = np.stack([np.bincount(orders[:, place], minlength=12) for place in range(12)])

    assert abs(chi_square(counts, 4000 / 12, 121)) < 5


@pytest.mark.parametrize(("block_size", "window_blocks"), list(product([64, 1000], [4, 200])))
def test_memory_is_that_of_a_window(block_size: int, window_blocks: int) -> None:
    """A trillion records: any block of positions in well under 5 MB, and its records lie in few runs."""
    sampler = BlockShuffleSampler(10**12 + 7, block_size=block_size, window_blocks=window_blocks)
    sampler.block(0, 10)
    tracemalloc.start()
    indices = sampler.block(10**11, 10**11 + 4096)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    runs = len(np.unique(indices // block_size))
    windows = 4096 // (block_size * window_blocks) + 2

    assert peak < 5_000_000
    assert runs <= windows * window_blocks


def test_sizes_are_checked() -> None:
    """Blocks and windows have at least one member; larger than the data set is allowed."""
    for block_size, window_blocks in [(0, 1), (1, 0)]:
        with pytest.raises(ValueError, match=f"block_size is {block_size} and window_blocks {window_blocks}"):
            BlockShuffleSampler(10, block_size=block_size, window_blocks=window_blocks)
    with pytest.raises(ValueError, match=r"together they must not exceed 2\*\*63"):
        BlockShuffleSampler(2**63 - 2, block_size=3, window_blocks=1)
    assert sorted(BlockShuffleSampler(10, block_size=100, window_blocks=100)) == list(range(10))
