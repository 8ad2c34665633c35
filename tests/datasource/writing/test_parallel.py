"""write_dataset: the same directory from any source and any number of processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import arrayfeed
from arrayfeed import verify
from arrayfeed.datasource.errors import DatasetExistsError, SchemaError
from arrayfeed.datasource.features import ClassLabel, FeaturesDict, Tensor
from arrayfeed.datasource.tfds import DatasetInfo
from arrayfeed.datasource.writing import find_leftovers, write_dataset
from support.written import read_examples, read_records

FEATURES = FeaturesDict({"x": Tensor(shape=(5,), dtype=np.float32, encoding="bytes"), "label": ClassLabel(10)})


def make_columns(count: int) -> dict[str, Any]:
    rng = np.random.default_rng(count)
    return {"x": rng.random((count, 5), np.float32), "label": rng.integers(0, 10, count)}


@cache
def make_rows(count: int) -> list[dict[str, Any]]:
    columns = make_columns(count)
    return [{"x": columns["x"][k], "label": int(columns["label"][k])} for k in range(count)]


class Lazy(Sequence[dict[str, Any]]):
    """Examples made when they are asked for, here by number or many at once."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: Any) -> Any:
        return make_rows(self.length)[index]


class Batched(Lazy):
    """The same, many at once."""

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        rows = make_rows(self.length)
        return [rows[index] for index in indices]


def generate(count: int, shard: int, num_shards: int) -> Iterator[dict[str, Any]]:
    """Give every so manieth example."""
    yield from make_rows(count)[shard::num_shards]


def shard_lengths(path: Path) -> dict[str, tuple[int, ...]]:
    return {split.name: split.shard_lengths for split in DatasetInfo.read(path).splits}


# -- the same from everywhere -----------------------------------------------------------------------------------------


def test_every_kind_of_source_gives_the_same_data_set(tmp_path: Path, no_leaks: None) -> None:
    """Byte for byte, whatever the number of processes: columns, lists, sequences lazy or batched, another data set."""
    sources: dict[str, tuple[Any, int]] = {
        "columns": (make_columns(500), 0),
        "columns by processes": (make_columns(500), 3),
        "rows": (make_rows(500), 0),
        "lazy": (Lazy(500), 0),
        "batched": (Batched(500), 0),
        "batched by a process": (Batched(500), 1),
    }
    roots = {}
    for name, (source, num_workers) in sources.items():
        splits = {"train": source, "test": make_columns(3)}
        roots[name] = write_dataset(tmp_path / name, splits, FEATURES, name="a", num_shards=4, num_workers=num_workers)
        assert verify(tmp_path / name, root=roots[name]).ok
    copied = arrayfeed.open(tmp_path / "rows")
    roots["copy"] = write_dataset(tmp_path / "copy", copied, FEATURES, name="a", num_shards=4, num_workers=2)

    assert len(set(roots.values())) == 1
    assert shard_lengths(tmp_path / "rows") == {"train": (125,) * 4, "test": (1, 1, 1)}
    found = read_examples(tmp_path / "rows")["train"]
    assert all(np.array_equal(a["x"], b["x"]) and a["label"] == b["label"] for a, b in zip(found, make_rows(500), strict=True))


def test_examples_keep_their_order_and_none_is_lost(tmp_path: Path) -> None:
    """For every number of examples and shards, to the first and last; shards are equal, but for one example."""
    for count in (0, 1, 2, 7, 60):
        for num_shards in (1, 2, 7, 50):
            path = tmp_path / f"{count} {num_shards}"
            write_dataset(path, {"a": {"x": np.arange(count)}, "b": {"x": [5]}}, {"x": np.int64}, num_shards={"a": num_shards})

            assert [example["x"] for example in read_examples(path)["a"]] == list(range(count))
            lengths = shard_lengths(path)["a"]
            assert len(lengths) == min(num_shards, count)
            assert max(lengths, default=0) - min(lengths, default=0) <= 1
            assert set(shard_lengths(path)) == {"a", "b"}


def test_a_fingerprint_that_is_there_saves_the_work(tmp_path: Path) -> None:
    """The sources are not so much as looked at; of another fingerprint, or none, what is there is in the way."""

    def never(shard: int, num_shards: int) -> Iterator[dict[str, int]]:
        raise AssertionError

    path = tmp_path / "data"
    features = {"x": np.int64}
    root = write_dataset(path, {"train": [{"x": 1}]}, features, fingerprint="made of 1")

    assert write_dataset(path, {"train": never}, features, num_shards=9, fingerprint="made of 1") == root == verify(path).root
    for other in ("made of 2", ""):
        with pytest.raises(DatasetExistsError):
            write_dataset(path, {"train": [{"x": 2}]}, features, fingerprint=other)
    assert read_examples(path) == {"train": [{"x": 1}]}
    assert write_dataset(tmp_path / "other", {"train": [{"x": 1}]}, features, name="data") == root, (
        "which says only what is there"
    )
    assert write_dataset(path, {"train": [{"x": 2}]}, mode="append") != root
    with pytest.raises(DatasetExistsError):
        write_dataset(path, {"train": never}, features, num_shards=1, fingerprint="made of 1")


def test_ten_files_of_an_odd_number_of_examples_lose_none(tmp_path: Path) -> None:
    """As ``len // 10`` examples a file would."""
    write_dataset(tmp_path / "data", {"train": {"x": np.arange(60_001)}}, {"x": np.int64}, num_shards=10, codec="none")

    lengths = shard_lengths(tmp_path / "data")["train"]
    assert (len(lengths), sum(lengths), max(lengths) - min(lengths)) == (10, 60_001, 1)
    found = arrayfeed.open(tmp_path / "data", split="train").read_batch(np.arange(60_001))
    np.testing.assert_array_equal(found["x"], np.arange(60_001))


@pytest.mark.parametrize(
    ("options", "lengths"),
    [
        ({"shard_records": 256}, (256, 256, 256, 232)),
        ({"shard_records": 1000}, (1000,)),
        ({"shard_bytes": 14 * 300}, (250, 250, 250, 250)),  # a record of this data set has 14 bytes
        ({"shard_bytes": 14 * 500, "shard_records": 100}, (100,) * 10),
        ({"shard_bytes": 14 * 50, "shard_records": 100}, (50,) * 20),
        ({"shard_bytes": 14 * 100 + 13, "shard_records": 1001}, (100,) * 10),
        ({}, (1000,)),
    ],
)
def test_limits_cut_shards_beforehand(tmp_path: Path, options: Any, lengths: tuple[int, ...]) -> None:
    """So many records exactly; not past so many bytes, and then of equal lengths."""
    write_dataset(tmp_path / "data", {"train": {"x": np.full(1000, 3)}}, {"x": np.int64}, **options)

    assert {len(record) for record in read_records(tmp_path / "data")["train"]} == {14}
    assert shard_lengths(tmp_path / "data") == {"train": lengths}


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_function_gives_the_examples_of_each_shard(tmp_path: Path, num_workers: int) -> None:
    """One for every shard, in their order; a shard past the limit becomes several, of none there is nothing."""
    write_dataset(
        tmp_path / "data",
        {"train": partial(generate, 100), "few": partial(generate, 2), "none": partial(generate, 0)},
        {"x": Tensor(shape=(5,), dtype=np.float32), "label": np.int64},
        num_shards=4,
        num_workers=num_workers,
        shard_records=20,
    )

    assert shard_lengths(tmp_path / "data") == {"train": (20, 5) * 4, "few": (1, 1), "none": ()}
    labels = [row["label"] for row in make_rows(100)]
    expected = [label for shard in range(4) for label in labels[shard::4]]
    assert [example["label"] for example in read_examples(tmp_path / "data")["train"]] == expected


def test_whether_to_compress_is_told_from_all_over_the_source(tmp_path: Path, rng: np.random.Generator) -> None:
    """Not from its first records, which here are all zeros; one codec serves all shards."""
    x = rng.random((2000, 100), np.float32)
    x[:300] = 0
    features = {"x": Tensor(shape=(100,), dtype=np.float32, encoding="bytes")}

    write_dataset(tmp_path / "data", {"train": {"x": x}}, features, num_shards=4)

    assert min(path.stat().st_size for path in (tmp_path / "data").glob("*.array_record-*")) > 2000 * 400 / 4


# -- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("as_rows", [False, True])
def test_an_example_that_does_not_fit_is_named_by_its_number(tmp_path: Path, num_workers: int, as_rows: bool) -> None:
    """In the whole split, whichever process came across it; nothing is left."""
    columns = make_columns(3000)
    columns["label"][1777] = 10
    rows = [{"x": columns["x"][k], "label": columns["label"][k]} for k in range(3000)]

    with pytest.raises(SchemaError, match=r"^example 1777 of split 'train': feature 'label': .*got 10"):
        write_dataset(
            tmp_path / "data", {"train": rows if as_rows else columns}, FEATURES, num_shards=2, num_workers=num_workers
        )

    assert os.listdir(tmp_path) == []


def test_a_sample_that_does_not_fit_is_told_before_anything_is_made(tmp_path: Path) -> None:
    """The first example is always among those that are looked at."""
    with pytest.raises(SchemaError, match=r"^example 0 of split 'train': .*Nothing was written"):
        write_dataset(tmp_path / "data", {"train": {"x": ["a"]}}, {"x": np.int64})

    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("source", "options", "error", "message"),
    [
        (iter([]), {}, TypeError, "columns, a sequence of examples or a function expected, got list_iterator"),
        (7, {}, TypeError, "got int"),
        (generate, {}, ValueError, "split 'train' is given by a function, for which num_shards must say"),
        (generate, {"num_shards": {"test": 1}}, ValueError, "num_shards must say"),
        ([], {"num_shards": 0}, ValueError, "num_shards must be 1 or more, got 0 for split 'train'"),
        ([], {"shard_records": 0}, ValueError, "shard_records must be 1 or more"),
        ([], {"version": "x"}, ValueError, "version must be"),
        ({"x": [1], "y": [1, 2]}, {}, SchemaError, "columns of one length expected"),
        (lambda shard, num_shards: [], {"num_shards": 2, "num_workers": 1}, TypeError, "cannot be sent to worker processes"),
    ],
)
def test_what_is_no_source_is_refused(tmp_path: Path, source: Any, options: Any, error: type[Exception], message: str) -> None:
    """With what to do instead; and nothing is left."""
    with pytest.raises(error, match=message):
        write_dataset(tmp_path / "data", {"train": source}, {"x": np.int64}, **options)

    assert os.listdir(tmp_path) == []


def test_what_exists_is_not_overwritten(tmp_path: Path) -> None:
    """As by any writer."""
    write_dataset(tmp_path / "data", {"train": {"x": [1]}}, {"x": np.int64})

    with pytest.raises(DatasetExistsError):
        write_dataset(tmp_path / "data", {"train": {"x": [1]}}, {"x": np.int64})


def die_once(directory: str, shard: int, num_shards: int) -> Iterator[dict[str, Any]]:
    """Give a hundred examples, but end the process in the middle of them the first time."""
    mark = Path(directory, str(shard))
    for k in range(100):
        if k == 50 and shard == 2 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield {"x": 1000 * shard + k}


def test_a_shard_whose_process_dies_is_written_again(tmp_path: Path, no_leaks: None) -> None:
    """As when memory ran out; nothing is lost, nothing comes twice."""
    (tmp_path / "marks").mkdir()

    write_dataset(
        tmp_path / "data",
        {"train": partial(die_once, str(tmp_path / "marks"))},
        {"x": np.int64},
        num_shards=4,
        num_workers=2,
    )

    assert os.listdir(tmp_path / "marks") == ["2"]
    found = [example["x"] for example in read_examples(tmp_path / "data")["train"]]
    assert found == [1000 * shard + k for shard in range(4) for k in range(100)]


def log_and_fail(log: str, fails: bool, shard: int, num_shards: int) -> Iterator[dict[str, Any]]:
    with open(log, "a") as file:
        file.write(f"{shard} ")
    yield {"x": shard}
    if fails and shard == 3:
        raise ZeroDivisionError


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_resumed_run_writes_only_what_is_missing(tmp_path: Path, num_workers: int) -> None:
    """Finished shards are kept, the failed one and those after it written; the outcome is that of one run."""
    log = tmp_path / "log"
    write = partial(
        write_dataset, tmp_path / "out" / "data", features={"x": np.int64}, num_shards=6, num_workers=num_workers, resume=True
    )

    with pytest.raises(ZeroDivisionError):
        write({"train": partial(log_and_fail, str(log), True)})
    assert log.read_text() == "0 1 2 3 "
    root = write({"train": partial(log_and_fail, str(log), False)})

    assert log.read_text() == "0 1 2 3 3 4 5 "
    assert [example["x"] for example in read_examples(tmp_path / "out" / "data")["train"]] == list(range(6))
    assert os.listdir(tmp_path / "out") == ["data"]
    assert root == write_dataset(tmp_path / "data", {"train": {"x": np.arange(6)}}, {"x": np.int64}, num_shards=6, codec="none")


def test_the_bar_counts_examples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """To the end where it is known, from where an interrupted run was; none unless asked for."""
    write_dataset(tmp_path / "a", {"train": make_columns(50)}, FEATURES)
    assert capsys.readouterr().err == ""

    write_dataset(tmp_path / "b", {"train": make_columns(50), "test": make_rows(20)}, FEATURES, progress=True)
    assert "b: 100%" in (shown := capsys.readouterr().err)
    assert "70/70" in shown

    write_dataset(tmp_path / "c", {"train": partial(generate, 30)}, FEATURES, progress=True, num_shards=2, num_workers=2)
    assert "30 examples" in capsys.readouterr().err


SLOW = """
import sys, time
import numpy
from arrayfeed.datasource.writing import write_dataset

def give(shard, num_shards):
    for k in range(20):
        time.sleep(0.01)
        yield {"x": 20 * shard + k}

if __name__ == "__main__":
    write_dataset(sys.argv[1], {"train": give}, {"x": numpy.int64}, num_shards=8, num_workers=2, resume=True)
"""


def test_killed_at_any_moment_it_leaves_what_can_be_resumed(tmp_path: Path) -> None:
    """No process outlives the one that was killed, nothing opens, and in the end nothing is lost."""
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    path = tmp_path / "out" / "data"
    moments = iter((0.3, 0.6, 0.9, 1.2))
    for _ in range(50):
        process = psutil.Popen([sys.executable, script, path], stderr=subprocess.DEVNULL)
        children: list[psutil.Process] = []
        end = time.monotonic() + next(moments, 30.0)
        while process.poll() is None and time.monotonic() < end:
            children += [child for child in process.children(recursive=True) if child not in children]
            time.sleep(0.02)
        if process.poll() is None:
            process.kill()
        process.wait()
        _, alive = psutil.wait_procs(children, timeout=10)
        assert not alive
        if path.exists():
            break
        with pytest.raises(arrayfeed.DataError):
            arrayfeed.open(path)

    assert [example["x"] for example in read_examples(path)["train"]] == list(range(160))
    assert find_leftovers(path) == []
    assert verify(path).ok
