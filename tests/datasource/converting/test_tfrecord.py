"""TFRecord files that TensorFlow wrote, and damaged ones, become data sets."""

from __future__ import annotations

import gzip
import json
import shutil
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import arrayfeed
from arrayfeed import Field, verify
from arrayfeed.datasource.arrayrecord.crc import load_crc32c
from arrayfeed.datasource.converting import convert_tfrecord
from arrayfeed.datasource.errors import CorruptShardError, DatasetExistsError, DecodeError, SchemaError, ShardNotFoundError
from arrayfeed.datasource.example.wire import serialize_example
from arrayfeed.datasource.features import ClassLabel, FeaturesDict, Image, Scalar, Tensor, Text
from arrayfeed.datasource.tfds import DatasetInfo
from arrayfeed.datasource.tfrecord.framing import mask
from support.neutral import load
from support.tfrecords import FIXTURES, tensorflow, write_tfrecord
from support.written import read_examples, read_records

PICTURES = list(arrayfeed.TFRecordSource(str(FIXTURES / "pictures@2")))


def lengths_of(path: Path) -> dict[str, tuple[int, ...]]:
    return {split.name: split.shard_lengths for split in DatasetInfo.read(path).splits}


@pytest.mark.parametrize("name", ["pictures@2", "pictures-*-of-00002", "pictures.gz", "pictures.zlib"])
def test_examples_are_stored_as_they_are_under_features_told_from_all_of_them(tmp_path: Path, name: str) -> None:
    """Byte for byte, in their order, from plain and compressed files; PNGs are images, UTF-8 is text, n values a tensor."""
    found = convert_tfrecord(FIXTURES / name, tmp_path / "data")

    assert read_records(tmp_path / "data") == {"train": PICTURES}
    assert (found.num_records, found.skipped) == ({"train": 24}, ())
    assert verify(tmp_path / "data", root=found.root).ok
    assert DatasetInfo.read(tmp_path / "data").features == FeaturesDict(
        {
            "image/encoded": Image(shape=(12, 16, 3)),
            "image/height": Scalar(np.int64),
            "image/width": Scalar(np.int64),
            "image/label": Scalar(np.int64),
            "name": Text(optional=True),  # what features.json does not say of a text
            "digest": Tensor(shape=(), dtype=np.bytes_),
            "box": Tensor(shape=(4,), dtype=np.float32),
            "words": Tensor(shape=(None,), dtype=np.bytes_),
            "lengths": Tensor(shape=(None,), dtype=np.int64),
            "score": Tensor(shape=(), dtype=np.float32, optional=True),
        }
    )
    example = arrayfeed.open(tmp_path / "data", split="train")[5]
    assert example["image/encoded"].shape == (12, 16, 3)
    assert (example["name"].decode(), example["score"], example["words"].tolist()) == ("N° 5", 5 / 8, [b"word"])


def test_features_that_are_given_choose_check_and_complete(tmp_path: Path) -> None:
    """Fixed and variable lengths, other integer types, defaults for what is missing; keys that are not named are left out."""
    features = {
        "image/encoded": Image(shape=(12, 16, 3)),
        "image/label": ClassLabel(names=["disc", "square", "stripes"]),
        "words": Field(np.bytes_, (None,)),
        "lengths": Field(np.uint8, (None,)),
        "score": Field(np.float32, default=-1),
        "nowhere": Field(np.int64, (2,), default=7),
    }
    convert_tfrecord(FIXTURES / "pictures@2", tmp_path / "data", features=features)

    found = read_examples(tmp_path / "data")["train"]
    plain = [arrayfeed.TFRecordSource(str(FIXTURES / "pictures@2")).decode(features)[k] for k in range(24)]
    assert [example["score"] for example in found] == [k / 8 if k % 6 == 5 else -1 for k in range(24)]
    for example, expected in zip(found, plain, strict=True):
        assert example.keys() == expected.keys()
        for key in example:
            np.testing.assert_array_equal(example[key], expected[key])
    stored = DatasetInfo.read(tmp_path / "data").features
    assert stored["lengths"] == Tensor(shape=(None,), dtype=np.uint8)
    assert read_records(tmp_path / "data")["train"] != PICTURES


def test_every_specification_of_tensorflow_decodes_the_same_from_what_is_stored(tmp_path: Path) -> None:
    """Fixed and variable length, defaults; and what tf.io.parse_single_example refuses is refused, by number."""
    said = tensorflow()
    fields = {"int64": np.int64, "float32": np.float32, "bytes": np.bytes_}
    for number, (spec, parsed) in enumerate(zip(said["specs"], said["parsed"], strict=True)):
        shape = spec["shape"]
        if spec["kind"] == "FixedLenSequence":
            shape = [None, *shape]
        default = {} if spec["default"] is None else {"default": spec["default"]}
        field = Field(fields[spec["dtype"]], (None,) if shape is None else tuple(shape), **default)
        found = convert_tfrecord(
            FIXTURES / "examples.tfrecord", tmp_path / str(number), features={"a": field}, on_error="skip", num_workers=0
        )
        refused = [place for place, value in enumerate(parsed) if value == "error"]
        assert [each.record for each in found.skipped] == refused
        expected = [load(value) for value in parsed if value != "error"]
        kept = read_examples(tmp_path / str(number)).get("train", [])
        for example, value in zip(kept, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(example["a"], np.asarray(value).dtype), value)


def test_records_of_any_kind_are_kept_in_bare_files(tmp_path: Path) -> None:
    """From plain, gzip and zlib files alike; an empty file has none."""
    names = ["empty.tfrecord", "records.tfrecord", "records.tfrecord.gz", "records.tfrecord.zlib"]

    found = convert_tfrecord([FIXTURES / name for name in names], tmp_path / "any", raw=True, group_size=5, codec="zstd")

    records = arrayfeed.ArrayRecordDataSource(tmp_path / "any" / "any-train.array_record@1")
    assert list(records) == tensorflow()["records"] * 3
    assert (found.root, found.num_records) == ("", {"train": 120})
    with pytest.raises(DecodeError, match=r"records\.tfrecord, record 1: it is no tf\.train\.Example.*raw=True"):
        convert_tfrecord(FIXTURES / "records.tfrecord", tmp_path / "data")


def test_no_records_make_an_empty_split(tmp_path: Path) -> None:
    """Which opens."""
    convert_tfrecord({"train": FIXTURES / "empty.tfrecord", "test": FIXTURES / "pictures.gz"}, tmp_path / "data")

    assert lengths_of(tmp_path / "data") == {"train": (), "test": (24,)}
    assert len(arrayfeed.open(tmp_path / "data", split="train")) == 0


@pytest.mark.parametrize(
    ("options", "lengths"),
    [
        ({}, (24,)),
        ({"num_shards": 5}, (4, 5, 5, 5, 5)),
        ({"shard_records": 10}, (10, 10, 4)),
        ({"shard_bytes": 4000}, (12, 12)),
    ],
)
def test_plain_files_are_cut_into_equal_shards_whatever_the_files(
    tmp_path: Path, options: dict[str, Any], lengths: tuple[int, ...]
) -> None:
    """To the last record."""
    convert_tfrecord(FIXTURES / "pictures@2", tmp_path / "data", **options)

    assert lengths_of(tmp_path / "data") == {"train": lengths}
    assert read_records(tmp_path / "data") == {"train": PICTURES}


def test_the_outcome_does_not_depend_on_the_number_of_processes(tmp_path: Path, no_leaks: None) -> None:
    """To the byte; in the list of what was skipped, too."""
    paths = [damage("pictures-00000-of-00002", tmp_path, offset_of(4) + 60), FIXTURES / "pictures-00001-of-00002"]
    found = [convert_tfrecord(paths, tmp_path / str(n), name="a", num_workers=n, num_shards=6, on_error="skip") for n in (0, 2)]

    assert found[0].root == found[1].root
    assert found[0].skipped == found[1].skipped != ()


def test_sixty_thousand_and_one_records_make_ten_shards_and_lose_none(tmp_path: Path) -> None:
    """Where int(n / 10) records a file lose the last; sizes differ by one at most."""
    records = [serialize_example({"n": np.array([n])}) for n in range(60_001)]
    write_tfrecord(tmp_path / "n.tfrecord", records)

    convert_tfrecord(tmp_path / "n.tfrecord", tmp_path / "data", num_shards=10, features={"n": np.int64})

    lengths = lengths_of(tmp_path / "data")["train"]
    assert (len(lengths), sum(lengths), max(lengths) - min(lengths)) == (10, 60_001, 1)
    assert read_records(tmp_path / "data")["train"] == records


# -- which files --------------------------------------------------------------------------------------------------------


def test_a_directory_and_a_pattern_are_taken_in_natural_order(tmp_path: Path) -> None:
    """2 before 10; hidden files and others than TFRecord files are passed over; splits are named by a dict."""
    records = [serialize_example({"n": np.array([n])}) for n in range(12)]
    for n in range(12):
        write_tfrecord(tmp_path / f"part{n}.tfrecord", records[n : n + 1])
    (tmp_path / ".hidden.tfrecord").write_bytes(b"x")
    (tmp_path / "README").write_text("x")

    convert_tfrecord({"train": tmp_path, "b-c": tmp_path / "part1*.tfrecord"}, tmp_path / "out" / "data")

    found = read_records(tmp_path / "out" / "data")
    assert found == {"train": records, "b-c": [records[1], records[10], records[11]]}


def test_missing_files_of_a_set_are_listed(tmp_path: Path) -> None:
    """Asked for by number, by pattern or by directory, or by name."""
    for number in (0, 1, 3):
        write_tfrecord(tmp_path / f"a-{number:05d}-of-00005", [])
    for paths, message in (
        (tmp_path / "a@5", "2 of 5 shards are missing: .*a-00002-of-00005, .*a-00004-of-00005"),
        (tmp_path / "a-?????-of-00005", "2 of 5 files are missing: .*a-00002-of-00005, .*a-00004-of-00005"),
        (tmp_path, "2 of 5 files are missing: .*a-00002-of-00005, .*a-00004-of-00005"),
        ([tmp_path / "a-00000-of-00005", tmp_path / "b"], "1 of 2 files are missing: .*/b$"),
        (tmp_path / "*.none", "no file matches"),
    ):
        with pytest.raises(ShardNotFoundError, match=message):
            convert_tfrecord(paths, tmp_path / "data")
    with pytest.raises(ValueError, match="a-00000-of-00005 is named twice"):
        convert_tfrecord([tmp_path / "a-00000-of-00005", tmp_path / "a-00000-of-00005"], tmp_path / "data", raw=True)
    assert not list(tmp_path.glob("data*"))


# -- what goes wrong ----------------------------------------------------------------------------------------------------


def damage(name: str, tmp_path: Path, at: int) -> Path:
    path = tmp_path / "damaged.tfrecord"
    data = bytearray((FIXTURES / name).read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    return path


def offset_of(record: int) -> int:
    return sum(len(each) + 16 for each in PICTURES[:record])


@pytest.mark.parametrize(
    ("at", "lost", "message"),
    [
        (offset_of(4) + 60, [4], "the checksum of its data does not match"),
        (offset_of(9) - 1, [8], "the checksum of its data does not match"),
        (offset_of(4) + 9, [4], "the checksum of its length does not match"),
        (offset_of(4), [4, 5, 6, 7, 8, 9], "the checksum of its length does not match, and where the next record begins"),
        (offset_of(4) + 7, [4, 5, 6, 7, 8, 9], "where the next record begins is not known"),
    ],
)
def test_a_flipped_bit_is_named_or_skipped_alone(tmp_path: Path, at: int, lost: list[int], message: str) -> None:
    """A record whose data or checksums are damaged is one loss; of one whose length is, all that follows in its file."""
    path = damage("pictures-00000-of-00002", tmp_path, at)
    both = [path, FIXTURES / "pictures-00001-of-00002"]

    with pytest.raises(CorruptShardError, match=message) as caught:
        convert_tfrecord(both, tmp_path / "data", resume=False)
    assert (caught.value.path, caught.value.record) == (str(path), lost[0])
    assert not (tmp_path / "data").exists()
    found = convert_tfrecord(both, tmp_path / "data", on_error="skip")

    assert [(each.path, each.record) for each in found.skipped] == [(str(path), lost[0])]
    assert read_records(tmp_path / "data") == {"train": [PICTURES[k] for k in range(24) if k not in lost]}
    form = json.loads((tmp_path / "data.skipped.json").read_text())
    assert [(each["path"], each["record"]) for each in form] == [(str(path), lost[0])]
    assert message in form[0]["reason"]


def test_a_file_cut_anywhere_is_an_error(tmp_path: Path) -> None:
    """Inside a record's header too, where TensorFlow ends without a word; whole records before the cut can be kept."""
    data = (FIXTURES / "pictures-00000-of-00002").read_bytes()
    ends = {offset_of(k) for k in range(11)}
    for cut in [*range(1, 14), offset_of(1) - 1, *range(offset_of(1) + 1, offset_of(1) + 13), len(data) - 5, len(data) - 1]:
        (tmp_path / "cut").write_bytes(data[:cut])
        whole = sum(end <= cut for end in ends) - 1

        found = convert_tfrecord(
            tmp_path / "cut", tmp_path / f"{cut}", on_error="skip", features={"image/label": np.int64}, num_workers=0
        )

        assert cut not in ends
        assert found.num_records == {"train": whole}
        assert [each.record for each in found.skipped] == [whole]
        assert "ends" in found.skipped[0].reason
    with pytest.raises(CorruptShardError, match="record 9, byte 2963: the file ends"):
        convert_tfrecord(tmp_path / "cut", tmp_path / "data", resume=False)


@pytest.mark.parametrize("name", ["pictures.gz", "pictures.zlib"])
def test_a_damaged_compressed_file_is_an_error_and_what_comes_before_can_be_kept(tmp_path: Path, name: str) -> None:
    """Cut short or with a flipped byte, at any place."""
    data = (FIXTURES / name).read_bytes()
    for cut in range(12, len(data), 397):
        (tmp_path / "cut").write_bytes(data[:cut])
        found = convert_tfrecord(
            tmp_path / "cut", tmp_path / f"{cut}", on_error="skip", features={"image/label": np.int64}, num_workers=0
        )
        assert len(found.skipped) == 1
        assert found.num_records["train"] < 24
    with pytest.raises(CorruptShardError, match=r"cannot be read: the stream does not end|the file ends after"):
        convert_tfrecord(tmp_path / "cut", tmp_path / "data", resume=False)


def test_compression_that_is_not_what_it_is_said_to_be_is_an_error(tmp_path: Path) -> None:
    """Compressed files read as plain, plain ones as compressed, and something else altogether."""
    for name, compression in (("pictures.gz", "none"), ("pictures-00000-of-00002", "gzip"), ("tensorflow.json", "auto")):
        with pytest.raises(CorruptShardError):
            convert_tfrecord(FIXTURES / name, tmp_path / "data", compression=compression, resume=False)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_a_gzip_file_of_several_members_is_read_to_its_end(tmp_path: Path) -> None:
    """As `cat a.gz b.gz` makes it; a decompressed length that lies takes no memory."""
    parts = [(FIXTURES / f"pictures-0000{k}-of-00002").read_bytes() for k in range(2)]
    (tmp_path / "two.gz").write_bytes(b"".join(map(gzip.compress, parts)))
    convert_tfrecord(tmp_path / "two.gz", tmp_path / "data")
    assert read_records(tmp_path / "data") == {"train": PICTURES}

    header = write_tfrecord(tmp_path / "x", []).read_bytes() + (1 << 30).to_bytes(8, "little")
    lie = header + mask(load_crc32c()(header)).to_bytes(4, "little") + bytes(1000)
    (tmp_path / "lie").write_bytes(zlib.compress(lie))
    with pytest.raises(CorruptShardError, match=r"ends after 1000 of the 1073741828 bytes"):
        convert_tfrecord(tmp_path / "lie", tmp_path / "other", raw=True)


def test_a_record_of_seventy_megabytes_is_converted(tmp_path: Path) -> None:
    """Whole."""
    record = serialize_example({"x": [bytes(range(256)) * (70 << 12)]})
    (tmp_path / "large.gz").write_bytes(gzip.compress(write_tfrecord(tmp_path / "large", [record]).read_bytes(), 1))

    convert_tfrecord([tmp_path / "large", tmp_path / "large.gz"], tmp_path / "data", features={"x": np.bytes_}, num_workers=0)

    assert read_records(tmp_path / "data") == {"train": [record, record]}


def test_lists_of_two_kinds_under_one_key_are_named(tmp_path: Path) -> None:
    """With a record of each."""
    with pytest.raises(SchemaError, match=r"key 'a' is a list of int64 in record 2 of .*, but of float in record 7 of "):
        convert_tfrecord(FIXTURES / "examples.tfrecord", tmp_path / "data")


def test_records_that_do_not_fit_the_given_features_are_named(tmp_path: Path) -> None:
    """File, record and key."""
    for features, message in (
        ({"image/label": np.float32}, r"pictures-00000-of-00002, record 0: feature 'image/label': .*float"),
        ({"score": Field(np.float32)}, r"record 0: feature 'score': the record has no value for it"),
        ({"lengths": Field(np.int64, (2,))}, r"record 0: feature 'lengths'"),
        ({"digest": Image()}, r"record 0: feature 'digest': one encoded image expected"),
    ):
        with pytest.raises(DecodeError, match=message):
            convert_tfrecord(FIXTURES / "pictures@2", tmp_path / "data", features=features, resume=False)


def test_what_exists_is_not_overwritten_and_options_are_checked(tmp_path: Path) -> None:
    """Before anything is made."""
    shutil.copytree(FIXTURES / "shapes", tmp_path / "data")
    with pytest.raises(DatasetExistsError):
        convert_tfrecord(FIXTURES / "pictures@2", tmp_path / "data")
    for options, message in (
        ({"on_error": "ignore"}, "on_error must be 'raise' or 'skip', got 'ignore'"),
        ({"num_shards": 0}, "num_shards must be 1 or more"),
        ({"codec": "lzma"}, "codec 'lzma' is unknown"),
        ({"raw": True, "features": {}}, "features have no meaning"),
        ({"group_size": 2}, "group_size needs raw=True"),
    ):
        with pytest.raises(ValueError, match=message):
            convert_tfrecord(FIXTURES / "pictures@2", tmp_path / "new", **options)
    with pytest.raises(ValueError, match="num_shards cannot be kept"):
        convert_tfrecord(FIXTURES / "pictures.gz", tmp_path / "new", num_shards=2)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
