"""Ranges that block headers interrupt, against the same bytes with the headers taken out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrayfeed.datasource import ArrayRecordDataSource
from arrayfeed.datasource.arrayrecord.blocked import BlockedExtents
from arrayfeed.datasource.arrayrecord.blocks import BLOCK_BYTES, USABLE_BYTES, to_physical
from arrayfeed.datasource.memory import Extents
from support.shards import write_shard

BLOCKS = 5
#: The bytes as they are in the file, whose headers are all 0xFF, and without the headers, of which each is 0 to 250.
LOGICAL = np.random.default_rng(0).integers(0, 251, BLOCKS * USABLE_BYTES, dtype=np.uint8)
PHYSICAL = np.full(BLOCKS * BLOCK_BYTES, 0xFF, np.uint8)
PHYSICAL.reshape(BLOCKS, BLOCK_BYTES)[:, BLOCK_BYTES - USABLE_BYTES :] = LOGICAL.reshape(BLOCKS, USABLE_BYTES)
TOTAL = LOGICAL.size

#: Places on both sides of every boundary, and anywhere.
places = st.one_of(
    st.integers(0, TOTAL),
    st.builds(lambda block, by: min(TOTAL, max(0, block * USABLE_BYTES + by)), st.integers(0, BLOCKS), st.integers(-3, 3)),
)
ranges = st.lists(st.tuples(places, places).map(lambda both: (min(both), max(both) - min(both))), min_size=1, max_size=6)


def blocked(chosen: list[tuple[int, int]]) -> tuple[BlockedExtents, list[bytes]]:
    starts, sizes = np.array(chosen, np.int64).T
    firsts = USABLE_BYTES - starts % USABLE_BYTES
    extents = BlockedExtents.of(PHYSICAL.ctypes.data, to_physical(starts), sizes, firsts, (PHYSICAL,))
    return extents, [LOGICAL[start : start + size].tobytes() for start, size in chosen]


@given(ranges)
def test_headers_are_left_out(chosen: list[tuple[int, int]]) -> None:
    """Of ranges of any length that begin and end anywhere; of selections, and copied to one buffer."""
    extents, expected = blocked(chosen)

    assert extents.tolist() == expected
    assert extents[::-1].tolist() == expected[::-1]
    assert extents[np.arange(len(expected)) % 2 == 0].tolist() == expected[::2]
    assert extents.compact().tolist() == expected
    whole = extents.whole()
    assert type(whole) is Extents and whole.tolist() == expected
    buffer, at, lengths = extents.as_buffer()
    assert [buffer[a : a + n].tobytes() for a, n in zip(at, lengths, strict=True)] == expected
    assert extents.span <= PHYSICAL.size or not extents.smallest  # an empty one may stand behind the last byte
    assert extents.smallest == min(map(len, expected))


@given(ranges, st.data())
def test_parts_and_fields_are_slices_of_the_ranges(chosen: list[tuple[int, int]], data: Any) -> None:
    """Parts of parts, and arrays of any dtype out of these; what reaches out of a range is refused."""
    extents, expected = blocked(chosen)
    shortest = min(map(len, expected))
    start = data.draw(st.one_of(st.integers(0, shortest), st.just(min(shortest, USABLE_BYTES))))
    width = data.draw(st.integers(0, shortest - start))
    inner = extents.inner(start, np.full(len(expected), width))
    assert inner.tolist() == [each[start : start + width] for each in expected]
    starts = np.array([data.draw(st.integers(0, len(each))) for each in expected])
    tails = extents.inner(starts, extents.sizes - starts)
    assert tails.tolist() == [each[at:] for each, at in zip(expected, starts.tolist(), strict=True)]

    dtype = data.draw(st.sampled_from(["u1", "<i2", "<u8", "V3"]))
    count = width // np.dtype(dtype).itemsize
    stored = [np.frombuffer(each, dtype, count, start) for each in expected]
    found = extents.field(start, dtype, count)
    assert found.shape == (len(expected), count) and found.dtype == np.dtype(dtype)
    assert found.tobytes() == b"".join(each.tobytes() for each in stored)
    assert inner.field(0, dtype, count).tobytes() == found.tobytes()
    for at, size in ((-1, 1), (shortest, 1), (0, shortest + 1)):
        with pytest.raises(IndexError):
            extents.field(at, "u1", size)


@given(ranges, st.lists(st.binary(max_size=300), max_size=5), st.randoms(use_true_random=False))
def test_ranges_with_headers_and_without_are_merged(chosen: list[tuple[int, int]], whole: list[bytes], random: Any) -> None:
    """Each in its place, whatever comes first, parts of none among them."""
    extents, expected = blocked(chosen)
    records = [*expected, *whole]
    order = list(range(len(records)))
    random.shuffle(order)
    parts: list[tuple[Any, Extents]] = [
        (np.array(order[: len(expected)], np.int64), extents),
        (np.array(order[len(expected) :], np.int64), Extents.joined(whole)),
        (np.empty(0, np.int64), Extents.joined([])),
    ]
    random.shuffle(parts)

    merged = Extents.merged(len(records), parts)
    found = merged.tolist()
    assert [found[place] for place in order] == records
    assert merged.inner(0, merged.sizes).tolist() == found


def test_differing_words_are_found_behind_headers() -> None:
    """Which of some ranges hold what is expected, where the words lie on both sides of a header."""
    starts = [USABLE_BYTES - 4, 2 * USABLE_BYTES - 4, 100]
    extents, expected = blocked([(start, 70_000) for start in starts])
    words = np.frombuffer(expected[1][:16], "<u8")
    mask = np.full(2, np.iinfo("u8").max, np.uint64)

    differing = extents.differing(0, words, mask)
    assert differing is not None and differing.tolist() == [True, False, True]


def test_long_records_of_files_without_an_index_are_read_again_where_they_are(tmp_path: Path, rng: np.random.Generator) -> None:
    """In any batch, of one length and of others, those in one block among them; as they were read first."""
    lengths = [int(size) for size in rng.choice([33_000, 70_000, 140_000], 40)]
    records = [rng.integers(0, 256, size, np.uint8).tobytes() for size in lengths]
    paths = [write_shard(tmp_path / f"{k}", records[20 * k : 20 * k + 20]) for k in range(2)]
    source = ArrayRecordDataSource(paths)
    for _ in range(3):
        for _ in range(10):
            chosen = rng.integers(0, 40, 12)
            assert source[chosen] == [records[index] for index in chosen]
            assert source.gather(chosen).tolist() == [records[index] for index in chosen]
        assert source[range(40)] == records
    assert type(source.gather_in_place(np.arange(40))) is BlockedExtents
    source.close()
