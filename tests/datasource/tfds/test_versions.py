"""Where a dataset is kept under a root: configs, versions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from arrayfeed.datasource.errors import DatasetNotFoundError
from arrayfeed.datasource.tfds import DatasetInfo, find_dataset
from arrayfeed.datasource.tfds.versions import DatasetName, parse_version

FIXTURES = Path(__file__).parents[2] / "fixtures" / "tfds"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("numbers", "numbers/small/1.10.0"),
        ("numbers/small", "numbers/small/1.10.0"),
        ("numbers:1.2.0", "numbers/small/1.2.0"),
        ("numbers/small:1.2.*", "numbers/small/1.2.0"),
        ("numbers:1.*.*", "numbers/small/1.10.0"),
        ("numbers:*.*.*", "numbers/small/1.10.0"),
        ("EveryFeature", "every_feature/1.0.0"),
        ("every_feature:1.0.0", "every_feature/1.0.0"),
    ],
)
def test_names_lead_to_directories(name: str, expected: str) -> None:
    """The newest version that matches, by its numbers: 1.10 is newer than 1.2."""
    found = find_dataset(FIXTURES, name)
    assert found == FIXTURES / expected
    assert DatasetInfo.read(found).version == expected.rpartition("/")[2]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nope", r"no dataset is called 'nope'; there are every_feature, numbers, unreadable"),
        ("numbers/large", "no config is called 'large'; there are small"),
        ("numbers:2.*.*", r"no version 2\.\*\.\* of numbers.*; there are 1.2.0, 1.10.0"),
        ("every_feature/x", "no config is called 'x'; there are none"),
    ],
)
def test_what_is_not_there_lists_what_is(name: str, message: str) -> None:
    with pytest.raises(DatasetNotFoundError, match=message):
        find_dataset(FIXTURES, name)


@pytest.mark.parametrize("name", ["", "a b", "../x", "a:1", "a:1.2", "a:1.2.3.4", "a/b/c", "/a", "a:v1.0.0"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="a dataset is named"):
        find_dataset(FIXTURES, name)


def make(root: Path, *places: str) -> None:
    for place in places:
        (root / place).mkdir(parents=True)


def test_what_is_unfinished_hidden_or_no_version_is_not_looked_at(tmp_path: Path) -> None:
    make(tmp_path, "a/1.0.0", "a/2.0.0-rc", "a/01.0.0", "a/incomplete.XYZ_3.0.0", "a/.hidden", "downloads")
    assert find_dataset(tmp_path, "a") == tmp_path / "a" / "1.0.0"
    with pytest.raises(DatasetNotFoundError, match=r"there are a$"):
        find_dataset(tmp_path, "b")


def test_the_default_config_is_the_named_one_or_the_only_one(tmp_path: Path) -> None:
    make(tmp_path, "a/x/1.0.0")
    assert find_dataset(tmp_path, "a") == tmp_path / "a/x/1.0.0"
    make(tmp_path, "a/y/2.0.0")
    with pytest.raises(DatasetNotFoundError, match=r'none is the default; ask for "a/...": there are x, y'):
        find_dataset(tmp_path, "a")
    make(tmp_path, "a/.config")
    (tmp_path / "a/.config/metadata.json").write_text(json.dumps({"default_config_name": "y"}))
    assert find_dataset(tmp_path, "a") == tmp_path / "a/y/2.0.0"
    (tmp_path / "a/.config/metadata.json").write_text("damaged")
    make(tmp_path, "a/3.0.0")
    assert find_dataset(tmp_path, "a") == tmp_path / "a/3.0.0"


def test_a_missing_root_is_a_missing_dataset(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError, match="there are none"):
        find_dataset(tmp_path / "nowhere", "a")


def test_versions_are_three_numbers_without_leading_zeros() -> None:
    assert parse_version("1.20.3") == (1, 20, 3)
    assert [parse_version(text) for text in ("1.2", "1.2.3.4", "01.2.3", "1.2.x", "", "1.2.3 ")] == [None] * 6


def test_names_are_shown_as_they_are_written() -> None:
    for text in ("a", "a/b", "a:1.*.*", "a/b:1.2.3"):
        assert str(DatasetName.parse(text)) == text
