"""Where one shard ends and the next begins, and that a finished shard is what it should be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arrayfeed.datasource.arrayrecord.source import ArrayRecordDataSource
from arrayfeed.datasource.errors import DataError
from arrayfeed.datasource.writing import shards
from arrayfeed.datasource.writing.codec import SAMPLE_BYTES, SAMPLE_RECORDS
from arrayfeed.datasource.writing.shards import GrowingSplit, WrittenShard


def write_split(
    directory: Path,
    records: list[bytes],
    *,
    shard_bytes: int | None = None,
    shard_records: int | None = None,
    codec: str = "none",
) -> GrowingSplit:
    split = GrowingSplit(str(directory), "train", shard_bytes=shard_bytes, shard_records=shard_records, codec=codec)
    for record in records:
        split.extend([record])
    split.finish()
    return split


def read_shards(split: GrowingSplit) -> list[list[bytes]]:
    return [list(ArrayRecordDataSource(shard.path)) for shard in split.shards]


@pytest.mark.parametrize(
    ("count", "lengths"),
    [(1000, [256, 256, 256, 232]), (256, [256]), (257, [256, 1]), (1, [1]), (0, [])],
)
def test_a_shard_is_full_with_so_many_records(tmp_path: Path, count: int, lengths: list[int]) -> None:
    """Exactly so many; no second shard is begun that stays empty; a split of nothing has no shard."""
    split = write_split(tmp_path, [b"%d" % k for k in range(count)], shard_records=256)

    assert [shard.num_records for shard in split.shards] == lengths
    assert split.num_records == count
    assert [record for shard in read_shards(split) for record in shard] == [b"%d" % k for k in range(count)]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(0, 40), max_size=30),
    shard_bytes=st.none() | st.integers(1, 60),
    shard_records=st.none() | st.integers(1, 6),
)
def test_shards_hold_as_much_as_both_limits_allow(
    tmp_path: Path, sizes: list[int], shard_bytes: int | None, shard_records: int | None
) -> None:
    """As cut by hand: a record goes into the last shard if neither limit is passed by it, or the shard is empty."""
    records = [bytes([k]) * size for k, size in enumerate(sizes)]
    expected: list[list[bytes]] = [[]]
    for record in records:
        last = expected[-1]
        too_many = shard_records is not None and len(last) >= shard_records
        too_large = shard_bytes is not None and sum(map(len, last)) + len(record) > shard_bytes
        if last and (too_many or too_large):
            expected.append([])
        expected[-1].append(record)

    split = write_split(tmp_path, records, shard_bytes=shard_bytes, shard_records=shard_records)

    expected = [shard for shard in expected if shard]
    assert read_shards(split) == expected
    assert [shard.num_bytes for shard in split.shards] == [sum(map(len, shard)) for shard in expected]


@pytest.mark.parametrize("count", [0, 1, SAMPLE_RECORDS - 1, SAMPLE_RECORDS, SAMPLE_RECORDS + 1, 3 * SAMPLE_RECORDS])
def test_auto_keeps_every_record_in_order_and_every_limit(tmp_path: Path, count: int) -> None:
    """The first records, which wait until a codec is chosen, are cut into shards like all others."""
    records = [b"%05d" % k * 100 for k in range(count)]

    split = write_split(tmp_path, records, shard_records=100, codec="auto")

    assert [record for shard in read_shards(split) for record in shard] == records
    assert [shard.num_records for shard in split.shards] == [100] * (count // 100) + [count % 100] * bool(count % 100) or [0]
    assert split.num_records == count
    assert split.codec == ("zstd" if count else "none")


def test_auto_decides_before_it_holds_much(tmp_path: Path, rng: np.random.Generator) -> None:
    """Large records are not gathered by the hundred."""
    split = GrowingSplit(str(tmp_path), "train", shard_bytes=None, shard_records=None, codec="auto")
    record = rng.bytes(SAMPLE_BYTES // 3 + 1)

    codecs = []
    for _ in range(4):
        split.extend([record])
        codecs.append(split.codec)
    split.finish()

    assert codecs == ["auto", "auto", "none", "none"]


def test_a_missing_directory_is_an_error_that_names_the_shard(tmp_path: Path) -> None:
    """array_record's writer says nothing when it cannot open its file."""
    split = GrowingSplit(str(tmp_path / "gone"), "train", shard_bytes=None, shard_records=None, codec="none")

    with pytest.raises(DataError, match=r"gone/train-00000.partial: .* could not be opened for writing.*No such file"):
        split.extend([b"x"])


@pytest.mark.parametrize("lie", [(9, 30), (10, 31)])
def test_a_shard_that_does_not_hold_what_was_written_is_an_error(tmp_path: Path, lie: tuple[int, int]) -> None:
    """Records and bytes are counted again in the file's own index."""
    (shard,) = write_split(tmp_path, [b"abc"] * 10).shards

    with pytest.raises(DataError, match=rf"{lie[0]} records of {lie[1]} bytes were written, the file holds 10 of 30"):
        shards._check_written(WrittenShard(shard.path, *lie, shard.checksums, shard.entry))


def test_an_abandoned_split_can_be_abandoned_again(tmp_path: Path) -> None:
    """Whatever state it is in, with waiting records or an open shard or neither."""
    for codec in ("auto", "none"):
        split = GrowingSplit(str(tmp_path), "train", shard_bytes=None, shard_records=None, codec=codec)
        split.extend([b"x"])
        split.abandon()
        split.abandon()
