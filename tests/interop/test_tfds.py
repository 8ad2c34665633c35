"""Data sets that we write, read by TensorFlow Datasets' own data source: the same examples, types included."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import arrayfeed
from arrayfeed.datasource.features import ClassLabel, Feature, FeaturesDict, Image, Text
from arrayfeed.datasource.tfds import DatasetInfo
from arrayfeed.datasource.writing import DatasetWriter
from support.equal import difference
from support.neutral import load

TESTS = Path(__file__).parents[1]
EVERY = TESTS / "fixtures" / "tfds" / "every_feature" / "1.0.0"

READ = """
import json, sys
import tensorflow_datasets as tfds
directory, target, support = sys.argv[1:]
sys.path.insert(0, support)
from neutral import dump
builder = tfds.builder_from_directory(directory)
sources = builder.as_data_source()
said = {
    "examples": {name: [dump(source[k]) for k in range(len(source))] for name, source in sources.items()},
    "sliced": [dump(example) for example in builder.as_data_source(split="train[1shard:-1shard]+test")],
    "keys": builder.info.supervised_keys,
    "metadata": dict(builder.info.metadata or {}),
    "version": str(builder.info.version),
    "description": builder.info.description,
    "citation": builder.info.citation,
    "num_examples": {name: split.num_examples for name, split in builder.info.splits.items()},
    "features": repr(builder.info.features),
    "names": {name: f.names for name, f in builder.info.features.items() if isinstance(f, tfds.features.ClassLabel)},
}
with open(target, "w") as file:
    json.dump(said, file)
"""

SHUFFLED = """
import json, sys
import tensorflow_datasets as tfds
class Words(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.0.0")
    def _info(self):
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict({"x": tfds.features.Text()}))
    def _split_generators(self, manager):
        return {name: iter([(key, {"x": str(key)}) for key in keys]) for name, keys in json.load(open(sys.argv[2])).items()}
    def _generate_examples(self):
        pass
builder = Words(data_dir=sys.argv[1], file_format="array_record")
builder.download_and_prepare()
found = {name: [example["x"].decode() for example in source] for name, source in builder.as_data_source().items()}
with open(sys.argv[2], "w") as file:
    json.dump(found, file)
"""


def run_tfds(script: str, *arguments: Path) -> None:
    """Run a script where tensorflow-datasets is: it and torch, JAX and OpenCV need not get on in one process."""
    python = os.environ.get("ARRAYFEED_TFDS_PYTHON", sys.executable)
    run = subprocess.run([python, "-c", script, *arguments], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr[-4000:]


def read_with_tfds(path: Path, scratch: Path) -> dict[str, Any]:
    run_tfds(READ, path, scratch / "found.json", TESTS / "support")
    found: dict[str, Any] = json.loads((scratch / "found.json").read_text())
    found["examples"] = {name: [load(example) for example in examples] for name, examples in found["examples"].items()}
    found["sliced"] = [load(example) for example in found["sliced"]]
    return found


def examples_of_every_feature() -> tuple[FeaturesDict, list[dict[str, Any]]]:
    """Return every feature that TFDS can read, and examples that can be written under them."""
    examples = [*arrayfeed.open(EVERY, split="train", channels="declared")]
    for number, example in enumerate(examples):
        # Read as two lists, written as a dict.
        example["translation_some"] = example["translation_any"] = [{"en": "a", "fr": ["c", "b"]}, {"fr": "d"}, {}][number % 3]
    return DatasetInfo.read(EVERY).features, examples


@pytest.mark.parametrize("codec", ["auto", "none", "zstd:1", "brotli:1", "snappy"])
def test_tfds_reads_every_feature_as_it_was_written(tmp_path: Path, codec: str) -> None:
    """Several shards and splits, one of them without examples; the description; and TFDS's own split strings."""
    features, examples = examples_of_every_feature()
    metadata = {"made": ["by", {"hand": True}]}
    with DatasetWriter(
        tmp_path / "things",
        features,
        version="3.1.4",
        description="Things",
        citation="@a{b}",
        metadata=metadata,
        supervised_keys=("image_rgb", "label"),
        codec=codec,
        shard_records=2,
    ) as writer:
        writer.write_all(examples[number % 4] for number in range(9))
        writer.write_all(examples[:3], split="test")
        writer.write_all([], split="nothing")

    said = read_with_tfds(tmp_path / "things", tmp_path)

    ours = arrayfeed.open(tmp_path / "things")
    assert difference(said["examples"], {name: [*ours[name]] for name in ("train", "test")}) == ""
    assert difference(said["sliced"], [*arrayfeed.open(tmp_path / "things", split="train[1shard:-1shard]+test")]) == ""
    assert said["features"] == repr(features)
    assert said["names"]["label"] == ["cat", "dog", "a bird"]
    assert said["num_examples"] == {"train": 9, "test": 3}
    assert (said["keys"], said["metadata"]) == (["image_rgb", "label"], metadata)
    assert (said["version"], said["description"], said["citation"]) == ("3.1.4", "Things", "@a{b}")


def test_every_feature_there_is_is_among_them() -> None:
    """A feature that is added here must be read there."""
    found: set[type[Feature]] = set()

    def visit(feature: Any) -> None:
        found.add(type(feature))
        if isinstance(feature, FeaturesDict):
            for inner in feature.values():
                visit(inner)
        elif hasattr(feature, "feature"):
            visit(feature.feature)

    visit(DatasetInfo.read(EVERY).features)
    public = {getattr(arrayfeed.features, name) for name in arrayfeed.features.__all__}
    every = {each for each in public if isinstance(each, type) and issubclass(each, Feature)} - {Feature}
    assert every <= found


def test_tfds_reads_what_was_appended_to(tmp_path: Path, rng: np.random.Generator) -> None:
    """By parts, columns and examples, to a split of TFDS's own shards, and to one that was empty."""
    path = tmp_path / "things"
    with DatasetWriter(
        path, {"image": Image(shape=(5, 4, 3)), "label": ClassLabel(names=["a", "b"]), "text": Text()}
    ) as writer:
        writer.write_all([], split="test")
        writer.write({"image": rng.integers(0, 256, (5, 4, 3), dtype=np.uint8), "label": 1, "text": "\N{SNOWMAN}"})
    for split in ("train", "test"):
        with DatasetWriter(path, mode="append") as writer, writer.part(0) as part:
            images = rng.integers(0, 256, (7, 5, 4, 3), dtype=np.uint8)
            part.write_columns({"image": images, "label": [0, 1] * 3 + [1], "text": list("abcdefg")}, split=split)

    said = read_with_tfds(path, tmp_path)

    ours = arrayfeed.open(path)
    assert said["num_examples"] == {"train": 8, "test": 7}
    assert difference(said["examples"], {name: [*source] for name, source in ours.items()}) == ""


def test_features_told_from_an_example_are_read_by_tfds(tmp_path: Path) -> None:
    """Without a loss: doubles stay doubles."""
    example = {
        "int": 3,
        "float": 0.1,
        "word": "ä",
        "flag": True,
        "single": np.float32(0.1),
        "array": np.arange(6, dtype=np.uint16).reshape(2, 3),
        "list": [1, 2, 3],
        "words": ["a", "b"],
        "nested": {"x": np.arange(3.0)},
    }
    with pytest.warns(UserWarning, match="told from the first example"), DatasetWriter(tmp_path / "data") as writer:
        writer.write(example)
        writer.write(example, split="test")

    said = read_with_tfds(tmp_path / "data", tmp_path)

    (ours,) = arrayfeed.open(tmp_path / "data", split="train")
    assert difference(said["examples"]["train"], [ours]) == ""
    assert (said["examples"]["train"][0]["float"], said["examples"]["train"][0]["word"]) == (np.array(0.1), "ä".encode())


def test_keys_give_tfds_own_order(tmp_path: Path) -> None:
    """Integers, strings and paths: the splits that TFDS makes of the same keys."""
    keys: dict[str, list[Any]] = {"train": [*range(50)], "test": [f"dir\\{k} ä" for k in range(20)]}
    (tmp_path / "keys.json").write_text(json.dumps(keys))
    with DatasetWriter(tmp_path / "words", {"x": Text()}) as writer:
        for split, some in keys.items():
            for key in reversed(some):
                writer.write({"x": str(key)}, split=split, key=key)

    run_tfds(SHUFFLED, tmp_path / "tfds", tmp_path / "keys.json")

    ours = arrayfeed.open(tmp_path / "words", text="str")
    expected = json.loads((tmp_path / "keys.json").read_text())
    assert {name: [example["x"] for example in source] for name, source in ours.items()} == expected
    assert expected["train"] != [str(key) for key in keys["train"]]
