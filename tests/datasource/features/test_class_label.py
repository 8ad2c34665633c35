"""Class labels by name and number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from arrayfeed.datasource.errors import SchemaError
from arrayfeed.datasource.features import ClassLabel, LabeledImage


def test_names_and_numbers_are_two_ways_to_say_the_same() -> None:
    label = ClassLabel(names=["cat", "dog"])
    assert label.num_classes == 2
    assert [label.str2int(name) for name in label.names] == [0, 1]
    assert [label.int2str(number) for number in (0, 1)] == ["cat", "dog"]
    for value in ("dog", b"dog", 1, np.int32(1), np.array(1)):
        assert label.decode(label.encode(value)) == 1


def test_without_names_numbers_are_names() -> None:
    label = ClassLabel(3)
    assert (label.names, label.has_names) == (["0", "1", "2"], False)
    assert (label.str2int("2"), label.int2str(2)) == (2, "2")


def test_minus_one_means_no_label() -> None:
    assert ClassLabel(3).decode(ClassLabel(3).encode(-1)) == -1


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("bird", "no class is called 'bird'; there are 'cat', 'dog'"),
        (2, "a label from -1 to 1 expected, got 2"),
        (-2, "a label from -1 to 1 expected, got -2"),
        (0.5, "int64 expected"),
        (None, "got None"),
        ([0], "shape"),
    ],
)
def test_what_is_no_class_is_refused(value: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        ClassLabel(names=["cat", "dog"]).encode(value)


@pytest.mark.parametrize("name", ["3", "-1", "", "one", "1.0"])
def test_a_number_that_is_no_class_is_no_name(name: str) -> None:
    with pytest.raises(ValueError, match="no class is called"):
        ClassLabel(3).str2int(name)


@pytest.mark.parametrize("number", [-1, 3])
def test_a_number_out_of_range_has_no_name(number: int) -> None:
    with pytest.raises(ValueError, match=f"class {number} of 3"):
        ClassLabel(3).int2str(number)


def test_names_must_be_different_and_as_many_as_classes() -> None:
    with pytest.raises(SchemaError, match="two classes are called 'a'"):
        ClassLabel(names=["a", "b", "a"])
    with pytest.raises(SchemaError, match="3 classes, but 2 names"):
        ClassLabel(3, names=["a", "b"])


def test_an_unknown_number_of_classes_cannot_be_written() -> None:
    with pytest.raises(SchemaError, match="number of classes is unknown"):
        ClassLabel().encode(0)


def test_many_classes_are_not_all_listed() -> None:
    with pytest.raises(ValueError, match=r"'0', .*'9', ... \(1000 in all\)"):
        ClassLabel(1000).str2int("x")


def test_labels_with_other_names_are_other_features() -> None:
    assert ClassLabel(names=["a", "b"]) == ClassLabel(names=["a", "b"])
    assert ClassLabel(names=["a", "b"]) != ClassLabel(names=["a", "c"]) != ClassLabel(2)


def test_an_image_of_labels_has_classes_too() -> None:
    image = LabeledImage(labels=["sky", "sea"])
    assert (image.num_classes, image.names, image.shape) == (2, ["sky", "sea"], (None, None, 1))
    assert image.with_names(["a", "b"]).names == ["a", "b"]
    assert LabeledImage(labels=7).names[-1] == "6"
    assert LabeledImage(labels=None).num_classes is None
    with pytest.raises(SchemaError, match="one channel"):
        LabeledImage(labels=2, shape=(None, None, 3))
