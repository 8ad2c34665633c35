"""What a directory says about itself: read, written, damaged."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arrayfeed.datasource.errors import DataError, DatasetNotFoundError, SchemaError
from arrayfeed.datasource.features import ClassLabel, FeaturesDict, Image, LabeledImage, Sequence, Tensor, Text
from arrayfeed.datasource.tfds import DatasetInfo, SplitInfo, shard_paths
from arrayfeed.datasource.tfds.filenames import check_split_name, shard_filenames

FIXTURES = Path(__file__).parents[2] / "fixtures" / "tfds"
EVERY = FIXTURES / "every_feature" / "1.0.0"

FEATURES = FeaturesDict({"image": Image(shape=(28, 28, 1)), "label": ClassLabel(names=["a", "b c"])})
INFO = DatasetInfo(
    name="digits",
    version="1.2.3",
    features=FEATURES,
    splits=(SplitInfo("train", (10, 5), 1500), SplitInfo("test", ())),
    description="Ünïcode.\nTwo lines.",
    citation="@x{}",
    license="CC0",
    urls=("https://example.org",),
    config_name="small",
    config_description="c",
    alternative_file_formats=("tfrecord",),
    supervised_keys=("image", {"l": "label", "t": ("label", "image")}),
    release_notes={"1.2.3": "n"},
    metadata={"a": [1, None, {"é": 2.5}]},
    disable_shuffling=True,
    other={"moduleName": "m", "downloadSize": "12"},
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    INFO.write(tmp_path)
    assert DatasetInfo.read(tmp_path) == INFO
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("LICENSE", "dataset_info.json", "empty_splits.json", "features.json", "label.labels.txt", "metadata.json"),
    ]


def test_the_least_there_can_be_is_read(tmp_path: Path) -> None:
    info = DatasetInfo(name="x", version="", features=FeaturesDict({}))
    info.write(tmp_path)
    assert DatasetInfo.read(tmp_path) == info


@pytest.mark.parametrize("place", ["every_feature/1.0.0", "unreadable/1.0.0", "numbers/small/1.2.0", "numbers/small/1.10.0"])
def test_what_tfds_wrote_is_written_the_same(place: str, tmp_path: Path) -> None:
    """Every file, entry by entry."""
    theirs = FIXTURES / place
    DatasetInfo.read(theirs).write(tmp_path)
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {
        path.name for path in theirs.iterdir() if "array_record" not in path.name and "expected" not in path.name
    }
    for name in written:
        ours, original = (tmp_path / name).read_text(), (theirs / name).read_text()
        assert json.loads(ours) == json.loads(original) if name.endswith(".json") else ours == original


def test_everything_that_tfds_wrote_is_understood() -> None:
    info = DatasetInfo.read(EVERY)
    assert (info.name, info.version, info.license, info.citation) == ("every_feature", "1.0.0", "CC0", "@a{b}")
    assert info.urls == ("https://example.org",)
    assert info.supervised_keys == ("image_rgb", {"l": "label", "t": ("text", "bbox_None")})
    assert info.metadata == {"key": [1, 2]}
    assert [(split.name, split.shard_lengths, split.num_records) for split in info.splits] == [("train", (4,), 4)]
    assert info.features["label"] == ClassLabel(names=["cat", "dog", "a bird"])
    named: list[Any] = [info.features["with/slash"], info.features["sequence_label"], info.features["labeled_image"]]
    assert [feature.names for feature in named] == [["s", "t"], ["x", "y"], ["sky", "sea"]]


def write_info(directory: Path, form: Any, features: Any = None) -> Path:
    (directory / "dataset_info.json").write_text(form if isinstance(form, str) else json.dumps(form))
    features = FEATURES.to_json() if features is None else features
    (directory / "features.json").write_text(features if isinstance(features, str) else json.dumps(features))
    return directory


def test_older_spellings_are_read(tmp_path: Path) -> None:
    """snake_case, plain integers, the pair of supervised keys, no template, no format."""
    form = {
        "name": "x",
        "version": "1.0.0",
        "file_format": "array_record",
        "alternative_file_formats": ["TFRECORD"],
        "splits": [
            {"name": "train", "shard_lengths": [3, "4"], "num_bytes": 7, "statistics": {"a": 1}, "filepath_template": ""}
        ],
        "supervised_keys": {"input": "image", "output": "label"},
        "redistribution_info": {"license": "L"},
        "is_blocked": "broken",
        "size_in_bytes": "5",
    }
    info = DatasetInfo.read(write_info(tmp_path, form))
    assert info.splits == (SplitInfo("train", (3, 4), 7),)
    assert info.supervised_keys == ("image", "label")
    assert (info.file_format, info.alternative_file_formats, info.license) == ("array_record", ("tfrecord",), "L")
    assert info.blocked == "broken"
    assert info.other == {"sizeInBytes": "5"}
    assert DatasetInfo.read(write_info(tmp_path, {"name": "x"})).file_format == "tfrecord"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "tuple", "items", "dict", "a"]), inner)
    ),
    max_leaves=5,
)
ENTRIES = [
    *("version", "splits", "location", "redistributionInfo", "releaseNotes", "supervisedKeys", "fileFormat", "features"),
    *("alternativeFileFormats", "isBlocked", "disableShuffling", "configName", "schema"),
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    form=st.dictionaries(st.sampled_from(ENTRIES), JSON),
    split=st.dictionaries(st.sampled_from(["name", "shardLengths", "numBytes", "filepathTemplate", "numShards"]), JSON),
)
def test_any_description_is_understood_or_refused(form: dict[str, Any], split: dict[str, Any], tmp_path: Path) -> None:
    """Whatever stands in the place of an entry: nothing but a ``DataError``, which names the file, comes of it."""
    for each in (form, {**form, "splits": [split]}):
        try:
            DatasetInfo.read(write_info(tmp_path, {"name": "x", **each}))
        except DataError as error:
            assert error.path == os.fspath(tmp_path / "dataset_info.json")


def test_null_is_as_if_it_were_left_out(tmp_path: Path) -> None:
    """As in all protocol-buffer JSON."""
    form = {"name": "x", **dict.fromkeys(ENTRIES), "splits": [{"name": "t", "shardLengths": ["3"], "numBytes": None}]}

    features = FeaturesDict({"t": Text()})

    assert DatasetInfo.read(write_info(tmp_path, form, features.to_json())) == DatasetInfo(
        "x", "", features, (SplitInfo("t", (3,)),), file_format="tfrecord"
    )


def test_features_may_be_part_of_the_description(tmp_path: Path) -> None:
    """A file of their own comes first."""
    write_info(tmp_path, {"name": "x", "features": FEATURES.to_json()}, FeaturesDict({"other": Text()}).to_json())
    assert DatasetInfo.read(tmp_path).features == FeaturesDict({"other": Text()})
    (tmp_path / "features.json").unlink()
    assert DatasetInfo.read(tmp_path).features["label"] == ClassLabel(2)
    write_info(tmp_path, {"name": "x", "features": {"text": {}}})
    (tmp_path / "features.json").unlink()
    with pytest.raises(SchemaError, match=r"dataset_info.json: a FeaturesDict expected"):
        DatasetInfo.read(tmp_path)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("{", "dataset_info.json: not JSON"),
        ("[]", "an object expected"),
        ("[" * 100_000, "not JSON"),
        ("\ufeff", "not JSON"),
        ({}, "the dataset has no name"),
        ({"name": "x", "splits": [3]}, "a split: an object expected"),
        (
            {"name": "x", "splits": [{"name": "t", "shardLengths": ["many"]}]},
            "split 't', shardLengths: a number expected, got 'many'",
        ),
        ({"name": "x", "splits": [{"name": "t", "shardLengths": [-1]}]}, "a number expected"),
        ({"name": "x", "splits": [{"name": "t", "numShards": "4"}]}, "split 't': the records in each shard are not listed"),
        ({"name": "x", "location": 5}, "location: an object expected"),
        ({"name": "x", "location": {"urls": 5}}, "urls: a list expected, got '5'"),
        ({"name": "x", "splits": {}}, "splits: a list expected"),
        ({"name": "x", "splits": [{"name": "t", "shardLengths": 5}]}, "shardLengths: a list expected"),
        ({"name": "x", "releaseNotes": "none"}, "releaseNotes: an object expected"),
        ({"name": "x", "supervisedKeys": {"tuple": {"items": 5}}}, "items: a list expected"),
        ({"name": "x", "supervisedKeys": {"dict": 5}}, "supervisedKeys: an object expected"),
    ],
)
def test_a_description_that_cannot_be_understood_is_named(form: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message) as caught:
        DatasetInfo.read(write_info(tmp_path, form))
    assert caught.value.path == os.fspath(tmp_path / "dataset_info.json")


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ("{", "not JSON"),
        ("{}", "a feature without content"),
        ('{"text": {}}', "a FeaturesDict expected for the whole example, got Text"),
        ('{"featuresDict": {"features": {"a": {"tensor": {"dtype": "int5"}}}}}', "no dtype is called 'int5'"),
    ],
)
def test_features_that_cannot_be_understood_are_named(features: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message) as caught:
        DatasetInfo.read(write_info(tmp_path, {"name": "x"}, features))
    assert caught.value.path == os.fspath(tmp_path / "features.json")


def test_what_is_missing_is_said_and_where_it_may_be(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError, match="no such directory"):
        DatasetInfo.read(tmp_path / "nowhere")
    with pytest.raises(DatasetNotFoundError, match=r"no dataset_info.json in it$"):
        DatasetInfo.read(tmp_path)
    with pytest.raises(DatasetNotFoundError, match=r"no dataset_info.json in it; there is one in small.1.10.0, small.1.2.0"):
        DatasetInfo.read(FIXTURES / "numbers")
    write_info(tmp_path, {"name": "x"})
    (tmp_path / "features.json").unlink()
    with pytest.raises(DatasetNotFoundError, match=r"prepared by TFDS before 4\.0"):
        DatasetInfo.read(tmp_path)


def test_what_json_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        dataclasses.replace(INFO, metadata={"x": np.zeros(1)}).write(tmp_path)
    assert not (tmp_path / "dataset_info.json").exists()


# -- shards ---------------------------------------------------------------------------------------------------------


def test_shards_are_named_by_template() -> None:
    paths = shard_paths("/d", INFO, "train")
    assert paths == [Path(f"/d/digits-train.array_record-0000{n}-of-00002") for n in range(2)]


def test_shards_of_real_directories_are_there() -> None:
    directory = FIXTURES / "numbers" / "small" / "1.2.0"
    info = DatasetInfo.read(directory)
    for split in info.splits:
        paths = shard_paths(directory, info, split.name)
        assert len(paths) == len(split.shard_lengths)
        assert all(path.is_file() for path in paths)


def test_unknown_splits_list_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"no split is called 'valid'; digits has \['train', 'test'\]"):
        shard_paths("/d", INFO, "valid")


def test_other_formats_say_how_to_convert_them() -> None:
    info = dataclasses.replace(INFO, file_format="tfrecord", alternative_file_formats=())
    with pytest.raises(DatasetNotFoundError, match=r'in tfrecord format.*file_format="array_record"'):
        shard_paths("/d", info, "train")
    both = dataclasses.replace(INFO, file_format="tfrecord", alternative_file_formats=("riegeli", "array_record"))
    assert shard_paths("/d", both, "train") == shard_paths("/d", INFO, "train")


def names(template: str, num_shards: int = 2) -> list[str]:
    return shard_filenames(num_shards, dataset="d", split="s", file_format="f", template=template)


def test_every_variable_of_a_template_is_known() -> None:
    assert names("{DATASET}/{SPLIT}.{FILEFORMAT}@{SHARD_INDEX}_{NUM_SHARDS}_{SHARD_X_OF_Y}") == [
        "d/s.f@00000_00002_00000-of-00002",
        "d/s.f@00001_00002_00001-of-00002",
    ]
    assert names("") == ["d-s.f-00000-of-00002", "d-s.f-00001-of-00002"]
    assert names("x", 1) == ["x"]
    assert names("x", 0) == []


def test_numbers_grow_with_the_number_of_shards() -> None:
    many = names("{SHARD_X_OF_Y}", 100_001)
    assert (many[0], many[-1]) == ("000000-of-100001", "100000-of-100001")


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{NOPE}", "no variable {NOPE}"),
        ("{DATASET:>99999999}", "no variable"),
        ("{DATASET.__class__}", "no variable"),
        ("{}", "no variable"),
        ("../{SHARD_INDEX}", "lead out of the dataset's directory"),
        ("/etc/{SHARD_INDEX}", "lead out of the dataset's directory"),
        ("{SPLIT}", "the same for all 2 shards"),
    ],
)
def test_templates_that_cannot_be_used_say_why(template: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        names(template)


@pytest.mark.parametrize("name", ["train", "a-b", "x_1", "7", "épreuve"])
def test_names_of_splits(name: str) -> None:
    assert check_split_name(name) == name


@pytest.mark.parametrize("name", ["", "-", "__", "a b", "a/b", "a[b]", "all", "a+b"])
def test_names_that_a_split_string_cannot_say(name: str) -> None:
    with pytest.raises(ValueError, match="a split is called by"):
        check_split_name(name)


# -- names of classes -----------------------------------------------------------------------------------------------


def test_class_names_have_files_of_their_own(tmp_path: Path) -> None:
    """A "/" in a name becomes ".", levels are joined by "-", sequences add nothing."""
    label = ClassLabel(names=["x y", "é"])
    features = FeaturesDict(
        {
            "a/b": label,
            "seq": Sequence(label),
            "objs": Sequence({"kind": label, "deep": {"er": label}}),
            "mask": LabeledImage(labels=["m"]),
            "number": ClassLabel(5),
            "other": Text(),
        }
    )
    info = dataclasses.replace(INFO, features=features)
    info.write(tmp_path)
    files = sorted(path.name.removesuffix(".labels.txt") for path in tmp_path.glob("*.labels.txt"))
    assert files == ["a.b", "mask", "objs-deep-er", "objs-kind", "seq"]
    assert (tmp_path / "seq.labels.txt").read_text() == "x y\né\n"
    assert DatasetInfo.read(tmp_path).features == features


def test_missing_class_names_are_numbers(tmp_path: Path) -> None:
    INFO.write(tmp_path)
    (tmp_path / "label.labels.txt").unlink()
    assert DatasetInfo.read(tmp_path).features["label"] == ClassLabel(2)


def test_class_names_are_read_leniently(tmp_path: Path) -> None:
    """Lines are stripped, empty ones dropped."""
    INFO.write(tmp_path)
    (tmp_path / "label.labels.txt").write_text("\n  a\r\n\nb c \n\n")
    assert DatasetInfo.read(tmp_path).features["label"] == FEATURES["label"]


def test_class_names_that_do_not_fit_are_an_error(tmp_path: Path) -> None:
    INFO.write(tmp_path)
    path = tmp_path / "label.labels.txt"
    path.write_text("a\nb\nc\n")
    with pytest.raises(SchemaError, match="2 classes, but 3 names") as caught:
        DatasetInfo.read(tmp_path)
    assert caught.value.path == os.fspath(path)


@pytest.mark.parametrize("name", ["", " a", "a\nb", "a\t"])
def test_class_names_that_would_not_be_read_back_are_refused(name: str, tmp_path: Path) -> None:
    features = FeaturesDict({"k": ClassLabel(names=["ok", name])})
    with pytest.raises(SchemaError, match=r"feature 'k': class name .* does not fit on one line"):
        dataclasses.replace(INFO, features=features).write(tmp_path)


def test_kinds_of_features_survive_the_reading_of_names(tmp_path: Path) -> None:
    """Only what changes is made anew."""
    features = FeaturesDict({"t": Tensor(shape=(2,), dtype=np.int8), "label": ClassLabel(names=["a"])})
    dataclasses.replace(INFO, features=features).write(tmp_path)
    assert DatasetInfo.read(tmp_path).features == features
