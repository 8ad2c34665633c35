"""Files that are missing, cut short, something else, damaged or lie: each is an error that says what, where and what next."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import google_crc32c
import numpy as np
import numpy.typing as npt
import pytest
import zstandard

from arrayfeed.datasource.arrayrecord import ArrayRecordDataSource
from arrayfeed.datasource.arrayrecord.file import open_file
from arrayfeed.datasource.arrayrecord.highwayhash import hash_bytes
from arrayfeed.datasource.arrayrecord.index import read_index
from arrayfeed.datasource.arrayrecord.index_writing import write_record_index
from arrayfeed.datasource.arrayrecord.plain import place_plain
from arrayfeed.datasource.arrayrecord.record_index import RecordIndex
from arrayfeed.datasource.errors import CorruptShardError, DataError, ShardNotFoundError
from arrayfeed.datasource.indexing import describe_shard_file
from arrayfeed.datasource.shards import Shard as ShardOf
from arrayfeed.datasource.varint import encode_varint
from support.shards import CODECS, MAGIC, Chunk, Shard, forge, pack_about, pack_fields, pack_simple, write_shard

BLOCK = 65536

Io = Literal["mmap", "pread"]
Check = Literal["structure", "hash"]


def read_all(path: str, io: Io = "mmap", check: Check = "structure") -> list[bytes]:
    """Return all records, read in a batch and one by one."""
    with ArrayRecordDataSource(path, io=io, check=check) as source:
        records = source[range(len(source))]
        assert records == [source[k] for k in range(len(source))]
    return records


# -- what is no shard at all ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("io", ["mmap", "pread"])
def test_what_is_no_file_is_refused(tmp_path: Path, io: Io) -> None:
    """Nothing, a directory, a pipe that nobody writes to, a device, a name that leads in a circle."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "circle").symlink_to("circle")
    for path, error, message in [
        (tmp_path / "missing", ShardNotFoundError, "no such file"),
        (tmp_path / "missing" / "deeper", ShardNotFoundError, "no such file"),
        (tmp_path, DataError, r"this is a directory, not a shard; arrayfeed.open\(\) opens directories"),
        (tmp_path / "pipe", DataError, "this is a pipe, a socket or a device"),
        (Path("/dev/null"), DataError, "this is a pipe, a socket or a device"),
        (tmp_path / "circle", DataError, "cannot be opened: "),
        (tmp_path / ("n" * 300), DataError, "cannot be opened: File name too long"),
    ]:
        with pytest.raises(error, match=f"^{re.escape(str(path))}: {message}") as caught:
            ArrayRecordDataSource(path, io=io)
        assert caught.value.path == str(path)
        assert isinstance(caught.value, FileNotFoundError) == (error is ShardNotFoundError)


@pytest.mark.parametrize("check", ["structure", "hash"])
@pytest.mark.parametrize("io", ["mmap", "pread"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty, not even an ArrayRecord file of no records is"),
        (b"\x89PNG\r\n\x1a\n" + bytes(300), "308 bytes are no ArrayRecord file"),
        (b"once upon a time\n" * 7710, "131070 bytes are no ArrayRecord file"),
        (b"once upon a time" * 8192, "the last 65536 bytes are no ArrayRecord postscript"),
        (bytes(BLOCK), "65536 bytes are no ArrayRecord file"),
        (bytes(2 * BLOCK), "the last 65536 bytes are no ArrayRecord postscript"),
        (b"\xff" * (3 * BLOCK), "the last 65536 bytes are no ArrayRecord postscript"),
        (np.random.default_rng(0).bytes(4 * BLOCK), "the last 65536 bytes are no ArrayRecord postscript"),
    ],
)
def test_a_foreign_file_is_refused(tmp_path: Path, io: Io, check: Check, content: bytes, message: str) -> None:
    """Empty files, images, text, zeros, noise: of the wrong size, and of the right one."""
    path = tmp_path / "foreign"
    path.write_bytes(content)
    with pytest.raises(CorruptShardError, match=f"^{re.escape(str(path))}, byte .*{message}.*again") as caught:
        ArrayRecordDataSource(path, io=io, check=check)
    assert caught.value.path == str(path)
    assert caught.value.offset in (len(content), len(content) - BLOCK)


@pytest.mark.parametrize("codec", CODECS)
def test_a_transposed_file_is_refused_with_the_way_out(tmp_path: Path, codec: str) -> None:
    """riegeli's other layout, which is written on request only."""
    path = write_shard(tmp_path / "t", [b"abc"] * 10, codec=codec, group_size=5, options="transpose:true")
    source = ArrayRecordDataSource(path)
    for read in (lambda: source[7], lambda: source[[7]]):
        with pytest.raises(CorruptShardError, match=r"transposed chunk .*; array-record's own reader reads it") as caught:
            read()
        assert (caught.value.path, caught.value.record) == (path, 7)
        assert caught.value.offset is not None


# -- files cut short --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", ["structure", "hash"])
@pytest.mark.parametrize("codec", ["uncompressed", "zstd"])
def test_a_file_cut_short_anywhere_is_refused(tmp_path: Path, rng: np.random.Generator, codec: str, check: Check) -> None:
    """At every block's boundary and beside it, and at a sample of all other bytes; also if zeros fill it up again."""
    path = tmp_path / "whole"
    write_shard(path, [rng.bytes(size) for size in (0, 5, 800, 70_000, 3, 20_000, 100_000)], codec=codec)
    whole = path.read_bytes()
    edges = [*range(0, len(whole), BLOCK), *range(24, len(whole), BLOCK), 64, 104]
    cuts = {edge + d for edge in edges for d in range(-2, 3)} | set(rng.integers(0, len(whole), 150).tolist())
    # Of the last block, only its first bytes are used: cut behind them and filled up again the file is whole.
    used = len(whole.rstrip(b"\0"))
    for io in ("mmap", "pread"):
        for cut in sorted(cut for cut in cuts if 0 <= cut < len(whole)):
            path.write_bytes(whole[:cut])
            with pytest.raises(CorruptShardError, match=r"copy it again|write it again") as caught:
                ArrayRecordDataSource(path, io=io, check=check)
            assert caught.value.offset is not None and 0 <= caught.value.offset <= cut
            if cut < used and io == "mmap":
                os.truncate(path, len(whole))
                with pytest.raises(CorruptShardError, match=r"copy it again|Copy the file again"):
                    read_all(str(path), check="hash")


# -- fields that are damaged, or lie with hashes that match -----------------------------------------------------------


def compressed(codec: bytes, sizes: bytes, values: bytes, count: int, decoded_size: int, **lies: Any) -> Chunk:
    """Return a chunk with these buffers, each a varint and a frame."""
    return Chunk(codec + encode_varint(len(sizes)) + sizes + values, count, decoded_size, **lies)


def zstd(data: bytes, stated: int | None = None) -> bytes:
    return encode_varint(len(data) if stated is None else stated) + zstandard.compress(data)


SINGLES = [pack_simple([record]) for record in (b"first", b"second", b"third")]
GROUP = pack_simple([b"one", b"two", b"three"])


def change(**fields: Any) -> Shard:
    """Three chunks of one record, of which the second is changed; the footer tells the truth about what it should be."""
    entries = [(None, 5, 1), (None, 6, 1), (None, 5, 1)]
    return Shard([SINGLES[0], replace(SINGLES[1], **fields), SINGLES[2]], entries=entries)


def group(data: bytes, count: int = 3, decoded_size: int = 11) -> Shard:
    """A chunk of three records, with such data, after one with other records."""
    return Shard([GROUP, Chunk(data, count, decoded_size)])


CHUNK_LIES: dict[str, tuple[Shard, str]] = {
    "no data": (change(data_size=0), "the chunk claims 0 bytes of data"),
    "one byte of data": (change(data_size=1), "the chunk claims 1 bytes of data"),
    "a byte less": (
        change(data_size=8, data_hash=hash_bytes(b"\0\x01\x06secon")),
        "the record: it is said to have 5 bytes where 6 are expected",
    ),
    "a byte more": (change(data_size=10), "claims 10 bytes of data, 9 are there"),
    "2**63 bytes": (change(data_size=2**63), f"claims {2**63} bytes of data"),
    "all bytes": (change(data_size=2**64 - 1), f"claims {2**64 - 1} bytes of data"),
    "-40 bytes": (change(data_size=2**64 - 40), f"claims {2**64 - 40} bytes of data"),
    "no records": (change(num_records=0), "the chunk holds 0 records of 6 bytes together, the index says 1 of 6"),
    "two records": (change(num_records=2), "holds 2 records of 6 bytes together, the index says 1 of 6"),
    "2**50 records": (change(num_records=2**50), f"holds {2**50} records"),
    "a longer record": (change(decoded_size=7), "holds 1 records of 7 bytes together, the index says 1 of 6"),
    "2**60 bytes of record": (change(decoded_size=2**60), f"of {2**60} bytes together"),
    "a transposed chunk": (change(kind=b"t"), "a transposed chunk stands where"),
    "a signature": (change(kind=b"s"), "a file signature chunk stands where"),
    "metadata": (change(kind=b"m"), "a metadata chunk stands where"),
    "padding": (change(kind=b"p"), "a padding chunk stands where"),
    "an unknown kind": (change(kind=b"\0"), r"a unknown \(0x00\) chunk stands where"),
    "an unknown codec": (change(data=b"x\x01\x06second"), "unknown compression 0x78 .known: none, zstd, brotli, snappy."),
    "sizes past the data": (change(data=b"\0\x7f\x06second"), "a sizes buffer of 127 bytes is claimed, 7 are left"),
    "sizes of 2**63 bytes": (change(data=b"\0" + encode_varint(2**63)), f"a sizes buffer of {2**63} bytes is claimed, 0 "),
    "sizes without end": (change(data=b"\0" + b"\x80" * 8), "length of the sizes buffer: no varint"),
    "sizes past 64 bits": (change(data=b"\0" + b"\xff" * 9 + b"\x02"), "length of the sizes buffer: no varint"),
    "values too short": (change(data=b"\0\x02\x06\x00econd"), "where 6"),
    "no frame": (change(data=b"z\x00"), "the record: no varint"),
    "a frame of 2**60 bytes": (change(data=b"z\x00" + encode_varint(2**60) + b"abcdef"), f"said to have {2**60} bytes where 6"),
    "a frame that is none": (change(data=b"z\x00\x06abcdef"), "the record: "),
    "brotli that is none": (change(data=b"b\x00\x06abcdef"), "the record: brotli"),
    "snappy that is none": (change(data=b"s\x00\x06abcdef"), "the record: snappy"),
    "a frame of another size": (change(data=b"z\x00" + zstd(b"five!", 6)), "a zstd frame of 5 bytes stands where 6"),
    "a frame cut short": (change(data=b"z\x00" + zstd(b"second")[:-3]), "the record: "),
}
GROUP_LIES: dict[str, tuple[Shard, str]] = {
    "fewer sizes": (group(b"\0\x02\x05\x06first second"[:15], decoded_size=11), "2 sizes stand for 3 records|where 3 to 30"),
    "more sizes": (group(b"\0\x04\x03\x03\x05\x00onetwothree"), "4 sizes stand for 3 records"),
    "sizes of another sum": (group(b"\0\x03\x03\x03\x06onetwothree"), "or do not sum to 11 bytes"),
    "sizes that wrap around": (
        group(b"\0\x15" + encode_varint(2**64 - 1) + encode_varint(2**64 - 1) + b"\x0d" + b"onetwothree"),
        "or do not sum to 11 bytes",
    ),
    "a size past 64 bits": (group(b"\0\x0c\x03\x03" + b"\xff" * 9 + b"\x7f" + b"onetwothree"), "does not fit 64 bits"),
    "a size without end": (group(b"\0\x03\x03\x03\x85onetwothree"), "the last varint of 3 bytes is unfinished"),
    "no sizes": (group(b"\0\x00onetwothree"), "the sizes buffer: it is said to have 0 bytes where 3 to 30 are expected"),
    "no compressed sizes": (group(b"z\x00" + zstd(b"onetwothree")), "the sizes buffer: no varint"),
    "sizes of 2**60 bytes": (
        group(b"z\x10" + encode_varint(2**60) + bytes(7) + zstd(b"onetwothree")),
        f"the sizes buffer: it is said to have {2**60} bytes where 3 to 30 are expected",
    ),
    "a length without end": (group(b"z\x03\x80\x80\x80" + zstd(b"onetwothree")), "the sizes buffer: no varint"),
    "values of 2**60 bytes": (
        group(b"z" + encode_varint(len(zstd(b"\3\3\5"))) + zstd(b"\3\3\5") + zstd(b"onetwothree", 2**60)),
        f"the values buffer: it is said to have {2**60} bytes where 11",
    ),
    "values cut short": (group(b"\0\x03\x03\x03\x05onetwothre"), "the values buffer: "),
    "another count": (Shard([GROUP], [(64, 11, 2)], (1, 2)), "holds 3 records of 11 bytes together, the index says 2 of 11"),
}


@pytest.mark.parametrize("io", ["mmap", "pread"])
@pytest.mark.parametrize("check", ["structure", "hash"])
@pytest.mark.parametrize(("shard", "message"), CHUNK_LIES.values(), ids=CHUNK_LIES)
def test_a_chunk_that_lies_is_told_of_by_record_and_offset(
    tmp_path: Path, io: Io, check: Check, shard: Shard, message: str
) -> None:
    """Every field of a chunk of one record by turns, its hashes those of the lie; its neighbours are read as ever."""
    path = forge(tmp_path / "lie", shard)
    source = ArrayRecordDataSource(path, io=io, check=check)
    reads: list[Callable[[], Any]] = [lambda: source[1], lambda: source[[0, 1, 2]], lambda: source[[1]]]
    for read in reads * 2:
        with pytest.raises(CorruptShardError, match=f"(?s){re.escape(path)}, record 1, byte .*({message})") as caught:
            read()
        assert (caught.value.path, caught.value.record) == (path, 1)
        assert caught.value.offset is not None and 112 <= caught.value.offset < 180
    assert source[[2, 0]] == [source[2], source[0]] == [b"third", b"first"]


@pytest.mark.parametrize("io", ["mmap", "pread"])
@pytest.mark.parametrize("check", ["structure", "hash"])
@pytest.mark.parametrize(("shard", "message"), GROUP_LIES.values(), ids=GROUP_LIES)
def test_a_group_that_lies_is_told_of_by_record_and_offset(
    tmp_path: Path, io: Io, check: Check, shard: Shard, message: str
) -> None:
    """The same for chunks of many records: the record named is the one that was asked for."""
    path = forge(tmp_path / "lie", shard)
    source = ArrayRecordDataSource(path, io=io, check=check)
    record = len(source) - 1
    for read in (lambda: source[record], lambda: source[[0, record]] if record > 2 else source[[record]]):
        with pytest.raises(CorruptShardError, match=f"{re.escape(path)}, record {record}, byte .*({message})") as caught:
            read()
        assert (caught.value.path, caught.value.record) == (path, record)
    if record > 2:
        assert source[[2, 0]] == [source[2], source[0]] == [b"three", b"one"]


def foot(*records: bytes, **lies: Any) -> Shard:
    """One chunk, and a footer of these records."""
    return Shard(SINGLES[:1], footer=replace(pack_simple(records), **lies))


ABOUT = pack_about(1, 1)
ENTRY = pack_fields(64, 5, 1)
TWO = pack_about(2, 2)

FOOTER_LIES: dict[str, tuple[Shard, str]] = {
    "offsets that descend": (foot(TWO, pack_fields(300, 5, 1), ENTRY), "chunk offsets do not ascend"),
    "offsets twice": (foot(TWO, ENTRY, ENTRY), "chunk offsets do not ascend"),
    "offsets too close": (foot(TWO, ENTRY, pack_fields(103, 5, 1)), "chunk offsets do not ascend"),
    "an offset in the signature": (foot(ABOUT, pack_fields(63, 5, 1)), "chunk offsets do not ascend"),
    "an offset of 0": (foot(ABOUT, pack_fields(None, 5, 1)), "chunk offsets do not ascend"),
    "an offset behind the footer": (foot(ABOUT, pack_fields(70_000, 5, 1)), "chunk offsets do not ascend"),
    "an offset of 2**61": (foot(ABOUT, pack_fields(2**61, 5, 1)), "chunk offsets do not ascend"),
    "an offset of 2**63": (foot(ABOUT, pack_fields(2**63, 5, 1)), r"a number past 2\*\*62"),
    "a size of 2**64 - 1": (foot(ABOUT, pack_fields(64, 2**64 - 1, 1)), r"a number past 2\*\*62"),
    "no records in a chunk": (foot(ABOUT, pack_fields(64, 5, None)), "a chunk of no records"),
    "2**50 records": (foot(pack_about(1, 2**50), pack_fields(64, 5, 2**50)), "or of more than its bytes can hold"),
    "another number of chunks": (foot(pack_about(2, 1), ENTRY), "lists 1 chunks of 1 records, its summary says 2 of 1"),
    "another number of records": (foot(pack_about(1, 2), ENTRY), "lists 1 chunks of 1 records, its summary says 1 of 2"),
    "no summary": (foot(b"", ENTRY), "its summary says 0 of 0"),
    "a summary that is a number": (foot(b"\x08\x01", ENTRY), "the footer is damaged: field 1 is no bytes"),
    "a summary of bytes": (foot(b"\x0a\x03\x12\x01x", ENTRY), "the footer is damaged: field 2 is no int"),
    "a summary cut short": (foot(b"\x0a\x09\x10", ENTRY), "a field runs past its message"),
    "a summary of groups": (foot(b"\x0b", ENTRY), "a field has the wire type 3"),
    "an empty entry": (foot(TWO, ENTRY, b""), "an entry is empty"),
    "only an empty entry": (foot(ABOUT, b""), "an entry is empty"),
    "an entry with a tag alone": (foot(ABOUT, b"\x08"), "an entry is not made of tags and numbers"),
    "an entry cut short": (foot(ABOUT, ENTRY + b"\x08\x80"), "the last varint"),
    "numbers across entries": (foot(TWO, ENTRY + b"\x08", b"\x01"), "an entry is not made of tags and numbers"),
    "an unknown field": (foot(ABOUT, ENTRY + b"\x20\x01"), "an entry holds an unknown field"),
    "a field of bytes": (foot(ABOUT, b"\x0a\x01"), "an entry holds an unknown field"),
    "no records at all": (Shard([], footer=Chunk(b"\0\0", 0, 0)), "the footer is damaged: it claims 0 records"),
    "a footer of padding": (foot(ABOUT, ENTRY, kind=b"p"), "the footer is damaged: a padding chunk"),
    "2**50 entries": (foot(ABOUT, ENTRY, num_records=2**50), f"the footer is damaged: it claims {2**50} records"),
    "2**60 bytes of entries": (foot(ABOUT, ENTRY, decoded_size=2**60), f"it claims 2 records in {2**60} bytes"),
    "2**63 bytes of data": (foot(ABOUT, ENTRY, data_size=2**63), f"it claims {2**63} bytes where"),
    "an unknown codec": (Shard(SINGLES[:1], footer=Chunk(b"q\x02\x01\x00\x01x", 1, 1)), "unknown compression 0x71"),
    "a byte of data": (Shard(SINGLES[:1], footer=Chunk(b"\0", 1, 1)), "claims 1 bytes of data"),
}


def point(*records: bytes, **lies: Any) -> Shard:
    """One chunk, and a postscript of these records."""
    return Shard(SINGLES[:1], postscript=replace(pack_simple(records), **lies))


POINTER = pack_fields(112, MAGIC)

POSTSCRIPT_LIES: dict[str, tuple[Shard, str]] = {
    "no footer": (Shard(SINGLES[:1], footer_offset=0), "the postscript puts the footer at byte 0, outside 64..65536"),
    "a footer in the signature": (Shard(SINGLES[:1], footer_offset=63), "puts the footer at byte 63, outside"),
    "a footer in the postscript": (Shard(SINGLES[:1], footer_offset=65_500), "puts the footer at byte 65500, outside"),
    "a footer behind the file": (Shard(SINGLES[:1], footer_offset=2**40), f"puts the footer at byte {2**40}, outside"),
    "a footer at 2**64 - 1": (Shard(SINGLES[:1], footer_offset=2**64 - 1), f"puts the footer at byte {2**64 - 1}, outside"),
    "a footer elsewhere": (Shard(SINGLES[:1], footer_offset=65_496), "the footer is damaged: "),
    "a footer that is a record": (Shard(SINGLES[:1], footer_offset=64), "the footer is damaged: "),
    "another magic": (point(*[pack_fields(112, MAGIC + 1)] * 3), "magic 0x71930e704fdae05f stands where 0x71930e704fdae05e"),
    "no magic": (point(*[pack_fields(112)] * 3), "magic 0x0 stands where"),
    "magic of bytes": (point(*[b"\x08\x70\x12\x01x"] * 3), "field 2 is no int"),
    "a pointer of bytes": (point(*[b"\x0a\x01x" + pack_fields(None, MAGIC)] * 3), "field 1 is no int"),
    "a pointer of 4 bytes": (point(*[b"\x0d\x01\x00\x00\x00" + pack_fields(None, MAGIC)] * 3), "a field has the wire type 5"),
    "records that differ": (point(POINTER, POINTER, pack_fields(113, MAGIC)), "its 3 records differ"),
    "no records": (point(), "it claims 0 records"),
    "many records": (point(*[POINTER] * 17), "it claims 17 records"),
    "2**50 records": (point(POINTER, num_records=2**50), f"it claims {2**50} records"),
    "2**60 bytes": (point(POINTER, decoded_size=2**60), f"in {2**60} bytes"),
    "2**63 bytes of data": (point(POINTER, data_size=2**63), f"it claims {2**63} bytes where 65472 are left"),
    "a signature": (point(POINTER, kind=b"s"), "a file signature chunk"),
}


@pytest.mark.parametrize("io", ["mmap", "pread"])
@pytest.mark.parametrize("check", ["structure", "hash"])
@pytest.mark.parametrize(
    ("shard", "message"),
    [*FOOTER_LIES.values(), *POSTSCRIPT_LIES.values()],
    ids=[*FOOTER_LIES, *POSTSCRIPT_LIES],
)
def test_an_index_that_lies_is_refused_when_the_file_is_opened(
    tmp_path: Path, io: Io, check: Check, shard: Shard, message: str
) -> None:
    """Every field of footer and postscript by turns, the hashes those of the lie."""
    path = forge(tmp_path / "lie", shard)
    with pytest.raises(CorruptShardError, match=f"(?s)^{re.escape(path)}, byte .*{message}") as caught:
        ArrayRecordDataSource(path, io=io, check=check)
    assert caught.value.path == path
    assert caught.value.offset is not None


def test_what_is_forged_truthfully_is_read(tmp_path: Path) -> None:
    """The files above are refused for their lies, and for nothing else."""
    for shard in (Shard(SINGLES), Shard([GROUP, *SINGLES, GROUP]), Shard([]), Shard(SINGLES, hole_blocks=3), change()):
        expected = {
            id(SINGLES[0]): [b"first"],
            id(SINGLES[1]): [b"second"],
            id(SINGLES[2]): [b"third"],
            id(GROUP): [b"one", b"two", b"three"],
        }
        path = forge(tmp_path / "true", shard)
        records = [record for chunk in shard.chunks for record in expected.get(id(chunk), [b"second"])]
        assert read_all(path, check="hash") == read_all(path, "pread") == records
    values, sizes = zstd(b"onetwothree"), zstd(b"\3\3\5")
    path = forge(tmp_path / "true", group(b"z" + encode_varint(len(sizes)) + sizes + values))
    assert read_all(path, check="hash") == [b"one", b"two", b"three"] * 2


@pytest.mark.parametrize("check", ["structure", "hash"])
def test_hashes_that_lie_are_noticed_where_they_are_asked_for(tmp_path: Path, check: Check) -> None:
    """Of chunks, footer and postscript; with ``check="structure"`` nobody looks."""
    for lie in ("header_hash", "data_hash"):
        for shard, stored in [
            (change(**{lie: 1}), SINGLES[1]),
            (foot(ABOUT, ENTRY, **{lie: 1}), None),
            (point(POINTER, **{lie: 1}), None),
        ]:
            path = forge(tmp_path / "lie", shard)
            if check == "structure":
                assert read_all(path) == [b"first", b"second", b"third"][: len(shard.chunks)]
                continue
            what = lie.replace("_", " ")
            with pytest.raises(CorruptShardError, match=f"the chunk's {what} is 0x.*, 0x0000000000000001 is stored") as caught:
                read_all(path, check="hash")
            assert caught.value.record == (None if stored is None else 1)


def forge_index(folder: Path, starts: dict[int, int], sizes: dict[int, int]) -> tuple[str, RecordIndex]:
    """Write a shard of five records and a record index of it with lies in it, checksums and signature those of the lie."""
    path = forge(folder / "shard", Shard([*SINGLES, *SINGLES[:2]]))
    file = open_file(path, "pread")
    truth = read_index(file.read, file.file_bytes, check_hash=True)
    write_record_index(str(folder / "index"), {"shard": partial(describe_shard_file, path)})
    written = (folder / "index").read_bytes()
    description = json.loads(written[32 : 32 + int.from_bytes(written[16:24], "little")])
    arrays: list[npt.NDArray[Any]] = [np.array(truth.starts), truth.decoded_sizes.copy(), np.zeros(5, np.uint32)]
    runs = RecordIndex(str(folder / "index")).runs
    for array, lies in zip(arrays, (starts, sizes), strict=False):
        for place, lie in lies.items():
            array[place] = lie
    description["shards"][0]["crc32c"] = google_crc32c.value(b"".join(array.tobytes() for array in (*arrays, runs)))
    # As if these places followed from the lies.
    with np.errstate(over="ignore"):
        places = place_plain(arrays[0][:-1], arrays[0][1:], arrays[1])
    text = json.dumps(description).encode()
    forged = written[:16] + struct.pack("<QII", len(text), google_crc32c.value(text), 0) + text
    for array in (*arrays, runs, places):
        forged += bytes(-len(forged) % 64) + array.tobytes()
    (folder / "index").write_bytes(forged)
    return path, RecordIndex(str(folder / "index"))


@pytest.mark.parametrize("io", ["mmap", "pread"])
@pytest.mark.parametrize(
    ("starts", "sizes"),
    [
        ({0: -100}, {}),
        ({1: -5000}, {}),
        ({1: -5000, 2: -4000}, {}),
        ({1: -(2**63)}, {}),
        ({1: 2**63 - 1, 2: -(2**63) + 50}, {}),  # the difference of the two is 51, once it has wrapped around
        ({1: 150, 2: 140}, {}),
        ({1: 41}, {}),
        ({2: 2**40}, {}),
        ({5: 2**40}, {}),
        ({}, {1: -1}),
        ({}, {1: -(2**63)}),
    ],
)
def test_a_record_index_that_lies_is_not_believed(
    tmp_path: Path, io: Io, starts: dict[int, int], sizes: dict[int, int]
) -> None:
    """Places outside the file, in no order, sizes below nothing, with checksums that match: the shard's own footer is used."""
    path, index = forge_index(tmp_path, starts, sizes)
    expected = [b"first", b"second", b"third", b"first", b"second"]
    for read in (lambda s: [s[k] for k in range(5)], lambda s: s[range(5)]):
        source = ArrayRecordDataSource.from_lengths([ShardOf(path)], [5], io=io, indexes=[index])
        with pytest.warns(RuntimeWarning, match="the record index is not used, the index is damaged"):
            assert read(source) == expected
        assert read(source) == expected


@pytest.mark.parametrize("io", ["mmap", "pread"])
@pytest.mark.parametrize(("starts", "sizes"), [({1: 93}, {}), ({2: 140}, {}), ({}, {1: 5}), ({}, {1: 0}), ({}, {1: 2**62})])
def test_a_record_index_that_lies_within_bounds_gives_no_wrong_record(
    tmp_path: Path, io: Io, starts: dict[int, int], sizes: dict[int, int]
) -> None:
    """A chunk that is not where, or not as long as, the index says is an error that names the record."""
    path, index = forge_index(tmp_path, starts, sizes)
    wrong = next(iter((starts or sizes).keys()))
    source = ArrayRecordDataSource.from_lengths([ShardOf(path)], [5], io=io, indexes=[index])
    for read in (lambda: source[wrong], lambda: source[[wrong]], lambda: source[[4, wrong]]):
        with pytest.raises(CorruptShardError) as caught:
            read()
        assert (caught.value.path, caught.value.record) == (path, wrong)


@pytest.mark.parametrize(
    "description",
    [
        [],
        {},
        {"version": 2, "shards": []},
        {"version": 1},
        {"version": 1, "shards": None},
        {"version": 1, "shards": [1]},
        {"version": 1, "shards": [{"name": "shard"}]},
        {"version": 1, "shards": [{"name": "a", "records": 0, "bytes": 0, "crc32c": 0}]},
        {"version": 1, "shards": [{"name": 1, "records": 0, "bytes": 0, "crc32c": 0, "signature": ""}]},
        {"version": 1, "shards": [{"name": "a", "records": "1", "bytes": 0, "crc32c": 0, "signature": ""}]},
        {"version": 1, "shards": [{"name": "a", "records": -1, "bytes": 0, "crc32c": 0, "signature": ""}]},
        {"version": 1, "shards": [{"name": "a", "records": 2**62, "bytes": 0, "crc32c": 0, "signature": ""}]},
    ],
)
def test_a_record_index_that_describes_nothing_is_refused(tmp_path: Path, description: Any) -> None:
    """JSON of other types and keys, its checksum that of the lie."""
    text = json.dumps(description).encode()
    path = tmp_path / "index"
    path.write_bytes(b"arrayfeed.index\n" + struct.pack("<QII", len(text), google_crc32c.value(text), 0) + text)
    with pytest.raises(DataError, match="make it again with `arrayfeed index`") as caught:
        RecordIndex(str(path))
    assert caught.value.path == str(path)


# -- memory -----------------------------------------------------------------------------------------------------------


def make_bombs(folder: Path) -> list[str]:
    """Write files of a few hundred kB that claim, or burst into, gigabytes; return their paths."""
    gib = 1 << 30
    blank = zstandard.ZstdCompressor(level=1).compress(bytes(gib))  # 32 kB
    unsized = zstandard.ZstdCompressor(level=1, write_content_size=False).compress(bytes(gib))
    stated = encode_varint(gib) + blank
    sizes = encode_varint(len(stated)) + stated
    first, hole = SINGLES[0], 1 << 20  # a hole of 64 GiB
    shards = {
        # The index: a gigabyte of sizes, or of records.
        "footer sizes": Shard([first], footer=Chunk(b"z" + sizes + zstd(b"x"), gib, gib)),
        "footer records": Shard([first], footer=Chunk(b"z\0" + stated, 2, gib)),
        "postscript sizes": Shard([first], postscript=Chunk(b"z" + sizes, 3, 40)),
        "postscript records": Shard([first], postscript=Chunk(b"z\0" + stated, 3, gib)),
        "group sizes": Shard([Chunk(b"z" + sizes + zstd(b"onetwothree"), 3, 11)]),
        # Records that claim to be as long as is let through, and are not.
        **{
            f"claim in {codec}": Shard([Chunk(codec.encode() + b"\0" + encode_varint(2 * gib - 1) + bytes(60), 1, 2 * gib - 1)])
            for codec in "zbs"
        },
        # Frames that go on after what they should hold, whether they say so or not.
        "longer": Shard([Chunk(b"z\0\x06" + blank, 1, 6)]),
        "endless": Shard([Chunk(b"z\0\x06" + unsized, 1, 6)]),
        "endless group": Shard([Chunk(b"z" + bytes([len(zstd(b"\3\3"))]) + zstd(b"\3\3") + b"\6" + unsized, 2, 6)]),
        # Claims that reach over the hole.
        "hole": Shard([replace(first, data_size=1 << 40)], hole_blocks=hole),
        "hole as record": Shard([replace(first, data_size=1 << 35, decoded_size=1 << 34)], hole_blocks=hole),
        "hole as group": Shard([replace(GROUP, data_size=1 << 40)], hole_blocks=hole),
        "hole as a true group": Shard([replace(GROUP, data_size=1 << 35)], hole_blocks=hole),
        "hole as footer": Shard([], footer=Chunk(b"\0\0", 1 << 26, gib, data_size=1 << 35), hole_blocks=hole),
    }
    return [forge(folder / name, shard) for name, shard in shards.items()]


READ_BOMBS = """
import resource, sys
from arrayfeed.datasource import ArrayRecordDataSource, DataError
ArrayRecordDataSource(sys.argv[1])[0]  # whatever reading imports, is imported

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10  # KiB on Linux
before = peak()
for path in sys.argv[2:]:
    for io in ("mmap", "pread"):
        for check in ("structure", "hash"):
            for read in (lambda source: source[0], lambda source: source[[0]], lambda source: source[[0] * 50]):
                try:
                    read(ArrayRecordDataSource(path, io=io, check=check))
                except DataError as error:
                    message = str(error)
                else:
                    sys.exit(f"{path} was read")
    print(message, f"[{peak() - before} MiB]")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in other units elsewhere, and holes are not everywhere")
def test_lies_about_sizes_cost_no_memory(tmp_path: Path) -> None:
    """Files that promise gigabytes, or burst into them, are refused within 64 MiB."""
    good = write_shard(tmp_path / "good", [b"abc"], codec="zstd")
    run = subprocess.run(
        [sys.executable, "-c", READ_BOMBS, good, *make_bombs(tmp_path)], capture_output=True, text=True, timeout=100
    )
    print(run.stdout)
    assert run.returncode == 0, run.stderr
    assert int(re.findall(r"\[(\d+) MiB\]", run.stdout)[-1]) < 64


def test_chunks_past_the_limit_are_refused(tmp_path: Path) -> None:
    """By what they claim to hold and by what they take; both kinds of chunk; and read once the limit is raised."""
    for number, (codec, group_size) in enumerate([("uncompressed", 1), ("zstd", 1), ("zstd", 2), ("uncompressed", 2)]):
        records = [b"small", b"", bytes(5000), bytes(10)]
        path = write_shard(tmp_path / f"{number}", records, codec=codec, group_size=group_size)
        source = ArrayRecordDataSource(path, max_chunk_bytes=4000)
        for read in (lambda: source[2], lambda: source[[2]], lambda: source[[1, 2]]):  # noqa: B023
            with pytest.raises(CorruptShardError, match="is past the limit of max_chunk_bytes=4000; raise it if") as caught:
                read()
            assert caught.value.record == 2
        assert source[[0, 1]] == records[:2]
        assert read_all(path) == records
        assert ArrayRecordDataSource(path, max_chunk_bytes=5100)[2] == records[2]


# -- files that change while they are open ----------------------------------------------------------------------------


@pytest.mark.parametrize("group_size", [1, 3])
def test_a_shard_that_is_cut_while_open_raises_with_pread(tmp_path: Path, rng: np.random.Generator, group_size: int) -> None:
    """Where it now ends and what it had; records before the cut are still read."""
    records = [rng.bytes(30_000) for _ in range(9)]
    path = write_shard(tmp_path / "a", records, group_size=group_size)
    source = ArrayRecordDataSource(path, io="pread")
    size = os.path.getsize(path)
    os.truncate(path, 140_000)
    for read in (lambda: source[8], lambda: source[[0, 8]]):
        with pytest.raises(CorruptShardError, match=f"the file ends here; it had {size} bytes when it was opened") as caught:
            read()
        assert caught.value.path == path
        assert caught.value.offset is not None and caught.value.offset >= 140_000
    assert source[[0, 1]] == [source[0], source[1]] == records[:2]


def test_a_read_that_the_system_refuses_raises_with_pread(tmp_path: Path) -> None:
    """As on a network file system whose file was removed: here the descriptor becomes one of a directory."""
    path = write_shard(tmp_path / "a", [b"abc"] * 3)
    source = ArrayRecordDataSource(path, io="pread")
    (mine,) = [fd for fd in os.listdir("/proc/self/fd") if os.path.realpath(f"/proc/self/fd/{fd}") == os.path.realpath(path)]
    folder = os.open(tmp_path, os.O_RDONLY)
    os.dup2(folder, int(mine))
    os.close(folder)
    for read in (lambda: source[0], lambda: source[[0, 1]]):
        with pytest.raises(DataError, match="bytes cannot be read: Is a directory") as caught:
            read()
        assert caught.value.path == path


def test_a_shard_that_was_replaced_by_another_is_noticed_when_it_is_opened_again(tmp_path: Path) -> None:
    """In another process, or after it was closed for others: by its number of records."""
    import pickle

    path = write_shard(tmp_path / "a", [b"abc"] * 3)
    source = ArrayRecordDataSource(path)
    again = pickle.loads(pickle.dumps(source))
    os.unlink(path)
    assert source[2] == b"abc", "what is mapped stays"
    with pytest.raises(ShardNotFoundError):
        again[0]
    write_shard(path, [b"abc"] * 4)
    with pytest.raises(CorruptShardError, match="the file holds 4 records, 3 were expected; it was replaced"):
        again[0]
