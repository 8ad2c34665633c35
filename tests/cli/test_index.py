"""``arrayfeed index``: record indexes for shards that others wrote."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import arrayfeed
from arrayfeed.datasource.indexing import find_index
from arrayfeed.datasource.tfds import DatasetInfo

NUMBERS = Path(__file__).parents[1] / "fixtures" / "tfds" / "numbers" / "small" / "1.2.0"


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    """A data set that TFDS prepared: there is no index."""
    return Path(shutil.copytree(NUMBERS, tmp_path / "data"))


def run(*arguments: str | os.PathLike[str], cache: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("arrayfeed")), "index", *map(str, arguments)]
    return subprocess.run(
        command, env={**os.environ, "XDG_CACHE_HOME": str(cache)}, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("in_cache", [False, True])
def test_indexes_are_made_and_used(numbers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_cache: bool) -> None:
    """In place, or in the user's cache; a flipped bit of a record is an error by default from then on."""
    before = list(arrayfeed.open(numbers, split="all"))
    done = run(numbers, *["--in-cache"] * in_cache, cache=tmp_path / "cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    assert done.returncode == 0, done.stderr
    assert {"train", "test"} <= {word.strip(":") for word in done.stdout.split()}
    assert len(list(numbers.glob("*.record_index"))) == (0 if in_cache else 2)
    info = DatasetInfo.read(numbers)
    assert all(find_index(numbers, info, split.name) is not None for split in info.splits)
    assert list(arrayfeed.open(numbers, split="all")) == before
    shard = sorted(numbers.glob("numbers-train.array_record-*"))[0]
    index = find_index(numbers, info, "train")
    known = index.lookup(shard.name) if index is not None else None
    assert known is not None
    data = bytearray(shard.read_bytes())
    data[24 + int(known.index.starts[1]) - 5] ^= 1  # 24 bytes of block header; then in the last bytes of record 0
    shard.write_bytes(data)
    with pytest.raises(arrayfeed.DataError) as caught:
        list(arrayfeed.open(numbers, split="train", raw=True))
    assert caught.value.path == str(shard) and caught.value.record == 0


def test_a_damaged_shard_is_not_indexed(numbers: Path, tmp_path: Path) -> None:
    """What is wrong is told in one line, with status 1."""
    shard = sorted(numbers.glob("numbers-train.array_record-*"))[1]
    data = bytearray(shard.read_bytes())
    data[110] ^= 1
    shard.write_bytes(data)
    done = run(numbers, cache=tmp_path / "cache")

    assert done.returncode == 1
    assert str(shard) in done.stderr and "Traceback" not in done.stderr
