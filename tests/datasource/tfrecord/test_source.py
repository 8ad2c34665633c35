"""TFRecord files as a source: what TensorFlow wrote, what was damaged, what is kept for the next time."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

import arrayfeed
from arrayfeed import CorruptShardError, DataError, ShardNotFoundError, TFRecordSource, decompress_tfrecord
from arrayfeed.datasource.tfrecord.framing import seal
from arrayfeed.datasource.tfrecord.index import load_offsets
from support.tfrecords import FIXTURES, tensorflow, write_tfrecord

RECORDS = [b"", b"one", bytes(100), bytes(100), b"x" * 77, *[b"same"] * 12, b"last"]


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's cache of the test's own."""
    path = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(path))
    return path


@pytest.fixture
def worth_keeping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the offsets of small files be kept too."""
    monkeypatch.setattr("arrayfeed.datasource.tfrecord.index._WORTH_KEEPING_BYTES", 0)


# -- reading --------------------------------------------------------------------------------------------------------------


def test_the_records_are_those_that_tensorflow_wrote() -> None:
    """Every record of a file by TensorFlow's own writer, the empty one too, under every kind of key."""
    expected = tensorflow()["records"]
    source = TFRecordSource(FIXTURES / "records.tfrecord")
    order = np.random.default_rng(0).integers(-len(expected), len(expected), 200)

    assert len(source) == len(expected) > 30
    assert list(source) == expected
    assert [source[i] for i in range(-len(expected), len(expected))] == expected * 2
    assert source[order] == [expected[i] for i in order]
    assert source.read_batch(order).tolist() == [expected[i] for i in order]
    assert list(source[5:-3:3]) == expected[5:-3:3]


def test_a_file_of_no_records_is_an_empty_source() -> None:
    """As TensorFlow leaves it: no bytes at all."""
    source = TFRecordSource(FIXTURES / "empty.tfrecord")

    assert len(source) == 0
    assert list(source) == []
    assert source.read_batch([]).shape == (0,)
    with pytest.raises(IndexError, match="index 0 is out of range for 0 records in 1 file"):
        source[0]


def test_several_files_and_parts_of_them_are_one_sequence(tmp_path: Path, rng: np.random.Generator) -> None:
    """One behind the other, empty ones between, by pattern, count and slice; batches from all of them in any order."""
    files = [RECORDS, [], [b"a", b"b"], RECORDS[::-1]]
    for number, records in enumerate(files):
        write_tfrecord(tmp_path / f"train-{number:05d}-of-00004", records)
    expected = [record for records in files for record in records]
    order = rng.integers(0, len(expected), 100)
    for paths in (tmp_path / "train-*", f"{tmp_path}/train@4", [tmp_path / f"train-{n:05d}-of-00004" for n in range(4)]):
        source = TFRecordSource(paths)
        assert list(source) == expected
        assert source[order] == [expected[i] for i in order]
        assert [source[i] for i in order] == [expected[i] for i in order]

    part = TFRecordSource([f"{tmp_path}/train-00003-of-00004[2:5]", f"{tmp_path}/train-00000-of-00004[0:1]"])
    assert list(part) == [*RECORDS[::-1][2:5], RECORDS[0]]
    assert part.locate(1) == (f"{tmp_path}/train-00003-of-00004", 3)
    with pytest.raises(ValueError, match=r"\[2:9\] reaches past the file's 2 records"):
        TFRecordSource(f"{tmp_path}/train-00002-of-00004[2:9]")


def test_a_pickle_is_small_and_reads_the_same(tmp_path: Path) -> None:
    """A few hundred bytes however many records; a closed source stays closed."""
    source = TFRecordSource(write_tfrecord(tmp_path / "a", [b"r"] * 10_000))
    copied = pickle.loads(pickle.dumps(source))

    assert len(pickle.dumps(source)) < 500
    assert copied[[0, 9_999]] == [b"r", b"r"]
    assert copied.fingerprint == source.fingerprint
    source.close()
    with pytest.raises(ValueError, match=r"TFRecordSource\(10000 records in 1 file: .*\) is closed"):
        pickle.loads(pickle.dumps(source))[0]


def test_records_outlive_the_source(tmp_path: Path) -> None:
    """What was gathered before close() stays readable; afterwards reading is an error."""
    source = TFRecordSource(write_tfrecord(tmp_path / "a", RECORDS))
    gathered = source.gather(np.arange(len(RECORDS)))
    source.close()

    assert gathered.tolist() == RECORDS
    for read in (lambda: source[1], lambda: source[[1]], lambda: source.gather(np.array([1]))):
        with pytest.raises(ValueError, match="is closed"):
            read()


# -- damage ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", ["memory", "beside"])
def test_every_flipped_bit_is_an_error_that_names_the_record(tmp_path: Path, index: str) -> None:
    """In lengths, data and both checksums; whether the offsets are found anew or were kept from before the damage."""
    path = write_tfrecord(tmp_path / "a", RECORDS)
    whole = path.read_bytes()
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    ends = np.cumsum([len(record) + 16 for record in RECORDS])
    TFRecordSource(path, index="beside")
    for bit in range(0, 8 * len(whole), 3):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        os.utime(path, ns=times)  # the damage of a disk leaves no trace in the file's times
        record = int(np.searchsorted(ends, bit // 8, side="right"))
        with pytest.raises(CorruptShardError, match=f"record {record}, byte") as caught:
            for one in TFRecordSource(path, index=index):  # type: ignore[arg-type]
                assert one in RECORDS
        assert (caught.value.path, caught.value.record) == (str(path), record)
        assert caught.value.offset == ends[record] - 16 - len(RECORDS[record])


def test_damage_is_seen_by_every_way_of_reading_and_spoils_no_other_record(tmp_path: Path) -> None:
    """One by one, many at once; the neighbours stay readable."""
    path = write_tfrecord(tmp_path / "a", RECORDS)
    data = bytearray(path.read_bytes())
    data[16 + 12] ^= 1  # in "one", record 1
    path.write_bytes(data)
    source = TFRecordSource(path)

    assert source[[0, 2, 3]] == [RECORDS[0], RECORDS[2], RECORDS[3]]
    for _ in range(2):
        for read in (lambda: source[1], lambda: source[[0, 1]], lambda: source.read_batch([2, 1])):
            with pytest.raises(CorruptShardError, match="record 1, byte 16: the checksum of its data does not match"):
                read()
    assert source[2] == RECORDS[2]


def test_a_file_cut_inside_a_header_is_an_error(tmp_path: Path) -> None:
    """The cuts that other readers take for the end of the file."""
    whole = write_tfrecord(tmp_path / "whole", RECORDS).read_bytes()
    path = tmp_path / "cut"
    for end in (*range(1, 12), *range(17, 28)):
        path.write_bytes(whole[:end])
        record, offset = divmod(end, 16)
        with pytest.raises(CorruptShardError, match=f"cut, record {record}, byte {16 * record}: .* after {offset} of the 12"):
            TFRecordSource(path)


def test_a_file_that_changes_while_it_is_open_is_an_error(tmp_path: Path) -> None:
    """Cut before it was first read, or rewritten with records of other lengths at the same size."""
    path = write_tfrecord(tmp_path / "a", [b"12345678", b"1234"])
    cut, rewritten = TFRecordSource(path), TFRecordSource(path)
    write_tfrecord(path, [b"1234", b"12345678"])
    with pytest.raises(CorruptShardError, match="its header is not that of 8 bytes"):
        rewritten[0]
    write_tfrecord(path, [b"1"])
    with pytest.raises(CorruptShardError, match="the file has 17 bytes, it had 44 or more"):
        cut[0]


@pytest.mark.parametrize(("suffix", "name"), [("gz", "gzip"), ("zlib", "zlib")])
def test_a_compressed_file_is_refused_with_the_way_out(tmp_path: Path, suffix: str, name: str) -> None:
    """The error names the function; what that writes reads as the records that TensorFlow wrote."""
    compressed, plain = FIXTURES / f"records.tfrecord.{suffix}", tmp_path / "plain.tfrecord"
    with pytest.raises(DataError, match=rf"compressed with {name}.*arrayfeed\.decompress_tfrecord\(path, new_path\)") as caught:
        TFRecordSource(compressed)
    assert caught.value.path == str(compressed)

    decompress_tfrecord(compressed, plain)
    assert plain.read_bytes() == (FIXTURES / "records.tfrecord").read_bytes()
    assert list(TFRecordSource(plain)) == tensorflow()["records"]


def test_a_record_as_long_as_a_gzip_file_begins_is_no_gzip_file(tmp_path: Path) -> None:
    """A plain file may begin with the bytes 1f 8b: its first record is 35,615 bytes long."""
    path = write_tfrecord(tmp_path / "a", [bytes(0x8B1F)])

    assert path.read_bytes()[:2] == b"\x1f\x8b"
    assert TFRecordSource(path)[0] == bytes(0x8B1F)


def test_decompressing_overwrites_nothing_and_leaves_nothing_half_done(tmp_path: Path) -> None:
    """An existing file stays; of a damaged, cut or plain one nothing is written; several gzip files may be one."""
    compressed, target = (FIXTURES / "records.tfrecord.gz").read_bytes(), tmp_path / "target"
    source = tmp_path / "source"
    target.write_bytes(b"mine")
    source.write_bytes(compressed)
    with pytest.raises(FileExistsError):
        decompress_tfrecord(source, target)
    assert target.read_bytes() == b"mine"
    target.unlink()

    for damaged in (compressed[:-1], compressed[:500], b"plain", b"", compressed[:60] + b"\xff" + compressed[61:]):
        source.write_bytes(damaged)
        with pytest.raises(CorruptShardError, match="no whole gzip or zlib file"):
            decompress_tfrecord(source, target)
        assert not target.exists()
    with pytest.raises(ShardNotFoundError):
        decompress_tfrecord(tmp_path / "nothing", target)

    source.write_bytes(compressed * 2)
    decompress_tfrecord(source, target)
    assert list(TFRecordSource(target)) == tensorflow()["records"] * 2


def test_what_is_no_tfrecord_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    """Missing, a directory, text, ArrayRecord."""
    for name, content in (("text", b"Once upon a time, there was"), ("zeros", bytes(1000))):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(CorruptShardError, match=f"{name}, record 0, byte 0: .* this is no TFRecord file"):
            TFRecordSource(tmp_path / name)
    with pytest.raises(ShardNotFoundError):
        TFRecordSource(tmp_path / "nothing")
    with pytest.raises(DataError, match="this is a directory"):
        TFRecordSource(tmp_path)
    with pytest.raises(ValueError, match="index must be 'cache', 'beside' or 'memory', got 'disk'"):
        TFRecordSource(tmp_path / "text", index="disk")  # type: ignore[arg-type]


# -- kept offsets ---------------------------------------------------------------------------------------------------------


def files_in(path: Path) -> list[str]:
    return sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())


def test_offsets_are_kept_where_they_are_asked_to_be(tmp_path: Path, cache: Path, worth_keeping: None) -> None:
    """Nowhere, beside the file, in the user's cache; what is there is used, wherever it is."""
    path = write_tfrecord(tmp_path / "a", RECORDS)
    TFRecordSource(path, index="memory")
    assert files_in(tmp_path) == ["a"] and files_in(cache) == []
    TFRecordSource(path, index="beside")
    assert files_in(tmp_path) == ["a", "a.index.npy"] and files_in(cache) == []
    TFRecordSource(path)
    assert files_in(cache) == []
    (tmp_path / "a.index.npy").unlink()
    TFRecordSource(path)
    (kept,) = files_in(cache)
    assert kept.startswith("arrayfeed/tfrecord/")
    assert np.load(cache / kept).dtype == np.int64


def test_kept_offsets_spare_the_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second source, and an unpickled one, find the records without going through the file."""
    path = write_tfrecord(tmp_path / "a", RECORDS)
    source = TFRecordSource(path, index="beside")

    def refuse(data: object) -> None:
        raise AssertionError("the file was scanned again")

    monkeypatch.setattr("arrayfeed.datasource.tfrecord.index.scan", refuse)
    assert list(TFRecordSource(path, index="beside")) == RECORDS
    assert list(pickle.loads(pickle.dumps(source))) == RECORDS


def test_a_small_file_leaves_nothing_in_the_cache(tmp_path: Path, cache: Path) -> None:
    """Scanning it takes a millisecond."""
    TFRecordSource(write_tfrecord(tmp_path / "a", RECORDS))
    TFRecordSource(write_tfrecord(tmp_path / "b", [bytes(1 << 20)]))

    assert len(files_in(cache)) == 1


def test_offsets_of_another_file_are_not_believed(tmp_path: Path) -> None:
    """After the file was rewritten with another size, or at another time, they are found anew."""
    path = write_tfrecord(tmp_path / "a", [b"12345678", b"1234"])
    TFRecordSource(path, index="beside")
    write_tfrecord(path, [b"1234", b"12345678"])
    os.utime(path, ns=(0, 1))
    assert list(TFRecordSource(path, index="beside")) == [b"1234", b"12345678"]
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    write_tfrecord(path, [b"12"])
    os.utime(path, ns=times)
    assert list(TFRecordSource(path, index="beside")) == [b"12"]


def test_damaged_offsets_are_not_believed(tmp_path: Path) -> None:
    """With any byte of the kept file changed, any end cut off, or something else in its place, the records are the same."""
    path = write_tfrecord(tmp_path / "a", RECORDS)
    TFRecordSource(path, index="beside")
    kept = tmp_path / "a.index.npy"
    whole = kept.read_bytes()
    pieces = [whole[:end] for end in (0, 5, 60, 128, 130, len(whole) - 8)]
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 0x41
        pieces.append(bytes(changed))
    for piece in [*pieces, b"\x93NUMPY\x01\x00" + b"(" * 500, b"text"]:
        kept.write_bytes(piece)
        assert list(TFRecordSource(path)) == RECORDS
    kept.unlink()
    kept.mkdir()
    assert list(TFRecordSource(path)) == RECORDS


def test_offsets_that_cannot_be_kept_do_no_harm(
    tmp_path: Path, cache: Path, worth_keeping: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a file in a folder that takes none they go to the cache; where that takes none they stay in memory."""
    path = write_tfrecord(tmp_path / "a", RECORDS)
    shutil.rmtree(cache)
    (tmp_path / "a.index.npy").mkdir()
    assert list(TFRecordSource(path, index="beside")) == RECORDS
    assert len(files_in(cache)) == 1
    assert files_in(tmp_path) == ["a"]

    monkeypatch.setenv("XDG_CACHE_HOME", str(path))  # a file
    assert list(TFRecordSource(path, index="beside")) == RECORDS


def test_kept_offsets_are_mapped_not_read(tmp_path: Path) -> None:
    """Of a single file they take no memory of the process's own."""
    path = write_tfrecord(tmp_path / "a", RECORDS)
    load_offsets(str(path), "beside")
    offsets = load_offsets(str(path), "beside")

    assert not offsets.flags.writeable
    assert not offsets.flags.owndata


def test_a_record_of_many_megabytes_is_read_whole(tmp_path: Path, rng: np.random.Generator) -> None:
    """Nothing is bounded by a buffer."""
    records = [rng.bytes(70 << 20), b"small"]

    assert list(TFRecordSource(write_tfrecord(tmp_path / "a", records))) == records


def test_batches_feed_a_loader(tmp_path: Path) -> None:
    """Records and examples go where any source goes."""
    source = TFRecordSource(FIXTURES / "records.tfrecord")
    batches = list(arrayfeed.DataLoader(source, batch_size=7, shuffle=True, seed=1))

    assert sorted(record for batch in batches for record in batch) == sorted(tensorflow()["records"])


def test_a_frame_is_what_a_seal_goes_around() -> None:
    """The files of these tests are TensorFlow's, byte for byte."""
    records = tensorflow()["records"]
    written = b"".join(seal(record)[0] + record + seal(record)[1] for record in records)

    assert written == (FIXTURES / "records.tfrecord").read_bytes()
