"""Keys shuffle a split when it is written: one order, whoever wrote what first."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arrayfeed.datasource.errors import DataError
from arrayfeed.datasource.writing import DatasetWriter, keyed
from arrayfeed.datasource.writing.keyed import KeyedRecords, key_bytes
from support.written import read_examples, read_records


def plain_order(split: str, keys: list[Any]) -> list[Any]:
    """Return the keys as TFDS sorts them: by the number that MD5 makes of split and key."""

    def hashed(key: Any) -> int:
        data = key if isinstance(key, bytes) else str(key).replace("\\", "/").encode()
        return int(hashlib.md5(split.encode() + data).hexdigest(), 16)

    return sorted(keys, key=hashed)


def test_examples_come_in_the_order_of_their_keys_hashes(tmp_path: Path) -> None:
    """Written in any order, one by one, as columns, or all at once; another split of the same keys has another order."""
    roots = set()
    for number, order in enumerate([np.arange(500), np.arange(500)[::-1], np.random.default_rng(0).permutation(500)]):
        with DatasetWriter(tmp_path / str(number), {"x": np.int64}, name="data", shard_records=100) as writer:
            for x in order:
                writer.write({"x": x}, key=int(x))
            writer.write_columns({"x": order}, keys=[f"dir\\{x}" for x in order], split="strings")
            writer.write_all(({"x": x} for x in order), key=lambda example: b"%d" % example["x"], split="bytes")
        roots.add(writer.root)

    assert len(roots) == 1
    found = {name: [example["x"] for example in examples] for name, examples in read_examples(tmp_path / "0").items()}
    assert found["train"] == plain_order("train", [*range(500)])
    assert found["strings"] == [int(key[4:]) for key in plain_order("strings", [f"dir/{k}" for k in range(500)])]
    assert found["bytes"] == plain_order("bytes", [*range(500)]) != found["train"]


def test_parts_are_shuffled_each_by_itself(tmp_path: Path) -> None:
    """They are joined in the order of their numbers, as ever."""
    with DatasetWriter(tmp_path / "data", {"x": np.int64}) as writer:
        for number in (1, 0):
            with writer.part(number) as part:
                part.write_columns({"x": np.arange(50) + 50 * number}, keys=range(50 * number, 50 * number + 50))

    expected = plain_order("train", [*range(50)]) + plain_order("train", [*range(50, 100)])
    assert [example["x"] for example in read_examples(tmp_path / "data")["train"]] == expected


@pytest.mark.parametrize("buffer_bytes", [1, 300, 5000, 1 << 26])
def test_what_memory_does_not_hold_goes_to_files_and_comes_back(
    tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, buffer_bytes: int
) -> None:
    """The same order for any size of the buffer; no file is left; records of any length, of equal keys too."""
    monkeypatch.setattr(keyed, "_BUFFER_BYTES", buffer_bytes)
    records = [rng.bytes(int(size)) for size in rng.integers(0, 60, 400)]
    keys = [b"%d" % (number % 390) for number in range(400)]
    found = KeyedRecords("train", str(tmp_path / "train"))
    for start in range(0, 400, 7):
        found.extend(keys[start : start + 7], records[start : start + 7])

    given = [record for block in found.drain() for record in block]

    hashed = [hashlib.md5(b"train" + key).digest() for key in keys]
    assert given == [record for _, record in sorted(zip(hashed, records, strict=True))]
    assert os.listdir(tmp_path) == []


def test_some_keys_are_no_keys(tmp_path: Path) -> None:
    """All examples of a split have one or none has; a refusal costs nothing."""
    with DatasetWriter(tmp_path / "data", {"x": np.int64}) as writer:
        writer.write({"x": 1}, key="a")
        with pytest.raises(ValueError, match=r"every example of split 'train' has a key, or none has; this one has none"):
            writer.write({"x": 2})
        with pytest.raises(TypeError, match="float"):
            writer.write({"x": 2}, key=0.5)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="a key for each of 2 rows expected, got 1"):
            writer.write_columns({"x": [1, 2]}, keys=["b"])
        with pytest.raises(ValueError, match="none has; this one has none"):
            writer.begin_shard({"a": 1})
        writer.write({"x": 3}, split="test")
        with pytest.raises(ValueError, match="split 'test' has a key, or none has; this one has one"):
            writer.write({"x": 4}, split="test", key=1)
        assert writer.num_records == {"train": 1, "test": 1}

    assert read_examples(tmp_path / "data") == {"train": [{"x": 1}], "test": [{"x": 3}]}


def test_integers_of_any_kind_are_the_same_key() -> None:
    """And the same as their digits, as for TFDS."""
    assert key_bytes(7) == key_bytes(np.int8(7)) == key_bytes("7") == key_bytes(b"7") == b"7"


def test_records_that_cannot_be_put_aside_end_the_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an error that says where."""
    monkeypatch.setattr(keyed, "_BUFFER_BYTES", 1)
    writer = DatasetWriter(tmp_path / "data", {"x": np.int64})
    writer.write({"x": 1}, key=1)
    os.rename(writer.directory, tmp_path / "gone")
    with pytest.raises(DataError, match="could not be put aside to be shuffled"):
        writer.write({"x": 1}, key=2)
    with pytest.raises(DataError, match="start again"):
        writer.close()
    writer.abort()


def test_a_keyed_split_rolls_over_and_is_compressed_as_any_other(tmp_path: Path) -> None:
    """Limits and codecs are seen in the final order."""
    with DatasetWriter(tmp_path / "data", {"x": np.int64}, shard_records=256, codec="auto") as writer:
        writer.write_columns({"x": np.arange(1000)}, keys=range(1000))

    assert len(list((tmp_path / "data").glob("*array_record*"))) == 4
    assert len(read_records(tmp_path / "data")["train"]) == 1000
