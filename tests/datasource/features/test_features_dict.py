"""Whole examples: what is in them, what is missing, and parts of them."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from arrayfeed.datasource.errors import DecodeError, SchemaError
from arrayfeed.datasource.features import (
    ClassLabel,
    Dataset,
    FeaturesDict,
    Image,
    Scalar,
    Sequence,
    SkipDecoding,
    Tensor,
    Text,
    with_decoders,
    with_options,
)
from support.equal import difference

FEATURES = FeaturesDict(
    {
        "z": np.int32,
        "image": Image(shape=(2, 2, 1)),
        "objects": Sequence(
            {"label": ClassLabel(names=["a", "b"]), "mask": Tensor(shape=(2,), dtype=np.int8, encoding="zlib")}
        ),
        "group": {"text": Text(), "inner": {"x": np.float32}},
        "steps": Dataset({"action": np.int64, "view": Image(shape=(2, 2, 1))}),
        "maybe": Scalar(np.int32, optional=True),
    }
)
PIXELS = np.arange(4, dtype=np.uint8).reshape(2, 2, 1)
MASK = np.array([1, 2], np.int8)
EXAMPLE: dict[str, Any] = {
    "z": 5,
    "image": PIXELS,
    "objects": [{"label": "b", "mask": MASK}],
    "group": {"text": "t", "inner": {"x": 0.5}},
    "steps": [{"action": 3, "view": PIXELS}],
}


def test_a_features_dict_is_a_mapping_of_features() -> None:
    assert list(FEATURES.keys()) == list(FEATURES) == ["z", "image", "objects", "group", "steps", "maybe"]
    assert len(FEATURES) == 6
    assert "z" in FEATURES and "y" not in FEATURES
    assert FEATURES["image"].shape == (2, 2, 1)
    assert FEATURES.shape["group"] == {"text": (), "inner": {"x": ()}}
    assert FEATURES.dtype["objects"] == {"label": np.int64, "mask": np.int8}
    assert dict(FEATURES.items())["z"] == Tensor(shape=(), dtype=np.int32)


def test_decoded_dicts_have_sorted_keys_at_every_level() -> None:
    decoded = FEATURES.decode_example(FEATURES.encode_example(EXAMPLE))
    assert list(decoded) == ["group", "image", "maybe", "objects", "steps", "z"]
    assert list(decoded["group"]) == ["inner", "text"]
    assert not difference(decoded["objects"], {"label": [np.int64(1)], "mask": [MASK]})


def test_keys_are_paths() -> None:
    assert sorted(FEATURES.encode_example(EXAMPLE)) == [
        *("group/inner/x", "group/text", "image", "objects/label", "objects/mask", "steps/action", "steps/view", "z"),
    ]
    assert [leaf.key for leaf in FEATURES.leaves()] == [
        *("group/inner/x", "group/text", "image", "maybe", "objects/label", "objects/mask", "steps", "z"),
    ]
    assert FEATURES.leaves()[0].path == ("group", "inner", "x")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"z": None}, "feature 'z': int32 of shape .* expected, got None"),
        ({"q": 1}, "the example: no feature is called 'q'; there are"),
        ({"group": 3}, "feature 'group': a dict with the keys .'inner', 'text'. expected, got int"),
        ({"group": {"text": "t"}}, "feature 'group/inner': it is missing"),
        ({"group": {"text": "t", "inner": {"x": "no"}}}, "feature 'group/inner/x': float32 expected"),
        ({"objects": [{"label": "c", "mask": MASK}]}, "feature 'objects/label': element 0 of 1: no class is called 'c'"),
    ],
)
def test_errors_name_the_feature(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        FEATURES.encode_example({**EXAMPLE, **change})


def test_a_missing_feature_is_named() -> None:
    with pytest.raises(SchemaError, match="feature 'image': it is missing; there are"):
        FEATURES.encode_example({name: value for name, value in EXAMPLE.items() if name != "image"})
    wire = FEATURES.encode_example(EXAMPLE)
    del wire["group/text"]
    with pytest.raises(DecodeError, match="feature 'group/text': the record has no value for it"):
        FEATURES.decode_example(wire)


def test_unknown_keys_of_a_record_are_ignored() -> None:
    wire = FEATURES.encode_example(EXAMPLE)
    assert FEATURES.decode_example({**wire, "other": [b"x"]}).keys() == FEATURES.decode_example(wire).keys()


def test_two_features_cannot_share_a_key() -> None:
    features = FeaturesDict({"a/b": np.int32, "a": {"b": np.int32}})
    with pytest.raises(SchemaError, match=r"\('a', 'b'\) and \('a/b',\) share the stored key 'a/b'"):
        features.leaves()


@pytest.mark.parametrize("feature", [None, Image, "nonsense", object(), 5])
def test_what_is_no_feature_is_refused_by_name(feature: Any) -> None:
    with pytest.raises(SchemaError, match="feature 'k': "):
        FeaturesDict({"k": feature})


def test_features_are_values() -> None:
    """Equal if they describe the same; picklable; the repr is TFDS's."""
    again = pickle.loads(pickle.dumps(FEATURES))
    assert again == FEATURES and hash(again) == hash(FEATURES)
    assert FeaturesDict({"a": np.int32}) != FeaturesDict({"a": np.int64}) != Sequence(np.int64)
    assert repr(FeaturesDict({"b": np.int32, "a": {"c": Text()}})) == (
        "FeaturesDict({\n    'a': FeaturesDict({\n        'c': Text(shape=(), dtype=string),\n    }),\n    'b': int32,\n})"
    )


def test_an_empty_dict_of_features_is_an_empty_dict() -> None:
    features = FeaturesDict({"a": {}, "b": np.int32})
    assert features.decode_example(features.encode_example({"a": {}, "b": 1})) == {"a": {}, "b": 1}


# -- parts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "keys"),
    [
        ({"z"}, ["z"]),
        ("z", ["z"]),
        (["objects"], ["objects/label", "objects/mask"]),
        (["objects/label", "group"], ["group/inner/x", "group/text", "objects/label"]),
        (["steps/action"], ["steps/action"]),
        ([], []),
    ],
)
def test_selected_features_are_the_only_ones_decoded(names: Any, keys: list[str]) -> None:
    selected = FEATURES.select(names)
    assert [key for leaf in selected.leaves() for key in leaf.keys] == keys

    wire = FEATURES.encode_example(EXAMPLE)
    needed = {key: values for key, values in wire.items() if key in keys}
    whole = FEATURES.decode_example(wire)
    for name, value in selected.decode_example(needed).items():
        if name in names:
            assert not difference(value, whole[name])


def test_selecting_a_feature_that_is_not_there_lists_what_is() -> None:
    with pytest.raises(ValueError, match=r"no feature is called 'objects/nope'; there are \['group', 'group/inner/x'"):
        FEATURES.select(["z", "objects/nope"])


def test_skipped_values_are_given_as_they_are_stored() -> None:
    """In an example, in a sequence, in a dataset; plain values are what they were."""
    skip = SkipDecoding()
    features = with_decoders(
        FEATURES, {"image": skip, "z": skip, "objects": {"mask": skip}, "steps": {"view": skip}, "group": {"text": skip}}
    )
    wire = FEATURES.encode_example(EXAMPLE)
    decoded = features.decode_example(wire)
    assert [decoded["image"]] == wire["image"]
    assert decoded["objects"]["mask"] == wire["objects/mask"]
    assert [decoded["steps"][0]["view"]] == wire["steps/view"]
    assert (decoded["z"], decoded["group"]["text"]) == (5, b"t")
    assert features.leaves()[2].stack([decoded["image"]]).dtype == object


def test_values_are_decoded_by_the_functions_given() -> None:
    """They get what is stored, and the feature."""

    def shout(stored: bytes, feature: Any) -> tuple[str, str]:
        return stored.decode().upper(), type(feature).__name__

    features = with_decoders(FEATURES, {"group": {"text": shout}})
    assert features.decode_example(FEATURES.encode_example(EXAMPLE))["group"]["text"] == ("T", "Text")


def test_features_with_decoders_still_encode() -> None:
    features = with_decoders(FEATURES, {"image": SkipDecoding(), "objects": {"mask": SkipDecoding()}})
    assert features.to_json() == FEATURES.to_json()
    assert not difference(features.encode_example(EXAMPLE), FEATURES.encode_example(EXAMPLE))
    assert pickle.loads(pickle.dumps(features)).leaves()[2].columns_dtype.kind == "O"


def test_skipped_tensors_of_unknown_shape_come_with_it() -> None:
    features = FeaturesDict({"k": Tensor(shape=(None, None), dtype=np.int8, encoding="bytes")})
    decoded = with_decoders(features, {"k": SkipDecoding()}).decode_example(features.encode_example({"k": [[1, 2]]}))
    assert not difference(decoded["k"], {"shape": np.array([1, 2]), "value": b"\x01\x02"})


@pytest.mark.parametrize(
    ("decoders", "error", "message"),
    [
        ({"nope": SkipDecoding()}, ValueError, "no feature is called 'nope'; there are"),
        ({"objects": SkipDecoding()}, ValueError, "no feature is called 'objects'"),
        ({"z": 5}, TypeError, "'z' needs SkipDecoding"),
    ],
)
def test_decoders_for_nothing_are_refused(decoders: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        with_decoders(FEATURES, decoders)


def test_texts_are_str_where_asked() -> None:
    features = FeaturesDict({"t": Text(), "s": Sequence(Text()), "n": Sequence(Sequence(Text())), "raw": Scalar("string")})
    wire = features.encode_example({"t": "é", "s": ["a", "b"], "n": [["c"]], "raw": b"\xff"})
    decoded = with_options(features, text="str").decode_example(wire)
    assert not difference(decoded, {"n": [np.array(["c"], object)], "raw": b"\xff", "s": ["a", "b"], "t": "é"})
    with pytest.raises(DecodeError, match="feature 't': a text that is not UTF-8 at byte 0"):
        with_options(features, text="str").decode_example({**wire, "t": [b"\xff"]})


def test_sequences_are_arrays_where_asked() -> None:
    features = FeaturesDict(
        {
            "i": Sequence(np.int16),
            "image": Sequence(Image(shape=(2, 2, 1))),
            "e": Sequence(Tensor(shape=(None,), dtype=np.int8, encoding="bytes")),
        }
    )
    value = {"i": [1, 2], "image": [PIXELS, PIXELS], "e": [[1], [1, 2]]}
    decoded = with_options(features, sequences="array").decode_example(features.encode_example(value))
    assert not difference(decoded["i"], np.array([1, 2], np.int16))
    assert not difference(decoded["image"], np.stack([PIXELS, PIXELS]))
    assert not difference(decoded["e"], [np.array([1], np.int8), np.array([1, 2], np.int8)])
    empty = with_options(features, sequences="array").decode_example(features.encode_example({"i": [], "image": [], "e": []}))
    assert not difference(empty["image"], np.empty((0, 2, 2, 1), np.uint8))
