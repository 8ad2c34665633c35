"""Sequences that are stored as they are, packed straight from where they lie: the same rows as from examples, one by one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import arrayfeed
from arrayfeed import BatchMap, DataLoader, pack
from arrayfeed.datasource.end_to_end import EndToEnd, Field
from arrayfeed.datasource.errors import DecodeError
from arrayfeed.datasource.features import FeaturesDict, Tensor
from arrayfeed.datasource.memory import Extents
from arrayfeed.datasource.records import RecordSource
from arrayfeed.datasource.writing.encoder import RecordEncoder
from arrayfeed.loaders.packed import PackedLater
from support.equal import difference

LENGTH = 64
FEATURES = {
    "tokens": Tensor(shape=(None,), dtype=np.int32, encoding="bytes"),
    "vectors": Tensor(shape=(None, 2), dtype=np.float64, encoding="bytes"),
}


def draw(rng: np.random.Generator, count: int = 300) -> list[dict[str, Any]]:
    """Return documents of 0 to some 5,000 tokens, most of them short."""
    lengths = np.minimum(rng.lognormal(3, 1.5, count).astype(int), 5000)
    lengths[rng.integers(0, count, 20)] = 0
    return [{"tokens": rng.integers(1, 99, n, dtype=np.int32), "vectors": rng.random((n, 2))} for n in lengths]


def write(directory: Path, names: list[str], **options: Any) -> Path:
    features = {name: FEATURES[name] for name in names}
    with arrayfeed.DatasetWriter(directory, features, name="texts", shard_records=101, **options) as writer:
        for example in draw(np.random.default_rng(0)):
            writer.write({name: example[name] for name in names})
    return directory


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("texts") / "both", ["tokens", "vectors"])


def load(source: Any, *, before: Any = (), **options: Any) -> DataLoader:
    transforms = [*before, pack(LENGTH, strategy="concat", pad_value={"tokens": -1}), *options.pop("after", ())]
    return DataLoader(source, transforms=transforms, **{"shuffle": True, "seed": 3, "batch_size": 4} | options)


def same(example: Any) -> Any:
    """A transform: with one, examples are made and packed one by one."""
    return example


# -- the same rows ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [["tokens"], ["tokens", "vectors"]])
@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("io", ["mmap", "pread"])
def test_rows_are_those_of_examples_packed_one_by_one(tmp_path: Path, names: list[str], codec: str, io: Any) -> None:
    """In whatever way records are stored and read; two epochs, the last row of each padded, empty documents left out."""
    source = arrayfeed.open(write(tmp_path / "data", names, codec=codec), split="train", io=io)
    options: dict[str, Any] = {"num_epochs": 2}
    batches = list(load(source, **options))

    assert difference(batches, list(load(source, before=[same], **options))) == ""
    assert [list(batch) for batch in batches[:1]] == [[*names, "segment_ids", "positions"]]
    assert all(array.flags.writeable for batch in batches for array in batch.values())


@pytest.mark.parametrize(
    "options",
    [
        {"num_workers": 2},
        {"num_workers": 2, "worker_type": "thread"},
        {"prefetch_factor": 0},
        {"batch_size": 1},
        {"batch_size": 90},
    ],
    ids=str,
)
def test_whoever_packs_them_the_rows_are_the_same(texts: Path, options: dict[str, Any]) -> None:
    """Processes, threads, the caller's own; in batches of any size."""
    source = arrayfeed.open(texts, split="train")

    assert difference(list(load(source, **options)), list(load(source, before=[same], **options))) == ""


def test_a_pass_goes_on_from_any_batch(texts: Path) -> None:
    """A state loads exactly, wherever it was taken, by whichever way the rest is packed."""
    source = arrayfeed.open(texts, split="train[:60]")
    batches = list(load(source))
    for taken in range(1, len(batches)):
        for before in ((), (same,)):
            loader = load(source, before=before)
            assert len(list(islice(loader, taken))) == taken
            resumed = load(source, before=[] if before else [same])
            resumed.load_state_dict(loader.state_dict())
            assert difference(list(resumed), batches[taken:]) == ""


def test_what_is_done_to_batches_is_done_to_these(texts: Path) -> None:
    """A ``BatchMap`` gets them, and so do a mask and a converter."""
    source = arrayfeed.open(texts, split="train")
    expected = [int(batch["tokens"].sum()) for batch in load(source)]

    assert [
        batch["sum"] for batch in load(source, after=[BatchMap(lambda batch: {"sum": int(batch["tokens"].sum())})])
    ] == expected
    tensors = list(load(source, output="torch"))
    assert [int(batch["tokens"].sum()) for batch in tensors] == expected


def test_batches_are_made_when_they_are_taken(texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is copied for a batch that nobody takes."""
    made = []
    make: Callable[[PackedLater], Any] = PackedLater.make

    def note(batch: PackedLater) -> Any:
        made.append(batch)
        return make(batch)

    monkeypatch.setattr(PackedLater, "make", note)
    batches = iter(load(arrayfeed.open(texts, split="train")))
    for taken in range(1, 20):
        next(batches)
        assert len(made) == taken


def test_batches_outlive_their_source(texts: Path) -> None:
    """They are copies: the files may be closed, and what is in a batch may be changed."""
    source = arrayfeed.open(texts, split="train")
    batches = list(load(source))
    copies = [{name: array.copy() for name, array in batch.items()} for batch in batches]
    source.close()
    batches[0]["tokens"][:] = 0
    batches[0]["segment_ids"][:] = 0

    assert difference(batches[1:], copies[1:]) == ""


# -- what is no sequence, or damaged ----------------------------------------------------------------------------------


class Records(RecordSource):
    """Records in memory."""

    def __init__(self, records: list[bytes]) -> None:
        self._records = records

    def __len__(self) -> int:
        return len(self._records)

    def _read_one(self, index: int) -> bytes:
        return self._records[index]

    def gather(self, indices: Any) -> Extents:
        return Extents.joined([self._records[index] for index in indices.tolist()])

    def locate(self, index: int) -> tuple[str, int]:
        return "memory", index

    @property
    def files(self) -> list[str]:
        return []

    @property
    def fingerprint(self) -> str:
        return "records"


@pytest.mark.parametrize("damage", [b"", b"\n\x00", b"\n\x03\n\x01x"], ids=["cut", "empty", "odd"])
def test_a_damaged_record_is_named_in_its_turn(texts: Path, damage: bytes) -> None:
    """Behind the batches before it, as with examples one by one."""
    raw = arrayfeed.open(texts, split="train", raw=True)
    records = [raw[index] for index in range(150)]
    records[100] = records[100][:-1] if not damage else damage
    tokens = sum(len(example["tokens"]) for example in arrayfeed.open(texts, split="train[:100]"))
    for before in ((), (same,)):
        loader = iter(load(Records(records).decode(FEATURES), before=before, shuffle=False))
        batches: list[Any] = []
        with pytest.raises(DecodeError, match="memory") as caught:
            batches.extend(loader)
        assert caught.value.record == 100
        assert sum(batch["tokens"].size for batch in batches) == tokens // (4 * LENGTH) * 4 * LENGTH


def test_fields_of_unlike_lengths_are_refused_as_in_examples(texts: Path) -> None:
    """With the same words, whoever finds it."""
    encoder = RecordEncoder(FeaturesDict(FEATURES))
    examples = draw(np.random.default_rng(1), 40)
    examples[20] = {"tokens": np.arange(5, dtype=np.int32), "vectors": np.zeros((4, 2))}
    records = Records([encoder.encode(example) for example in examples])
    said = []
    for before in ((), (same,)):
        with pytest.raises(ValueError, match="fields of one length") as caught:
            list(load(records.decode(FEATURES), before=before))
        said.append(str(caught.value))
    assert said[0] == said[1]


# -- end to end -------------------------------------------------------------------------------------------------------


def test_parts_of_sequences_end_to_end_are_those_of_their_concatenation() -> None:
    """All parts of all of them, where sequences begin, and none of nothing."""
    rng = np.random.default_rng(0)
    pieces = [rng.integers(0, 99, (n, 3), dtype=np.int16) for n in (3, 0, 1, 5, 0, 2)]
    starts = np.array([piece.ctypes.data for piece in pieces])
    lengths = np.array([len(piece) for piece in pieces])
    laid = EndToEnd({"x": Field(starts, np.dtype(np.int16), (3,))}, lengths, pieces)
    whole = np.concatenate(pieces)
    packing = pack(4, strategy="concat")

    assert len(laid) == len(whole) == 11
    assert laid.nbytes == whole.nbytes
    for start in range(12):
        for stop in range(start, 12):
            copied = packing.copy(laid, start, stop)
            if start == stop:
                assert copied == {}
                continue
            assert copied["x"].tolist() == whole[start:stop].tolist()
            assert (np.flatnonzero(copied["segment_ids"]) + start).tolist() == [at for at in (0, 3, 4, 9) if start <= at < stop]
