"""Directories that TensorFlow Datasets wrote, against what it reads from them (``tests/fixtures/make_tfds.py``)."""

from __future__ import annotations

import json
import pickle
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from array_record.python.array_record_module import ArrayRecordReader

from arrayfeed.datasource.errors import DecodeError
from arrayfeed.datasource.example.wire import WireValues, parse_example, serialize_example
from arrayfeed.datasource.features import Feature, FeaturesDict, image_codec
from arrayfeed.datasource.tfds import DatasetInfo, shard_paths
from support.equal import difference
from support.neutral import load

FIXTURES = Path(__file__).parents[2] / "fixtures" / "tfds"
EVERY = FIXTURES / "every_feature" / "1.0.0"
UNREADABLE = FIXTURES / "unreadable" / "1.0.0"


@cache
def info_of(directory: Path) -> DatasetInfo:
    return DatasetInfo.read(directory)


@cache
def records_of(directory: Path) -> list[bytes]:
    (path,) = shard_paths(directory, info_of(directory), "train")
    return list(ArrayRecordReader(str(path)).read_all())


@cache
def expected_of(directory: Path, key: str) -> Any:
    return json.loads((directory / "expected.json").read_text())[key]


def names_of(directory: Path) -> list[str]:
    return sorted(json.loads((directory / "features.json").read_text())["featuresDict"]["features"])


def one_feature(directory: Path, name: str) -> FeaturesDict:
    return FeaturesDict({name: info_of(directory).features[name]})


@pytest.mark.parametrize("name", names_of(EVERY))
def test_examples_equal_what_tfds_reads(name: str) -> None:
    """Value, type, dtype and shape, for every feature that tfds.data_source can read."""
    features = one_feature(EVERY, name)
    for record, expected in zip(records_of(EVERY), expected_of(EVERY, "examples"), strict=True):
        found = features.decode_example(parse_example(record))
        assert not difference(found[name], load(expected["dict"][name]), name)


def test_a_whole_example_equals_what_tfds_reads() -> None:
    """All features at once: keys sorted at every level, nothing more and nothing less."""
    features = info_of(EVERY).features
    for record, expected in zip(records_of(EVERY), expected_of(EVERY, "examples"), strict=True):
        assert not difference(features.decode_example(parse_example(record)), load(expected))


@pytest.mark.parametrize("name", [name for name in names_of(EVERY) if name.startswith(("image", "label", "video"))])
def test_images_are_the_same_without_opencv(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow gives the pixels that OpenCV gave TFDS; it refuses what it cannot do."""
    monkeypatch.setattr(image_codec, "opencv", lambda: None)
    if name == "image_uint16_rgb":
        with pytest.raises(DecodeError, match="install opencv"):
            test_examples_equal_what_tfds_reads(name)
        return
    test_examples_equal_what_tfds_reads(name)


# What was written is not what is read: files are decoded, and a translation is sorted.
CHANGED = ("image", "labeled_image", "video", "audio_wav", "translation_", "sequence_images", "dataset", "sequence_dict")


@pytest.mark.parametrize("name", [name for name in names_of(EVERY) if not name.startswith(CHANGED)])
def test_decoded_examples_encode_to_the_same_lists(name: str) -> None:
    """Writing what was read gives the very lists that TFDS wrote."""
    features = one_feature(EVERY, name)
    for record in records_of(EVERY):
        wire = parse_example(record)
        encoded = features.encode_example(features.decode_example(wire))
        assert not difference(encoded, {key: wire[key] for key in encoded})


@pytest.mark.parametrize("name", ["dataset", "dataset_frames", "dataset_numbers", "dataset_rows", "sequence_dict", "video"])
def test_what_was_decoded_and_encoded_is_decoded_to_the_same(name: str) -> None:
    """Examples inside examples, images in sequences: through our own encoder and back."""
    features = one_feature(EVERY, name)
    for record in records_of(EVERY):
        example = features.decode_example(parse_example(record))
        again = features.decode_example(parse_example(serialize_example(features.encode_example(example))))
        assert not difference(again, example)


@pytest.mark.parametrize("name", names_of(UNREADABLE))
def test_what_tfds_cannot_read_is_read_as_it_was_written(name: str) -> None:
    """Nested images and videos, encoded tensors in nested sequences, fixed lengths, optional ones that are None ..."""
    features = one_feature(UNREADABLE, name)
    for record, written in zip(records_of(UNREADABLE), expected_of(UNREADABLE, "written"), strict=True):
        found = features.decode_example(parse_example(record))[name]
        assert not difference(found, _as_read(name, load(written["dict"][name])), name)


def _as_read(name: str, written: Any) -> Any:
    """Return ``written`` in the types that reading gives."""
    if name == "audio_lazy":  # A 44-byte header, then 16-bit samples.
        return np.frombuffer(written[44:], "<i2").astype(np.int32)
    if name.startswith("fixed"):
        return [np.array(row, np.int32) for row in written]
    if name == "sequence_dynamic" and len(written) == 1:
        return np.stack(written)  # What TFDS gives for elements of one shape.
    if name == "datasets":
        return ("examples", [{"inner": _scalars(one["inner"]), "number": np.int32(one["number"])} for one in written])
    if name == "dataset_dynamic":
        return ("examples", written)
    return [_scalars(row) for row in written] if name == "sequence_datasets" else written


def _scalars(examples: list[dict[str, Any]]) -> Any:
    return ("examples", [{k: np.int32(v) if isinstance(v, int) else v for k, v in sorted(one.items())} for one in examples])


@pytest.mark.parametrize("directory", [EVERY, UNREADABLE], ids=["every_feature", "unreadable"])
def test_features_describe_themselves_as_tfds_does(directory: Path) -> None:
    """features.json, read and written again, is the same, entry by entry."""
    assert info_of(directory).features.to_json() == json.loads((directory / "features.json").read_text())


def test_features_show_themselves_as_in_tfds() -> None:
    assert repr(info_of(EVERY).features) + "\n" == (EVERY / "expected_repr.txt").read_text()


@pytest.mark.parametrize("name", names_of(EVERY))
def test_the_forms_of_older_versions_are_read(name: str) -> None:
    """{"type", "content", "proto_cls"}, with content as an object or as the text of one."""
    form = json.loads((FIXTURES / "forms.json").read_text())[name]
    today = info_of(EVERY).features[name]

    for content in (form["content"], json.dumps(form["content"])):
        found = Feature.from_json({**form, "content": content})
        assert found.to_content() == today.to_content()
        assert type(found) is type(today)


@pytest.mark.parametrize("name", names_of(EVERY))
def test_columns_are_the_decoded_values_stacked(name: str) -> None:
    """The way for whole batches gives what one by one gives, in the declared dtype."""
    features = one_feature(EVERY, name)
    wires = [parse_example(record) for record in records_of(EVERY)]
    for leaf in features.leaves():
        decoded = [leaf.read(wire) for wire in wires]
        if name in ("image_file_clear_colour", "image_rgb_as_gray", "image_rgba_as_rgb"):
            with pytest.raises(DecodeError, match=f"{name}.*shape .* expected"):  # Channels that no array was promised for.
                leaf.stack(decoded[:1])
            continue
        for value, wire in zip(decoded, wires, strict=True):
            if isinstance(value, list) and leaf.columns_shape and len({np.shape(element) for element in value}) > 1:
                with pytest.raises(ValueError, match=f"{name}.*make no array"):
                    leaf.stack([value])
                continue
            column = leaf.stack([value, value])
            assert column.dtype == leaf.columns_dtype
            assert len(column.shape) == 1 + len(leaf.columns_shape)
            stored = wire.get(leaf.key)
            if leaf.kind is None or stored is None:
                continue
            assert not difference(leaf.decode_batch([stored, stored]), column, name)
            compiled = leaf.to_columns(_twice(stored))
            if compiled is not None:
                assert compiled.dtype.newbyteorder("=") == leaf.columns_dtype
                assert not difference(compiled, column, name)


def _twice(stored: WireValues) -> np.ndarray[Any, Any]:
    assert stored is not None
    row = np.frombuffer(stored[0] if stored else b"", np.uint8) if isinstance(stored, list) else stored
    return np.stack([row, row])


def test_features_survive_pickling() -> None:
    features = info_of(EVERY).features
    again = pickle.loads(pickle.dumps(features))

    assert again == features
    assert again["label"].names == ["cat", "dog", "a bird"]
    record = records_of(EVERY)[0]
    assert not difference(again.decode_example(parse_example(record)), features.decode_example(parse_example(record)))
