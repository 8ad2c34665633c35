"""From what a user calls his files to shards, and from a range of records to the shards that hold it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrayfeed.datasource.errors import ShardNotFoundError
from arrayfeed.datasource.shards import Shard, expand_paths, slice_shards


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with some files."""
    monkeypatch.chdir(tmp_path)
    names = ["a", "b[0:5]", "c*", "deep/er/f1", "deep/f2", "x-00001-of-00003", "x-00000-of-00003"]
    names += [f"train-{k}" for k in (10, 9, 2, 0)] + [f"s-{k:05d}-of-00003" for k in range(3)]
    for name in [*names, "t.ar-00000-of-00002", "t.ar-00001-of-00002"]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ("a", ["a"]),
        (Path("a"), ["a"]),
        ("missing", ["missing"]),
        ("", [""]),
        ("a[3:7]", [("a", 3, 7)]),
        ("a[3:3]", [("a", 3, 3)]),
        ("b[0:5]", ["b[0:5]"]),
        ("b[0:5][1:2]", [("b[0:5]", 1, 2)]),
        ("c*", ["c*"]),
        ("c*[1:2]", [("c*", 1, 2)]),
        ("train-*", ["train-0", "train-2", "train-9", "train-10"]),
        ("train-[29]", ["train-2", "train-9"]),
        ("deep/**/f*", ["deep/er/f1", "deep/f2"]),
        ("s@3", ["s-00000-of-00003", "s-00001-of-00003", "s-00002-of-00003"]),
        ("t@2.ar", ["t.ar-00000-of-00002", "t.ar-00001-of-00002"]),
        ("t.ar@2", ["t.ar-00000-of-00002", "t.ar-00001-of-00002"]),
        ("mail@host/a", ["mail@host/a"]),
        ("s@0", ["s@0"]),
        (["a", Path("train-[29]"), "a[1:2]", "a"], ["a", "train-2", "train-9", ("a", 1, 2), "a"]),
        (("a",), ["a"]),
        ((name for name in "ab"), ["a", "b"]),
    ],
)
def test_names_stand_for_these_shards(folder: Path, paths: Any, expected: list[Any]) -> None:
    """A file that exists is meant as it stands, whatever its name; else slice, glob, counted set, plain path, in this order."""
    shards = [Shard(*each) if isinstance(each, tuple) else Shard(each) for each in expected]

    assert expand_paths(paths) == shards


def test_shards_of_a_glob_come_in_one_order_wherever_they_are(folder: Path) -> None:
    """Numbers by value, equal numbers by their spelling; signs that only look like digits are letters."""
    names = ["n1", "n01", "n001", "n2", "n10", "n²", "n٣", "n10b", "n10a"]
    for name in names:
        (folder / name).touch()

    expected = ["n001", "n01", "n1", "n2", "n٣", "n10", "n10a", "n10b", "n²"]
    assert [shard.path for shard in expand_paths("n*")] == expected


@pytest.mark.parametrize(
    ("paths", "error", "message"),
    [
        ("nothing-*", ShardNotFoundError, "nothing-*: no file matches this pattern"),
        ("x@3", ShardNotFoundError, "x: 1 of 3 shards are missing: x-00002-of-00003"),
        ("y@9", ShardNotFoundError, "y-00004-of-00009 and 4 more"),
        ([], ValueError, "name at least one shard"),
        ("a[7:3]", ValueError, "a[7:3]: the slice ends before it starts"),
        ("train-*[0:5]", ValueError, "train-*[0:5]: a slice is taken of one file; of several, slice the source: source[0:5]"),
        ("a[0:5][1:2]", ValueError, "a slice is taken of one file"),
        ("s@3[0:5]", ValueError, "s@3[0:5]: a slice is taken of one file"),
        (7, TypeError, "a list of them, got int"),
        (None, TypeError, "a list of them, got NoneType"),
        (b"a", TypeError, "a list of them, got bytes"),
        (["a", 7], TypeError, "got int"),
        ([b"a"], TypeError, "got bytes"),
        ([["a"]], TypeError, "got list"),
    ],
)
def test_what_names_no_shards_is_refused(folder: Path, paths: Any, error: type[Exception], message: str) -> None:
    """With what is missing, and what was passed."""
    with pytest.raises(error, match=re.escape(message)):
        expand_paths(paths)


def test_a_path_that_gives_bytes_is_refused() -> None:
    """``os.PathLike`` allows it, and almost nothing else does."""

    class Bytes(os.PathLike[str]):
        def __fspath__(self) -> Any:
            return b"a"

    with pytest.raises(TypeError, match="must be a string, got bytes"):
        expand_paths(Bytes())


@given(st.lists(st.integers(0, 6), max_size=8), st.data())
def test_a_range_of_records_is_cut_from_shards_as_from_a_list(lengths: list[int], data: st.DataObject) -> None:
    """For every range: the same records in the same order, no empty shard, and a whole shard without bounds."""
    records = [(f"shard {k}", record) for k, length in enumerate(lengths) for record in range(length)]
    start = data.draw(st.integers(0, len(records)))
    stop = data.draw(st.integers(start, len(records)))
    found = slice_shards([f"shard {k}" for k in range(len(lengths))], lengths, start, stop)

    assert [(s.path, s.start + k) for s, count in found for k in range(count)] == records[start:stop]
    assert all(count for _, count in found)
    for shard, count in found:
        assert (shard.end is None) == (count == lengths[int(shard.path.split()[1])])
        assert shard.end in (None, shard.start + count)
