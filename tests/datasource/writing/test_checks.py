"""Names, versions, limits and metadata."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrayfeed.datasource.writing.checks import check_limit, check_metadata, check_name, check_version, default_name


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/data/digits", "digits"),
        ("/data/digits/1.0.0", "digits"),
        ("/data/my-digits 2", "my_digits_2"),
        ("/data/3d", "data_3d"),
        ("/data/ärger", "data__rger"),
        ("/", "data_"),
    ],
)
def test_a_name_is_made_from_the_directory(path: str, name: str) -> None:
    """Whatever a directory is called, TFDS takes the name that is made of it."""
    assert default_name(path) == name
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", "3d", "a-b", "a b", "a/b", "_a", "ä", "a\n"])
def test_names_that_tfds_refuses_are_refused(name: str) -> None:
    """They would make shards that TFDS does not find."""
    with pytest.raises(ValueError, match="name must be a letter followed by"):
        check_name(name)


@pytest.mark.parametrize("version", ["", "1", "1.0", "1.0.0.0", "01.0.0", "1.0.x", "v1.0.0", "1.0.0\n", "-1.0.0", "1.0.٣"])
def test_a_version_is_three_integers(version: str) -> None:
    """Others would not be found under their number."""
    assert check_version("1.20.0") == "1.20.0"
    with pytest.raises(ValueError, match="version must be three integers"):
        check_version(version)


def test_limits_are_one_or_more() -> None:
    """None is no limit."""
    assert check_limit("shard_bytes", None) is None
    assert check_limit("shard_bytes", 1) == 1
    with pytest.raises(ValueError, match="shard_records must be 1 or more, got 0"):
        check_limit("shard_records", 0)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_metadata_that_are_let_through_come_back_equal(metadata: Any) -> None:
    """Unicode, nesting and large integers survive JSON."""
    check_metadata(metadata)

    assert json.loads(json.dumps(metadata)) == metadata


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"a": [1, {"b": np.int64(3)}]}, r"metadata\['a'\]\[1\]\['b'\]: int64 is not what JSON holds"),
        ({"a": {1: 2}}, r"metadata\['a'\]: keys must be strings, got 1"),
        ([b"raw"], r"metadata\[0\]: bytes is not"),
        ({"loss": float("nan")}, r"metadata\['loss'\]: JSON has no nan"),
        ({"loss": (1, float("inf"))}, r"metadata\['loss'\]\[1\]: JSON has no inf"),
        (object(), "metadata: object is not"),
    ],
)
def test_what_json_does_not_hold_is_named_at_once(metadata: Any, message: str) -> None:
    """Not at the end of the write, and with the place of the culprit."""
    with pytest.raises(TypeError, match=message):
        check_metadata(metadata)
