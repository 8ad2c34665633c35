"""features.json: today's spelling, older ones, and what is none."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from arrayfeed.datasource.errors import SchemaError
from arrayfeed.datasource.features import (
    Audio,
    BBoxFeature,
    ClassLabel,
    Dataset,
    Feature,
    FeaturesDict,
    Image,
    LabeledImage,
    Scalar,
    Sequence,
    Tensor,
    Text,
    Translation,
    TranslationVariableLanguages,
    Video,
)

PREFIX = "tensorflow_datasets.core.features."

# As TFDS wrote before it had protocol buffers.
PLAIN: list[tuple[str, dict[str, Any], Feature]] = [
    (
        "image_feature.Image",
        {"shape": [None, None, 3], "dtype": "uint8", "encoding_format": "png"},
        Image(encoding_format="png"),
    ),
    ("image_feature.Image", {"shape": [28, 28, 1], "dtype": "uint8", "encoding_format": None}, Image(shape=(28, 28, 1))),
    ("class_label_feature.ClassLabel", {"num_classes": 10}, ClassLabel(10)),
    ("class_label_feature.ClassLabel", {}, ClassLabel()),
    ("tensor_feature.Tensor", {"shape": [], "dtype": "int64"}, Tensor(shape=(), dtype=np.int64)),
    ("feature.Tensor", {"shape": [None, 2], "dtype": "string"}, Tensor(shape=(None, 2), dtype=str)),
    (
        "tensor_feature.Tensor",
        {"shape": [2], "dtype": "float64", "encoding": "zlib"},
        Tensor(shape=(2,), dtype=float, encoding="zlib"),
    ),
    ("text_feature.Text", {}, Text(optional=True)),
    ("text_feature.Text", {"use_encoder": False}, Text(optional=True)),
    ("bounding_boxes.BBoxFeature", {"bbox_format": "XYWH"}, BBoxFeature(bbox_format="XYWH")),
    (
        "audio_feature.Audio",
        {"file_format": "wav", "shape": [None], "dtype": "int64", "sample_rate": 16000},
        Audio(file_format="wav", sample_rate=16000),
    ),
    (
        "video_feature.Video",
        {"shape": [None, 8, 8, 3], "encoding_format": "png", "ffmpeg_extra_args": ["-a"]},
        Video((None, 8, 8, 3), ffmpeg_extra_args=["-a"]),
    ),
    ("translation_feature.Translation", {"languages": ["fr", "en"]}, Translation(["en", "fr"])),
    ("translation_feature.TranslationVariableLanguages", {"languages": ["en"]}, TranslationVariableLanguages(["en"])),
    ("labeled_image.LabeledImage", {"labels": 3, "shape": [None, None, 1], "dtype": "uint8"}, LabeledImage(labels=3)),
    (
        "sequence_feature.Sequence",
        {"feature": {"type": "tensor_feature.Tensor", "content": {"shape": [], "dtype": "int32"}}, "length": None},
        Sequence(np.int32),
    ),
    ("sequence_feature.Sequence", {"feature": {"type": "x.Text", "content": {}}, "length": 3}, Sequence(Text(), 3)),
    ("dataset_feature.Dataset", {"feature": {"type": "x.Text", "content": {}}, "length": None}, Dataset(Text())),
    (
        "features_dict.FeaturesDict",
        {"a": {"type": "x.Text", "content": {}}, "features": {"type": "x.ClassLabel", "content": {"num_classes": 2}}},
        FeaturesDict({"a": Text(), "features": ClassLabel(2)}),
    ),
]


@pytest.mark.parametrize(("name", "content", "expected"), PLAIN)
def test_plain_forms_are_read(name: str, content: dict[str, Any], expected: Feature) -> None:
    """{"type": ..., "content": {...}} in snake_case, shapes with null."""
    found = Feature.from_json({"type": PREFIX + name, "content": content})
    assert found == expected


FEATURES = [
    FeaturesDict({"a": {"b": np.int32}, "c": Sequence({"d": Text()}), "e": {}}),
    Image(shape=(None, 5, 4), dtype=np.uint16, encoding_format="png"),
    Image(shape=(5, 5, 1), use_colormap=True, description="what", value_range="0..1"),
    LabeledImage(labels=5),
    ClassLabel(7),
    Tensor(shape=(None, 0, 3), dtype="bfloat16", encoding="bytes", minimum=-1, maximum=2**62, optional=True),
    Scalar(np.float16, optional=True),
    Sequence(np.int32, length=0),
    Sequence(np.int32, length=7),
    Dataset({"a": Sequence(Sequence(Image()))}),
    Video((3, None, None, 1), encoding_format="jpeg", dtype=np.uint8),
    Audio(shape=(None, 2), dtype=np.float32, encoding="zlib", sample_rate=44100, file_format="flac", lazy_decode=True),
    BBoxFeature(bbox_format=None),
    Translation(["x", "a"]),
    TranslationVariableLanguages(),
    TranslationVariableLanguages(["b", "a"]),
]


@pytest.mark.parametrize("feature", FEATURES, ids=repr)
def test_every_feature_comes_back_from_its_own_form(feature: Feature) -> None:
    form = json.loads(json.dumps(feature.to_json()))
    found = Feature.from_json(form)
    assert found == feature
    assert (found.description, found.value_range) == (feature.description, feature.value_range)
    assert found.to_json() == feature.to_json()


def test_snake_case_and_plain_integers_mean_the_same() -> None:
    form = {
        "python_class_name": PREFIX + "sequence_feature.Sequence",
        "value_range": "v",
        "sequence": {"length": 3, "feature": {"python_class_name": "ClassLabel", "class_label": {"num_classes": 4}}},
    }
    found = Feature.from_json(form)
    assert found == Sequence(ClassLabel(4), 3, value_range="v")


def test_a_missing_length_is_zero_as_in_protocol_buffers() -> None:
    form = {"pythonClassName": "Sequence", "sequence": {"feature": {"text": {}}}}
    assert Feature.from_json(form) == Sequence(Text(), 0)


def test_a_subclass_from_elsewhere_opens_as_what_it_extends() -> None:
    """TFDS would import its module, and fail where that is not installed."""
    form = {
        "pythonClassName": "my.project.PrettyImage",
        "image": {"shape": {"dimensions": ["-1", "-1", "3"]}, "dtype": "uint8"},
    }
    assert Feature.from_json(form) == Image()
    form = {"pythonClassName": "my.Languages", "translation": {"variableLanguagesPerExample": True}}
    assert Feature.from_json(form) == TranslationVariableLanguages()


def test_json_features_of_known_classes_are_read() -> None:
    form = {"pythonClassName": PREFIX + "class_label_feature.ClassLabel", "jsonFeature": {"json": '{"num_classes": 3}'}}
    assert Feature.from_json(form) == ClassLabel(3)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (None, "an object expected"),
        ([], "an object expected"),
        ({}, "a feature without content"),
        ({"pythonClassName": "x.Y"}, "a feature without content"),
        ({"pythonClassName": "x.Y", "hologram": {}}, "unknown kind"),
        ({"pythonClassName": "x.Y", "jsonFeature": {"json": "{}"}}, "class 'x.Y' are not known here"),
        ({"type": "x.Y", "content": {}}, "class 'x.Y' are not known here"),
        ({"type": "Text", "content": {"use_encoder": True}}, "prepare it as plain text"),
        ({"pythonClassName": "x.Text", "jsonFeature": {"json": '{"use_encoder": true}'}}, "plain text"),
        ({"type": "Translation", "content": {"use_encoder": True}}, "encoder"),
        ({"tensor": {"shape": {}}}, "'dtype' is missing"),
        ({"tensor": {"dtype": "int33"}}, "no dtype is called 'int33'"),
        ({"tensor": {"dtype": "int32", "encoding": "lz4"}}, "encoding must be one of"),
        ({"tensor": {"dtype": "int32", "shape": {"dimensions": ["many"]}}}, "invalid literal"),
        ({"tensor": 5}, "cannot be read"),
        ({"classLabel": {"numClasses": "x"}}, "invalid literal"),
        ({"sequence": {}}, "'feature' is missing"),
        ({"sequence": {"feature": {"text": None}}}, "cannot be read"),
        ({"featuresDict": {"features": {"a": {"image": {"shape": {"dimensions": ["3"]}, "dtype": "uint8"}}}}}, "height"),
        ({"type": "Tensor", "content": "{"}, "cannot be read"),
        ({"type": "Tensor", "content": None}, "cannot be read"),
    ],
)
def test_what_is_no_feature_says_so(form: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Feature.from_json(form)


def test_features_nested_without_end_are_refused() -> None:
    form: dict[str, Any] = {"text": {}}
    for _ in range(500):
        form = {"sequence": {"feature": form, "length": "-1"}}
    with pytest.raises(SchemaError, match="nested deeper than 64"):
        Feature.from_json(form)
