"""Records in two blocks, put together many at once as they are one by one."""

from __future__ import annotations

import numpy as np
import pytest

from arrayfeed.datasource.arrayrecord import crossings
from arrayfeed.datasource.arrayrecord.blocks import BLOCK_BYTES
from arrayfeed.datasource.arrayrecord.crossings import Crossings
from arrayfeed.datasource.memory import copy_bytes


@pytest.mark.parametrize("kept_bytes", [0, 20_000, 1 << 20])
@pytest.mark.parametrize("sizes", [[1], [2], [800], [4096], [5000], [200_000], [3, 800, 70_000]])
def test_many_are_put_together_as_one_by_one(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator, sizes: list[int], kept_bytes: int
) -> None:
    """Few and many, of one length and of several, some of them known; whether copies are kept or not."""
    monkeypatch.setattr(crossings, "_MAX_KEPT_BYTES", kept_bytes)
    array = rng.integers(0, 256, 60 * BLOCK_BYTES, np.uint8)
    array.flags.writeable = False
    lengths = rng.choice(sizes, 50)
    # One begins in each block, and runs past its end; the last blocks are for what the longest run into.
    places = np.arange(1, 51) * BLOCK_BYTES - np.minimum(rng.integers(1, 4000, 50), np.maximum(lengths - 1, 1))
    found = Crossings(array)
    for count in (1, 5, 50, 50, 3):
        chosen = rng.permutation(50)[:count]
        addresses = np.full(count + 7, 77)
        rows = np.sort(rng.permutation(count + 7)[:count])
        addresses[rows] = -places[chosen]
        owners = found.replace(addresses, rows, lambda chosen=chosen: lengths[chosen])  # type: ignore[misc]
        records = [
            copy_bytes(int(addresses[row]) + array.ctypes.data, int(lengths[k])) for row, k in zip(rows, chosen, strict=True)
        ]
        assert records == [found.join(int(places[k]), int(lengths[k])) for k in chosen]
        assert np.count_nonzero(addresses == 77) == 7
        assert owners or kept_bytes
