"""What TFDS prepared in TFRecord format, and ArrayRecord files of any kind, written anew record for record."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import arrayfeed
from arrayfeed import ArrayRecordDataSource, verify
from arrayfeed.datasource.converting import convert_arrayrecord, convert_tfds
from arrayfeed.datasource.errors import CorruptShardError, DatasetNotFoundError, ShardNotFoundError
from arrayfeed.datasource.features import ClassLabel
from arrayfeed.datasource.tfds import DatasetInfo
from support.digits import write_digits
from support.neutral import load
from support.shards import write_shard
from support.tfrecords import FIXTURES
from support.written import read_examples, read_records

SHAPES = FIXTURES / "shapes" / "1.0.0"
NUMBERS = FIXTURES.parent / "tfds" / "numbers" / "small" / "1.2.0"


def records_of_tfrecord(directory: Path) -> dict[str, list[bytes]]:
    """Return what TFDS wrote, by splits, the shards in their order."""
    found = {}
    for split in ("train", "test"):
        files = sorted(map(str, directory.glob(f"shapes-{split}.tfrecord-*")))
        found[split] = [record for file in files for record in arrayfeed.TFRecordSource(file)]
    return found


def lengths_of(path: Path) -> dict[str, tuple[int, ...]]:
    return {split.name: split.shard_lengths for split in DatasetInfo.read(path).splits}


# -- TFDS in TFRecord format ------------------------------------------------------------------------------------------


def test_a_tfds_directory_comes_over_record_for_record(tmp_path: Path) -> None:
    """Features, splits, shards, class names, description and metadata as they were; no byte of a record is changed."""
    found = convert_tfds(SHAPES, tmp_path / "shapes")

    assert read_records(tmp_path / "shapes") == records_of_tfrecord(SHAPES)
    before, after = DatasetInfo.read(SHAPES), DatasetInfo.read(tmp_path / "shapes")
    assert after == dataclasses.replace(before, file_format="array_record")
    label = after.features["label"]
    assert isinstance(label, ClassLabel) and label.names == ["disc", "square", "stripes"]
    assert verify(tmp_path / "shapes", root=found.root).ok


def test_what_tfds_itself_read_is_what_is_read_here(tmp_path: Path) -> None:
    """Pixels, labels, texts and sequences."""
    convert_tfds(SHAPES, tmp_path / "shapes")

    said = json.loads((FIXTURES / "shapes.json").read_text())
    for split, source in arrayfeed.open(tmp_path / "shapes").items():
        expected = [load(form) for form in said[split]]
        assert len(source) == len(expected)
        for example, other in zip(source, expected, strict=True):
            assert example.keys() == other.keys()
            for key in example:
                np.testing.assert_array_equal(np.asarray(example[key]), np.asarray(other[key]))


def test_shards_are_cut_anew_where_that_is_asked_for(tmp_path: Path) -> None:
    """The records stay in their order; name and version can be others."""
    convert_tfds(SHAPES, tmp_path / "data", num_shards=2, name="other", version="2.0.0")

    assert lengths_of(tmp_path / "data") == {"train": (10, 10), "test": (2, 3)}
    assert read_records(tmp_path / "data") == records_of_tfrecord(SHAPES)
    info = DatasetInfo.read(tmp_path / "data")
    assert (info.name, info.version, info.citation) == ("other", "2.0.0", "@a{b}")


def test_a_damaged_or_missing_shard_is_named(tmp_path: Path) -> None:
    """Or its record skipped."""
    shutil.copytree(SHAPES, tmp_path / "shapes")
    shard = tmp_path / "shapes" / "shapes-train.tfrecord-00001-of-00003"
    data = bytearray(shard.read_bytes())
    data[50] ^= 1
    shard.write_bytes(data)

    with pytest.raises(CorruptShardError, match=r"train\.tfrecord-00001-of-00003, record 0"):
        convert_tfds(tmp_path / "shapes", tmp_path / "data")
    found = convert_tfds(tmp_path / "shapes", tmp_path / "data", on_error="skip")

    expected = records_of_tfrecord(SHAPES)
    assert found.num_records == {"train": 19, "test": 5}
    assert read_records(tmp_path / "data") == {"train": expected["train"][:7] + expected["train"][8:], "test": expected["test"]}
    shard.unlink()
    with pytest.raises(ShardNotFoundError, match="1 of 3 shards of split 'train' are missing"):
        convert_tfds(tmp_path / "shapes", tmp_path / "other")
    with pytest.raises(DatasetNotFoundError, match=r"array_record format, not tfrecord; convert_arrayrecord\(\)"):
        convert_tfds(NUMBERS, tmp_path / "other")


# -- ArrayRecord ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "lengths"),
    [
        ({}, {"train": (1437,), "test": (360,)}),
        ({"num_shards": 3, "codec": "brotli:1"}, {"train": (479,) * 3, "test": (120,) * 3}),
        ({"shard_records": 1000, "codec": "none"}, {"train": (1000, 437), "test": (360,)}),
    ],
)
def test_a_data_set_is_cut_and_compressed_anew(
    tmp_path: Path, options: dict[str, Any], lengths: dict[str, tuple[int, ...]]
) -> None:
    """Records, description and order of splits stay; as many shards as asked for, in that codec."""
    source = write_digits(tmp_path / "digits")

    found = convert_arrayrecord(source, tmp_path / "new", **options)

    assert read_records(tmp_path / "new") == read_records(source)
    assert lengths_of(tmp_path / "new") == lengths
    before, after = DatasetInfo.read(source), DatasetInfo.read(tmp_path / "new")
    assert after == dataclasses.replace(before, splits=after.splits)
    assert verify(tmp_path / "new", root=found.root).ok


def test_a_data_set_that_tfds_wrote_is_written_anew(tmp_path: Path) -> None:
    """With its configuration's name and all else that is said of it."""
    convert_arrayrecord(NUMBERS, tmp_path / "new", num_shards=1)

    before, after = DatasetInfo.read(NUMBERS), DatasetInfo.read(tmp_path / "new")
    assert lengths_of(tmp_path / "new") == {"train": (25,), "test": (3,)}
    assert after == dataclasses.replace(before, splits=after.splits)
    assert [example["n"] for example in read_examples(tmp_path / "new")["train"]] == list(range(25))


@pytest.mark.parametrize("codec", ["none", "zstd", "snappy"])
def test_bare_files_are_cut_grouped_and_compressed_anew(tmp_path: Path, rng: np.random.Generator, codec: str) -> None:
    """From files of several codecs and group sizes; they stay bare."""
    records = [rng.bytes(int(size)) for size in rng.integers(0, 3000, 500)]
    write_shard(tmp_path / "a-00000-of-00002", records[:300], codec="zstd", group_size=7)
    write_shard(tmp_path / "a-00001-of-00002", records[300:], codec="brotli:1")

    convert_arrayrecord(tmp_path / "a@2", tmp_path / "new", codec=codec, group_size=50, num_shards=3, split="all-of-it")

    files = sorted((tmp_path / "new").iterdir())
    assert [file.name for file in files] == [f"new-all-of-it.array_record-0000{k}-of-00003" for k in range(3)]
    sources = [ArrayRecordDataSource(file, check="hash") for file in files]
    assert [record for source in sources for record in source] == records
    assert [len(source) for source in sources] == [166, 167, 167]
    assert (
        f"group_size:50,transpose:false,pad_to_block_boundary:false,{'uncompressed' if codec == 'none' else codec}"
        in options_of(files[0])
    )


def options_of(path: Path) -> str:
    from array_record.python.array_record_module import ArrayRecordReader

    reader = ArrayRecordReader(str(path))
    try:
        return str(reader.writer_options_string())
    finally:
        reader.close()


def test_bare_files_become_a_data_set_where_their_features_are_given(tmp_path: Path) -> None:
    """The records are the same; verify tells whether they hold what is said."""
    source = write_digits(tmp_path / "digits")
    info = DatasetInfo.read(source)

    convert_arrayrecord(
        {name: source / f"digits-{name}.array*" for name in ("train", "test")}, tmp_path / "new", features=info.features
    )

    assert read_records(tmp_path / "new") == read_records(source)
    assert verify(tmp_path / "new").ok


def test_a_damaged_record_is_named_or_skipped_alone(tmp_path: Path) -> None:
    """By the CRC32C in the record index; all others are kept."""
    source = write_digits(tmp_path / "digits")
    expected = read_records(source)
    shard = source / "digits-test.array_record-00000-of-00001"
    data = bytearray(shard.read_bytes())
    at = data.index(expected["test"][77][60:90])
    data[at] ^= 1
    shard.write_bytes(data)

    with pytest.raises(CorruptShardError, match=r"digits-test\.array_record-00000-of-00001, record 77"):
        convert_arrayrecord(source, tmp_path / "new")
    found = convert_arrayrecord(source, tmp_path / "new", on_error="skip")

    assert [(each.path, each.record) for each in found.skipped] == [(str(shard), 77)]
    del expected["test"][77]
    assert read_records(tmp_path / "new") == expected


def test_options_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    """Groups in a data set, features for one that has them."""
    for options in ({"group_size": 2}, {"features": {"n": np.int64}}):
        with pytest.raises(ValueError, match="a data set keeps its features, and has one record in each chunk"):
            convert_arrayrecord(NUMBERS, tmp_path / "new", **options)
    with pytest.raises(ValueError, match="group_size must be 1 or more"):
        convert_arrayrecord(NUMBERS / "*.array_record*", tmp_path / "new", group_size=0)
    assert not list(tmp_path.iterdir())
