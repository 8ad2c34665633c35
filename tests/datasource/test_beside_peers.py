"""What users of TFDS, torch, Grain and SeqTools expect of a source, done as they do it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import arrayfeed
from arrayfeed import ArraySource, ExampleDataSource, SequenceSource, concatenate, zip_sources

COUNT = 300


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("peers") / "digits"
    features = {"image": arrayfeed.features.Tensor(shape=(2, 2), dtype=np.uint8), "label": arrayfeed.features.ClassLabel(10)}
    with arrayfeed.DatasetWriter(path, features, shard_records=100) as writer:
        writer.write_columns(
            {"image": np.arange(COUNT * 4, dtype=np.uint8).reshape(COUNT, 2, 2), "label": np.arange(COUNT) % 10}
        )
    return path


@pytest.fixture
def source(directory: Path) -> Iterator[ExampleDataSource]:
    with arrayfeed.open(directory, split="train") as opened:
        yield opened


def calls_of(read: Callable[[], Any]) -> int:
    """Return how many functions ``read`` calls, those written in C too."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        read()
    finally:
        sys.setprofile(None)
    return count


# -- tfds.data_source with torch, and with nothing ------------------------------------------------------------------------


def test_any_element_is_as_near_as_the_first(source: ExampleDataSource) -> None:
    """In about as many calls, once its shard is open and records of its form were seen; whatever was read before it."""
    indices = (COUNT - 1, 0, COUNT // 2)
    for index in [*range(COUNT), *indices * 20]:
        source[index]
    counts = [calls_of(lambda: source[index]) for index in indices]  # noqa: B023

    assert max(counts) <= 1.5 * min(counts)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_torchs_loader_reads_it_by_torchs_sampler(source: ExampleDataSource, num_workers: int) -> None:
    """``RandomSampler`` and ``DataLoader`` as the guide of ``tfds.data_source`` has them: dict batches of tensors."""
    torch = pytest.importorskip("torch")
    sampler = torch.utils.data.RandomSampler(source, num_samples=150, generator=torch.Generator().manual_seed(0))
    loader = torch.utils.data.DataLoader(source, sampler=sampler, batch_size=40, num_workers=num_workers)
    batches = list(loader)

    assert [tuple(batch["image"].shape) for batch in batches] == [(40, 2, 2)] * 3 + [(30, 2, 2)]
    seen = torch.cat([batch["image"].reshape(-1, 4) for batch in batches]).numpy().astype(int)
    labels = torch.cat([batch["label"] for batch in batches]).tolist()
    assert len({*map(tuple, seen.tolist())}) > 60  # uint8 wraps around after 64 examples
    assert all(
        label in {k % 10 for k in range(COUNT) if 4 * k % 256 == row[0]}
        for row, label in zip(seen.tolist(), labels, strict=True)
    )


def test_grain_reads_it_too(source: ExampleDataSource) -> None:
    """As a source of its own: any object with a length and elements by number."""
    grain = pytest.importorskip("grain")
    read = list(grain.MapDataset.source(source).shuffle(seed=1).map(lambda example: example["label"]))

    assert sorted(read) == sorted(k % 10 for k in range(COUNT))


def test_splits_are_a_dict_and_features_can_be_asked(directory: Path) -> None:
    """``ds["train"]``; shape and number of classes of each feature."""
    splits = arrayfeed.open(directory)
    features: Any = splits["train"].features

    assert list(splits) == ["train"] and len(splits["train"]) == COUNT
    assert features["image"].shape == (2, 2) and features["label"].num_classes == 10
    assert [example["label"] for example in splits["train"]][:12] == [*range(10), 0, 1]


def test_reading_imports_no_framework(directory: Path) -> None:
    """No TensorFlow, torch or JAX, and so no memory of a GPU: opening, single reads, batches, views."""
    code = (
        "import sys, arrayfeed\n"
        "source = arrayfeed.open(sys.argv[1], split='train')\n"
        "source[0], source.read_batch([1, 2]), list(source.map(str).batch(7)), source.cache()[5]\n"
        "print(sorted({'tensorflow', 'tensorflow_datasets', 'torch', 'jax', 'array_record', 'google'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code, directory], capture_output=True, text=True, check=True, timeout=60)

    assert run.stdout.strip() in ("[]", "['google']")  # a namespace that google_crc32c may be in


# -- SeqTools -------------------------------------------------------------------------------------------------------------


def test_dumps_in_several_files_are_one_source_of_batches(tmp_path: Path) -> None:
    """The fast minibatch example: memory-mapped dumps, the last shorter, put together, split, batched."""
    data, labels = np.arange(10_250 * 4, dtype=np.float32).reshape(-1, 4), np.arange(10_250) % 7
    for number, start in enumerate(range(0, 10_250, 2_000)):
        np.save(tmp_path / f"data{number}.npy", data[start : start + 2_000])
    chunks = [ArraySource(path) for path in sorted(tmp_path.glob("data*.npy"))]
    pairs = zip_sources(concatenate(*chunks), ArraySource(labels))
    train, test = pairs[:-10_000], pairs[-10_000:]
    batches = test.batch(64)

    assert (len(chunks[-1]), len(pairs), len(train), len(test), len(batches)) == (250, 10_250, 250, 10_000, 157)
    assert len(batches[-1][0]) == 16
    assert (np.concatenate([batch[0] for batch in batches]) == data[250:]).all()
    drawn = train.read_batch(np.random.default_rng(0).choice(len(train), 32))
    assert drawn[0].shape == (32, 4) and (drawn[1] == (drawn[0][:, 0] // 4).astype(int) % 7).all()


def test_what_passes_a_filter_is_a_selection() -> None:
    """Of the numbers that pass: the filter runs once, and what it gives has a length and any element."""
    source = SequenceSource([{"size": k % 5} for k in range(20)])
    large = source.select([index for index, element in enumerate(source) if element["size"] > 2])

    assert len(large) == 8 and large[-1] == {"size": 4}
    assert {element["size"] for element in large} == {3, 4}


def test_choosing_from_several_sources_is_a_selection_of_them_all() -> None:
    """``choose_from_datasets``: which source comes next is a list of numbers; each goes on where it was."""
    sources = [SequenceSource([f"{name}{k}" for k in range(3)]) for name in "abc"]
    choice, place = [0, 1, 0, 2, 2, 1, 0], [0, 0, 0]
    indices = []
    for number in choice:
        indices.append(3 * number + place[number])
        place[number] += 1

    assert list(concatenate(*sources).select(indices)) == ["a0", "b0", "a1", "c0", "c1", "b1", "a2"]


def negative(example: dict[str, Any]) -> dict[str, Any]:
    return {"image": 255 - example["image"], "label": example["label"]}


def test_a_view_is_written_as_a_data_set_of_its_own(source: ExampleDataSource, tmp_path: Path) -> None:
    """``snapshot``: what a pipeline makes, kept; its fingerprint goes with it, to tell later whether it is still that."""
    view = source[50:250:3].map(negative)
    path = tmp_path / "negatives"
    arrayfeed.write_dataset(path, {"train": view}, source.features, num_workers=0, metadata={"made_from": view.fingerprint})
    again = arrayfeed.open(path, split="train")

    assert len(again) == len(view) == 67
    assert all((a["image"] == b["image"]).all() and a["label"] == b["label"] for a, b in zip(again, view, strict=True))
    assert source[50:250:3].map(negative).fingerprint in (path / "metadata.json").read_text()
