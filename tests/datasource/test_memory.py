"""Byte ranges in memory against slices of ``bytes``, and every way to step outside them."""

from __future__ import annotations

import gc
import mmap
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrayfeed.datasource.memory import Extents

DATA = np.random.default_rng(0).integers(0, 256, 2000, dtype=np.uint8)

Ints = npt.NDArray[np.int64]


def ints(*values: int) -> Ints:
    return np.array(values, np.int64)


def parts_of(data: bytes) -> st.SearchStrategy[list[tuple[int, int]]]:
    """Ranges (start, size) of some bytes, in any order, overlapping, empty ones too."""
    start = st.integers(0, len(data))
    return st.lists(start.flatmap(lambda at: st.tuples(st.just(at), st.integers(0, min(len(data) - at, 300)))), max_size=20)


@given(parts_of(DATA.tobytes()))
def test_ranges_are_the_slices_they_name(ranges: list[tuple[int, int]]) -> None:
    """Of any sizes and order; joined copies of them too, and any selection of them."""
    starts, sizes = np.array(ranges, np.int64).reshape(-1, 2).T
    expected = [DATA[start : start + size].tobytes() for start, size in ranges]

    for extents in (Extents.within(DATA, starts, sizes), Extents.joined(expected)):
        assert len(extents) == len(expected)
        assert extents.tolist() == expected
        assert extents[::-1].tolist() == expected[::-1]
        assert extents[np.arange(len(expected)) % 2 == 0].tolist() == expected[::2]
        assert extents.compact().tolist() == expected
        buffer, at, lengths = extents.as_buffer()
        assert [buffer[a : a + n].tobytes() for a, n in zip(at, lengths, strict=True)] == expected


@given(st.lists(st.binary(min_size=3, max_size=60), max_size=30), st.randoms(use_true_random=False))
def test_parts_from_many_buffers_come_back_in_their_places(records: list[bytes], random: Any) -> None:
    """However the ranges are distributed over buffers, parts of none included; fields of all of them are read in one go."""
    places = list(range(len(records)))
    random.shuffle(places)
    cuts = sorted(random.choices(range(len(records) + 1), k=3))
    groups = [places[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(records)], strict=True)]
    merged = Extents.merged(
        len(records), [(np.array(group, np.int64), Extents.joined([records[k] for k in group])) for group in groups]
    )

    assert merged.tolist() == records
    assert merged.field(1, np.uint8, 2).tolist() == [list(record[1:3]) for record in records]


def test_fields_are_what_struct_would_unpack() -> None:
    """Numbers of any width at any, unaligned, place, as copies that can be written to."""
    extents = Extents.within(DATA, ints(3, 700, 3), ints(50, 40, 41))

    for dtype, count in (("<u2", 1), ("<u8", 3), ("<f4", 2), ("u1", 40), (np.dtype([("a", "u1"), ("b", "<u4")]), 1)):
        found = extents.field(0, dtype, count)
        assert found.shape == (3, count)
        assert found.tobytes() == b"".join(DATA[at : at + found.nbytes // 3].tobytes() for at in (3, 700, 3))
        assert found.flags.writeable
    assert extents[:0].field(0, "<u8", 3).shape == (0, 3)


def test_inner_ranges_count_from_the_outer_ones() -> None:
    """With one start for all, or one for each."""
    extents = Extents.within(DATA, ints(100, 200), ints(10, 20))

    assert extents.inner(2, ints(8, 1)).tolist() == [DATA[102:110].tobytes(), DATA[202:203].tobytes()]
    assert extents.inner(ints(10, 0), ints(0, 20)).tolist() == [b"", DATA[200:220].tobytes()]


@pytest.mark.parametrize("dtype", ["<u8", "u1"])
def test_differing_compares_masked_bits_and_no_others(dtype: str, rng: np.random.Generator) -> None:
    """Against the plain comparison, for masks of ones, zeros and anything between."""
    rows = np.repeat(rng.integers(0, 256, (1, 24), dtype=np.uint8), 50, axis=0)
    rows[rng.integers(0, 50, 30), rng.integers(0, 24, 30)] ^= 1 << rng.integers(0, 8, 30).astype(np.uint8)
    extents = Extents.joined([row.tobytes() for row in rows])
    for mask in (np.full(16, 255, np.uint8), np.zeros(16, np.uint8), rng.integers(0, 256, 16, dtype=np.uint8)):
        found = extents.differing(8, rows[0, 8:].view(dtype), mask.view(dtype))
        plain = ((rows[:, 8:] ^ rows[0, 8:]) & mask).any(axis=1)

        assert (found is None) == (not plain.any())
        assert found is None or found.tolist() == plain.tolist()


@pytest.mark.parametrize(
    ("starts", "sizes"),
    [
        (ints(-1), ints(5)),
        (ints(0), ints(-1)),
        (ints(0, 1996), ints(5, 5)),
        (ints(2000), ints(1)),
        (ints(2001), ints(0)),
        (ints(0), ints(2**62)),
        (ints(2**62), ints(1)),
        (ints(2**62), ints(2**62)),  # their sum is -2**63
        (ints(2**63 - 1), ints(2**63 - 1)),  # and of these -2
    ],
)
def test_ranges_that_reach_out_of_a_buffer_are_refused(starts: Ints, sizes: Ints) -> None:
    """Below, above, and where the sum of start and size wraps around."""
    with pytest.raises(IndexError, match="out of a buffer of 2000 bytes"):
        Extents.within(DATA, starts, sizes)


@pytest.mark.parametrize(
    ("starts", "sizes"),
    [
        (-1, ints(5, 5)),
        (0, ints(10, -1)),
        (1, ints(10, 10)),
        (ints(0, 11), ints(10, 10)),
        (ints(2**63 - 1, 0), ints(2, 2)),
        (ints(2**63 - 1, 0), ints(2**63 - 1, 2)),
    ],
)
def test_inner_ranges_that_reach_out_are_refused(starts: Ints | int, sizes: Ints) -> None:
    """Even where the next bytes belong to the same buffer."""
    with pytest.raises(IndexError, match="out of its range"):
        Extents.within(DATA, ints(100, 200), ints(10, 20)).inner(starts, sizes)


@pytest.mark.parametrize(("start", "count"), [(-1, 1), (3, 8), (10, 1), (0, 11), (2**63, 1), (0, 2**60)])
def test_fields_that_reach_out_of_the_shortest_range_are_refused(start: int, count: int) -> None:
    """The shortest of all that a selection was made from, so that cutting small batches needs no new bounds."""
    extents = Extents.within(DATA, ints(100, 200), ints(10, 20))
    with pytest.raises(IndexError, match="out of a range of 10"):
        extents.field(start, np.uint8, count)
    with pytest.raises(IndexError, match="out of a range of 10"):
        extents[1:].field(start, np.uint8, count)


def test_wide_fields_of_buffers_far_apart_are_read() -> None:
    """From the heap to the mappings it is 2**45 bytes and more; NumPy makes no view of so many wide elements."""
    near = np.full(200_000, 1, np.uint8)
    far = np.frombuffer(mmap.mmap(-1, 400_000), np.uint8)
    both = Extents.merged(
        2,
        [
            (ints(0), Extents.within(near, ints(5), ints(150_000))),
            (ints(1), Extents.within(far, ints(7), ints(150_000))),
        ],
    )
    # Where the two really lie is the system's choice; this is what they would be with 2**47 bytes between them.
    both = Extents(both.base, both.offsets, both.sizes, 1 << 47, both.smallest, both.owners)

    found = both.field(1, "<u4", 37_000)

    assert found.shape == (2, 37_000)
    assert (found[0] == 0x01010101).all() and not found[1].any()


def test_sizes_past_a_c_int_are_not_shortened() -> None:
    """``ctypes.string_at`` takes the lowest 32 bits: it would give nothing of 2**62 bytes, without a word."""
    with pytest.raises((MemoryError, OverflowError)):
        Extents(DATA.ctypes.data, ints(0), ints(2**62), 2**62, 2**62, (DATA,)).tolist()


@pytest.mark.soak
def test_copies_past_two_gibibytes_are_whole() -> None:
    """Ranges of 2**31 and 2**32 + 5 bytes."""
    buffer = np.frombuffer(mmap.mmap(-1, 2**32 + 5), np.uint8)
    for size in (2**31, 2**32 + 5):
        (copy,) = Extents.within(buffer, ints(0), ints(size)).tolist()
        assert len(copy) == size


def test_memory_lives_as_long_as_anything_made_of_it() -> None:
    """Ranges, parts of them, merged ones and the buffers they give hold what they point to."""
    buffer = np.arange(256, dtype=np.uint8).copy()
    gone = weakref.ref(buffer)
    extents = Extents.merged(1, [(ints(0), Extents.within(buffer, ints(10), ints(100)).inner(5, ints(50)))])[0:1]
    view = extents.as_buffer()[0]
    start = int(extents.offsets[0])
    del buffer, extents
    gc.collect()

    assert gone() is not None
    assert view[start : start + 50].tolist() == list(range(15, 65))
    del view
    gc.collect()
    assert gone() is None
