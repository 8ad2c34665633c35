"""Every record of every kind of file comes back as it was written, however it is read, the first time and later."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arrayfeed.datasource.arrayrecord import ArrayRecordDataSource
from arrayfeed.datasource.arrayrecord.blocks import USABLE_BYTES as USABLE
from arrayfeed.datasource.arrayrecord.file import open_file
from arrayfeed.datasource.arrayrecord.index import read_index
from arrayfeed.datasource.errors import CorruptShardError, ShardNotFoundError
from arrayfeed.datasource.shards import Shard
from support.shards import CODECS, write_shard

BLOCK = 65536

# All that is special about a length: varints grow at powers of 128, chunks around blocks are cut.
SIZES = [
    *(0, 0, 1, 2, 126, 127, 128, 129, 16_383, 16_384, 2_097_151, 2_097_152, 5_000_000, 0),
    *(BLOCK + d for d in range(-42, 3)),
    *(2 * BLOCK + d for d in range(-42, 3, 5)),
    *(3 * BLOCK + d for d in range(-40, 3, 6)),
]

ARRAY_RECORD = """
import hashlib, json, sys
from array_record.python.array_record_module import ArrayRecordReader
for path in sys.argv[1:]:
    reader = ArrayRecordReader(path)
    records = reader.read_all()
    print(json.dumps([hashlib.sha1(record).hexdigest() for record in records]))
"""


def make_records(sizes: list[int], seed: int = 0) -> list[bytes]:
    """Records that begin with noise and repeat themselves, so that codecs have something to do; no two alike."""
    rng = np.random.default_rng(seed)
    return [(rng.bytes(min(size, 1000)) * (size // 1000 + 1))[:size] for size in sizes]


RECORDS = make_records(np.random.default_rng(1).permutation(SIZES).tolist())


def read_all_ways(source: ArrayRecordDataSource, rng: np.random.Generator) -> Iterator[tuple[str, Any, list[bytes]]]:
    """Yield a name, which records were asked for, and what came."""
    count = len(source)
    order = rng.permutation(count)
    yield "one by one", range(count), [source[k] for k in range(count)]
    yield "one by one, later", range(count), [source[k] for k in range(count)]
    yield "a batch", order, source.__getitems__(order.tolist())
    yield "a batch with duplicates", [*order[:20], *order[:20]], source[[*order[:20], *order[:20]]]
    yield "small batches", order, [r for k in range(0, count, 7) for r in source[order[k : k + 7]]]
    yield "iteration", range(count), list(source)
    yield "a slice", range(count - 1, 0, -3), list(source[:0:-3])
    yield "columns", order, source.read_batch(order).tolist()
    yield "gathered", order, source.gather(order).tolist()


def assert_equal(found: list[bytes], expected: list[bytes], what: str) -> None:
    # Not pytest's own comparison, which would print megabytes.
    assert len(found) == len(expected), what
    wrong = [k for k, (a, b) in enumerate(zip(found, expected, strict=True)) if a != b or type(a) is not bytes]
    assert not wrong, f"{what}: records {wrong[:10]} differ"


@pytest.mark.parametrize("group_size", [1, 2, 7, 100, 65536])
@pytest.mark.parametrize("codec", CODECS)
def test_every_record_is_read_whatever_its_size_codec_and_group(
    tmp_path: Path, rng: np.random.Generator, codec: str, group_size: int
) -> None:
    """0 bytes to 5 MB and all lengths around the first block; one by one and in batches, the first time and later."""
    path = write_shard(tmp_path / "a", RECORDS, codec=codec, group_size=group_size)
    with ArrayRecordDataSource(path) as source:
        assert len(source) == len(RECORDS)
        for what, asked, found in read_all_ways(source, rng):
            assert_equal(found, [RECORDS[k] for k in asked], what)
    order = rng.permutation(len(RECORDS))
    for io in ("mmap", "pread"):
        with ArrayRecordDataSource(path, io=io) as source:
            assert_equal(source[order], [RECORDS[k] for k in order], f"{io}, a batch first")
            assert_equal([source[k] for k in order], [RECORDS[k] for k in order], f"{io}, then one by one")


@pytest.mark.parametrize("group_size", [1, 3])
@pytest.mark.parametrize("codec", CODECS)
def test_a_block_may_end_at_any_byte_of_a_chunk(tmp_path: Path, rng: np.random.Generator, codec: str, group_size: int) -> None:
    """Header, sizes and values are cut at every place, by chunks that begin one byte later in their block than the last."""

    def make_pairs(filler: int, count: int) -> list[bytes]:
        """Two chunks by turns, one that fills a block and a small one; noise, so that equal sizes take equal space."""
        sizes = [filler // group_size] * (group_size - 1) + [filler - filler // group_size * (group_size - 1)]
        return [rng.bytes(size) for size in [*sizes, *[30 // group_size] * group_size] * count]

    def find_chunks(path: str) -> Any:
        return read_index(open_file(path, "pread").read, os.path.getsize(path), check_hash=False).starts

    probe = find_chunks(write_shard(tmp_path / "probe", make_pairs(65_000, 2), codec=codec, group_size=group_size))
    records = make_pairs(65_000 + USABLE + 1 - int(probe[2] - probe[0]), 240)
    records[0] = records[0][100:]  # so that the next chunks begin at the end of a block, not at the start
    path = write_shard(tmp_path / "all", records, codec=codec, group_size=group_size)
    chunks = find_chunks(path)
    assert set(-chunks[2:-1:2] % USABLE) >= set(range(50)), "of large chunks, the header and what follows it"
    assert set(-chunks[1::2] % USABLE) >= set(range(chunks[-1] - chunks[-2])), "of small ones, all"

    for io, check in (("mmap", "structure"), ("pread", "structure")):
        with ArrayRecordDataSource(path, io=io, check=check) as source:  # type: ignore[arg-type]
            for when in ("first", "later"):
                assert_equal([source[k] for k in range(len(records))], records, f"{io}, one by one, {when}")
        with ArrayRecordDataSource(path, io=io, check=check) as source:  # type: ignore[arg-type]
            for when in ("first", "later"):
                assert_equal(source[range(len(records))[::-1]], records[::-1], f"{io}, a batch, {when}")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("group_size", [1, 5])
def test_hashes_match_those_that_were_written(tmp_path: Path, rng: np.random.Generator, codec: str, group_size: int) -> None:
    """With ``check="hash"`` every record is read too: the checks themselves are right, for all lengths and codecs."""
    records = make_records([*range(70), 130, 800, 800, 800, 70_000, 0, 800, BLOCK * 2])
    path = write_shard(tmp_path / "a", records, codec=codec, group_size=group_size)
    for io in ("mmap", "pread"):
        with ArrayRecordDataSource(path, io=io, check="hash") as source:
            for what, asked, found in read_all_ways(source, rng):
                assert_equal(found, [records[k] for k in asked], f"{io}, {what}")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("group_size", "count"), [(1, 9), (4, 9), (1, 0), (4, 0)])
def test_chunks_padded_to_blocks_are_read(
    tmp_path: Path, rng: np.random.Generator, codec: str, group_size: int, count: int
) -> None:
    """Files written with ``pad_to_block_boundary``, and files of no records."""
    records = make_records([800, BLOCK - 40, 0, 200_000, 1, 800, 3, BLOCK, 800][:count])
    for options in ("pad_to_block_boundary:true", ""):
        path = write_shard(tmp_path / f"a{options}", records, codec=codec, group_size=group_size, options=options)
        for check in ("structure", "hash"):
            with ArrayRecordDataSource(path, check=check) as source:
                assert len(source) == count
                for what, asked, found in read_all_ways(source, rng):
                    assert_equal(found, [records[k] for k in asked], what)


@pytest.mark.parametrize("codec", CODECS)
def test_more_records_than_bytes_are_read(tmp_path: Path, codec: str) -> None:
    """Empty records take a byte of a sizes buffer each, and next to nothing once that is compressed."""
    path = write_shard(tmp_path / "a", [b""] * 300_000, codec=codec, group_size=100_000)
    with ArrayRecordDataSource(path, check="hash") as source:
        assert len(source) == 300_000
        assert source[299_999] == source[0] == b""
        assert source[::1000][:] and set(source[::1000]) == {b""}


record_sizes = st.one_of(
    st.integers(0, 200),
    st.integers(0, 20_000),
    st.builds(lambda blocks, d: blocks * BLOCK + d, st.integers(1, 3), st.integers(-50, 10)),
)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    sizes=st.lists(st.tuples(record_sizes, st.integers(1, 20)), max_size=12),
    codec=st.sampled_from(CODECS),
    group_size=st.sampled_from([1, 1, 2, 7, 100, 65536]),
    padded=st.booleans(),
    io=st.sampled_from(["mmap", "pread"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_mix_of_records_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[tuple[int, int]],
    codec: str,
    group_size: int,
    padded: bool,
    io: Any,
    seed: int,
) -> None:
    """Runs of equal and of unequal records, in files of any kind, read by turns one by one and in batches."""
    records = make_records([size for size, count in sizes for _ in range(count if size < 1000 else 1)], seed)
    options = "pad_to_block_boundary:true" if padded and len(records) < 30 else ""
    path = write_shard(tmp_path_factory.mktemp("mix") / "a", records, codec=codec, group_size=group_size, options=options)
    rng = np.random.default_rng(seed)
    with ArrayRecordDataSource(path, io=io) as source:
        assert len(source) == len(records)
        for _ in range(10 if records else 0):
            asked = rng.integers(-len(records), len(records), rng.integers(1, 40)).tolist()
            if rng.random() < 0.5:
                assert_equal(source[asked], [records[k] for k in asked], "a batch")
            else:
                assert_equal([source[k] for k in asked], [records[k] for k in asked], "one by one")
        for what, indices, found in read_all_ways(source, rng):
            assert_equal(found, [records[k] for k in indices], what)


def test_array_record_reads_the_same_from_the_same_files(tmp_path: Path) -> None:
    """The files of the tests above are what the format's own reader takes them for: it gives these very records."""
    paths = [
        write_shard(tmp_path / f"{number}", RECORDS, codec=codec, group_size=group_size, options=options)
        for number, (codec, group_size, options) in enumerate(
            [
                *((codec, group_size, "") for codec in CODECS for group_size in (1, 7, 65536)),
                ("zstd", 1, "pad_to_block_boundary:true"),
            ]
        )
    ]
    # In a process of its own: its reader starts threads, and this process may fork in other tests.
    run = subprocess.run([sys.executable, "-c", ARRAY_RECORD, *paths], check=True, capture_output=True, text=True, timeout=100)
    expected = [hashlib.sha1(record).hexdigest() for record in RECORDS]
    theirs = [json.loads(line) for line in run.stdout.splitlines()]

    assert theirs == [expected] * len(paths)
    for path in paths:
        assert [hashlib.sha1(record).hexdigest() for record in ArrayRecordDataSource(path)] == expected


# -- many files -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[bytes]]]:
    """A folder of shards of every kind, "s-00000-of-00008" to "s-00007-of-00008", and their records."""
    folder = tmp_path_factory.mktemp("shards")
    counts = (8, 4, 0, 5, 1, 30, 0, 7)
    contents = [make_records([40 * number + k for k in range(count)], number) for number, count in enumerate(counts)]
    for number, records in enumerate(contents):
        codec, group_size = CODECS[number % 4], (1, 3)[number // 4]
        write_shard(folder / f"s-{number:05d}-of-00008", records, codec=codec, group_size=group_size)
    return folder, contents


@pytest.mark.parametrize("io", ["mmap", "pread"])
@pytest.mark.parametrize(
    ("names", "parts"),
    [
        ("s-*", [(k, None, None) for k in range(8)]),
        ("s@8", [(k, None, None) for k in range(8)]),
        ("s-00005-of-00008[3:20]", [(5, 3, 20)]),
        ("s-00005-of-00008[4:4]", [(5, 4, 4)]),
        (["s-00003*", "s-0000[01]*", "s-00005-of-00008[7:30]"], [*((k, None, None) for k in (3, 0, 1)), (5, 7, 30)]),
        (["s-00001-of-00008"] * 3, [(1, None, None)] * 3),
        (["s-00005-of-00008[0:9]", "s-00005-of-00008[5:12]"], [(5, 0, 9), (5, 5, 12)]),
        (["s-00002-of-00008", "s-00006-of-00008"], []),
    ],
)
def test_files_and_parts_of_files_are_one_sequence(
    shards: tuple[Path, list[list[bytes]]], rng: np.random.Generator, io: Any, names: Any, parts: list[tuple[int, Any, Any]]
) -> None:
    """In the order in which they were named, empty ones and the same one twice included."""
    folder, contents = shards
    paths = str(folder / names) if isinstance(names, str) else [folder / name for name in names]
    expected = [record for number, start, end in parts for record in contents[number][start:end]]
    with ArrayRecordDataSource(paths, io=io) as source:
        assert len(source) == len(expected)
        for what, asked, found in read_all_ways(source, rng):
            assert_equal(found, [expected[k] for k in asked], what)


def test_counts_from_a_manifest_that_cannot_be_are_refused() -> None:
    """Too few or too many of them, below 0, past what ``len`` can give."""
    for lengths in ([1], [1, 2, 3], [-1, 1], [2**62, 2**62]):
        with pytest.raises(ValueError, match=f"2 shards need as many lengths, 0 or more, got {len(lengths)}"):
            ArrayRecordDataSource.from_lengths([Shard("a"), Shard("b")], lengths)


def test_an_element_is_located_in_its_file(shards: tuple[Path, list[list[bytes]]]) -> None:
    """Path and record number, counted in the file, of every element."""
    folder, contents = shards
    source = ArrayRecordDataSource([folder / "s-00005-of-00008[7:9]", folder / "s-0000[0-4]*"])
    expected = [(5, 7), (5, 8)] + [(number, record) for number in range(5) for record in range(len(contents[number]))]

    assert [source.locate(k) for k in range(len(source))] == [
        (str(folder / f"s-{number:05d}-of-00008"), record) for number, record in expected
    ]


def test_counts_from_a_manifest_open_no_file(shards: tuple[Path, list[list[bytes]]], tmp_path: Path) -> None:
    """A source over files that are known is made at once; a file is opened when a record of it is read."""
    folder, contents = shards
    whole, missing, part = folder / "s-00000-of-00008", tmp_path / "missing", folder / "s-00005-of-00008"
    source = ArrayRecordDataSource.from_lengths([Shard(str(whole)), Shard(str(missing)), Shard(str(part), 2, 9)], [8, 3, 7])

    assert len(source) == 18
    assert [source[k] for k in (0, 7, 11, 17)] == [contents[0][0], contents[0][7], contents[5][2], contents[5][8]]
    with pytest.raises(ShardNotFoundError, match="missing: no such file"):
        source[8]


@pytest.mark.parametrize(("shard", "length"), [((0, None), 7), ((0, None), 9), ((3, 8), 6)])
def test_a_wrong_count_from_a_manifest_is_noticed(
    shards: tuple[Path, list[list[bytes]]], shard: tuple[int, Any], length: int
) -> None:
    """Whether the file has more or fewer records."""
    path = str(shards[0] / "s-00000-of-00008")
    source = ArrayRecordDataSource.from_lengths([Shard(path, *shard)], [length])
    for read in (lambda: source[0], lambda: source[[0]]):
        with pytest.raises(CorruptShardError, match=f"8 records, {shard[0] + length} were expected") as caught:
            read()
        assert caught.value.path == path
