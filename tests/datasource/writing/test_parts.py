"""Parts: written by threads, processes and the dead, joined in the order of their numbers."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

import arrayfeed
from arrayfeed import verify
from arrayfeed.datasource.errors import DataError, SchemaError
from arrayfeed.datasource.features import ClassLabel, FeaturesDict
from arrayfeed.datasource.writing import DatasetWriter, PartWriter, find_leftovers, remove_leftovers
from support.written import read_examples

FEATURES = FeaturesDict({"x": np.int64})


def fill(part: PartWriter, count: int = 1000) -> None:
    """Write numbers that tell which part they are of; every third to another split."""
    with part:
        for k in range(0, count, 3):
            number = part.number * 10_000 + k
            part.write({"x": number})
            part.write_columns({"x": [number + 1]}, split="test")
            part.write_all([{"x": number + 2}])


def expected(numbers: Iterable[int], count: int = 1000) -> dict[str, list[int]]:
    blocks = [number * 10_000 + k for number in numbers for k in range(0, count, 3)]
    return {"train": [x for k in blocks for x in (k, k + 2)], "test": [k + 1 for k in blocks]}


def values(path: Path) -> dict[str, list[int]]:
    return {split: [example["x"] for example in examples] for split, examples in read_examples(path).items()}


def test_parts_are_joined_by_number_whoever_was_first(tmp_path: Path) -> None:
    """Behind what was written directly; the data set is the same, byte for byte, in whatever order they were finished."""
    roots = set()
    for attempt, order in enumerate(([0, 2, 5], [5, 0, 2], [2, 5, 0])):
        path = tmp_path / str(attempt)
        with DatasetWriter(path, FEATURES, name="data", shard_records=100) as writer:
            parts = {number: writer.part(number) for number in order}
            writer.write({"x": -1}, split="own")
            writer.write({"x": -2})
            for number in order:
                fill(parts[number], 300)
        found = values(path)
        assert list(found) == ["own", "train", "test"]
        assert found["own"] == [-1]
        assert found["train"] == [-2, *expected([0, 2, 5], 300)["train"]]
        assert found["test"] == expected([0, 2, 5], 300)["test"]
        roots.add(writer.root)
        assert verify(path, root=writer.root).ok
        assert not [name for name in os.listdir(path) if "part" in name or "plan" in name]
    assert len(roots) == 1


def test_threads_and_processes_write_parts_and_lose_nothing(tmp_path: Path, no_leaks: None) -> None:
    """Four of each at once, in one data set."""
    context = multiprocessing.get_context("spawn")
    with DatasetWriter(tmp_path / "data", FEATURES, shard_records=200) as writer:
        threads = [threading.Thread(target=fill, args=(writer.part(number),)) for number in range(4)]
        processes = [context.Process(target=fill, args=(writer.part(number),)) for number in range(4, 8)]
        for process in processes:
            process.start()
        for thread in threads:
            thread.start()
        for process in processes:
            process.join()
        for thread in threads:
            thread.join()
        assert [process.exitcode for process in processes] == [0] * 4
        assert writer.finished_parts == set(range(8))

    assert values(tmp_path / "data") == expected(range(8))


def test_threads_never_lose_an_example(tmp_path: Path) -> None:
    """Fifty times over, by threads that end whenever they like."""
    for attempt in range(50):
        with DatasetWriter(tmp_path / str(attempt), FEATURES, codec="none") as writer:
            parts = [writer.part(number) for number in range(4)]

            def write(part: PartWriter) -> None:
                with part:
                    part.write_columns({"x": np.arange(1000) + 1000 * part.number})

            threads = [threading.Thread(target=write, args=(part,)) for part in parts]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        records = arrayfeed.open(tmp_path / str(attempt), split="train").read_batch(np.arange(4000))
        np.testing.assert_array_equal(records["x"], np.arange(4000))


def test_of_two_processes_that_create_one_data_set_exactly_one_wins(tmp_path: Path) -> None:
    """The other is told, and its work is not lost."""
    code = """
import sys, numpy
from arrayfeed import DatasetExistsError, DatasetWriter
try:
    with DatasetWriter(sys.argv[1], {"x": numpy.int64}) as writer:
        writer.write({"x": int(sys.argv[2])})
        print("ready", flush=True)
        sys.stdin.readline()
except DatasetExistsError:
    sys.exit(7)
"""
    command = [sys.executable, "-c", code, str(tmp_path / "data")]
    pipe = subprocess.PIPE
    writers = [subprocess.Popen([*command, str(number)], stdin=pipe, stdout=pipe, text=True) for number in range(2)]
    for each in writers:
        assert each.stdout is not None and each.stdout.readline() == "ready\n"
    for each in writers:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    codes = [each.wait(60) for each in writers]
    for each in writers:
        each.communicate()

    assert sorted(codes) == [0, 7]
    assert values(tmp_path / "data") == {"train": [codes.index(0)]}
    (loser,) = find_leftovers(tmp_path / "data")
    assert values(Path(loser.directory)) == {"train": [codes.index(7)]}


DIE = """
import os, pickle, sys
part = pickle.load(sys.stdin.buffer)
for number in range(700):
    part.write({"x": number})
os.kill(os.getpid(), 9)
"""


def test_a_part_that_died_is_written_again_without_touching_the_others(tmp_path: Path) -> None:
    """Its files do not count, whatever it had written by then; those of finished parts are not so much as opened."""
    with DatasetWriter(tmp_path / "data", FEATURES, shard_records=200) as writer:
        fill(writer.part(0))
        files = {path: path.stat() for path in Path(writer.directory).rglob("*") if path.is_file()}
        dead = subprocess.run([sys.executable, "-c", DIE], input=pickle.dumps(writer.part(1)), check=False, timeout=60)
        assert dead.returncode == -9
        assert writer.finished_parts == {0}

        with pytest.raises(DataError, match=r"1 parts are not finished: 1\. Write them and close again, or abort\(\)"):
            writer.close()
        fill(writer.part(1))

        assert all(path.stat() == stat for path, stat in files.items())

    assert values(tmp_path / "data") == expected([0, 1])


def test_of_a_part_written_twice_the_last_counts(tmp_path: Path) -> None:
    """Once; two may be at it at the same time."""
    with DatasetWriter(tmp_path / "data", FEATURES) as writer:
        first, second = writer.part(0), writer.part(0)
        first.write({"x": 1})
        second.write({"x": 2})
        second.close()
        first.write({"x": 3})
        first.close()
        third = writer.part(0)
        third.write({"x": 4})
        third.abort()

    assert values(tmp_path / "data") == {"train": [1, 3]}


def test_parts_of_nothing_are_parts(tmp_path: Path) -> None:
    """One that writes no example, one that names a split only."""
    with DatasetWriter(tmp_path / "data", FEATURES) as writer:
        with writer.part(0):
            pass
        with writer.part(1) as part:
            part.write_all([], split="none")
        with writer.part(2) as part:
            part.write_all([], split="some")
            part.write({"x": 1}, split="some")

    assert values(tmp_path / "data") == {"none": [], "some": [1]}


def test_a_parts_errors_name_the_part(tmp_path: Path) -> None:
    """One example, or a row far behind the first of several calls."""
    with DatasetWriter(tmp_path / "data", {"x": ClassLabel(10)}) as writer, writer.part(7) as part:
        part.write({"x": 1})
        with pytest.raises(SchemaError, match=r"^example 1 of split 'train' in part 7: feature 'x'"):
            part.write({"x": 10})
        labels = np.arange(3000) % 10
        labels[2077] = 11
        with pytest.raises(SchemaError, match=r"^example 2078 of split 'train' in part 7: feature 'x'"):
            part.write_columns({"x": labels})

    assert len(values(tmp_path / "data")["train"]) == 2078


def test_a_part_pickles_until_it_is_used(tmp_path: Path) -> None:
    """Then it is tied to its files."""
    with DatasetWriter(tmp_path / "data", FEATURES) as writer:
        part = pickle.loads(pickle.dumps(writer.part(3)))
        assert repr(part) == f"<PartWriter 3 in {writer.directory!r}, unopened, nothing yet>"
        part.write({"x": 1})
        with pytest.raises(TypeError, match="cannot be sent elsewhere once it is in use"):
            pickle.dumps(part)
        part.close()

    assert values(tmp_path / "data") == {"train": [1]}


def test_parts_need_a_number_and_an_open_data_set(tmp_path: Path) -> None:
    """A straggler is told that it comes too late, and leaves nothing in the finished data set."""
    with DatasetWriter(tmp_path / "data", FEATURES) as writer:
        with pytest.raises(ValueError, match="parts are numbered from 0, got -1"):
            writer.part(-1)
        with pytest.raises(TypeError):
            writer.part("a")  # type: ignore[arg-type]
        late, later = writer.part(0), writer.part(0)
        later.write({"x": 1})
        fill(writer.part(0), 3)
    names = sorted(os.listdir(tmp_path / "data"))

    with pytest.raises(DataError, match="the data set that this is a part of is no longer being written"):
        late.write({"x": 1})
    with pytest.raises(DataError):
        later.close()
    with pytest.raises(ValueError, match="takes no more examples"):
        writer.part(1)

    assert sorted(os.listdir(tmp_path / "data")) == names


# -- going on after an interruption -----------------------------------------------------------------------------------


def interrupt(path: Path, **options: str) -> Path:
    """Write two of three parts, and be interrupted in the third."""
    with (
        pytest.raises(KeyboardInterrupt),
        DatasetWriter(path, FEATURES, shard_records=100, resume=True, **options) as writer,  # type: ignore[arg-type]
    ):
        writer.write({"x": 1}, split="own")
        fill(writer.part(0))
        fill(writer.part(2))
        part = writer.part(1)
        part.write({"x": 5})
        raise KeyboardInterrupt
    part.abort()
    (leftover,) = find_leftovers(path)
    return Path(leftover.directory)


def test_a_resumed_writer_keeps_the_finished_parts(tmp_path: Path) -> None:
    """And nothing else of what the interrupted one had written."""
    leftover = interrupt(tmp_path / "data")
    shards = {path: path.stat().st_ino for path in leftover.glob("part-*/*.partial")}
    assert len(shards) > 8

    with DatasetWriter(tmp_path / "data", FEATURES, shard_records=100, resume=True) as writer:
        assert Path(writer.directory) == leftover
        assert writer.finished_parts == {0, 2}
        assert {path: path.stat().st_ino for path in leftover.rglob("*.partial")} == shards
        fill(writer.part(1))

    assert values(tmp_path / "data") == expected(range(3))
    assert os.listdir(tmp_path) == ["data"]


@pytest.mark.parametrize(
    "other", [{"shard_records": 50}, {"codec": "none"}, {"plan": "another"}, {"features": {"x": np.int32}}]
)
def test_only_an_equal_plan_is_resumed(tmp_path: Path, other: dict[str, object]) -> None:
    """Parts of another would not fit; the leftover is told of, as ever."""
    leftover = interrupt(tmp_path / "data")

    arguments = {"features": FEATURES, "shard_records": 100, "resume": True, **other}
    with pytest.warns(UserWarning, match="an earlier run was interrupted and left"):
        writer = DatasetWriter(tmp_path / "data", **arguments)  # type: ignore[arg-type]
    assert writer.finished_parts == set()
    writer.abort()

    assert leftover.exists()


def test_without_resume_an_interrupted_writer_leaves_nothing_and_takes_nothing(tmp_path: Path) -> None:
    """As it always was."""
    leftover = interrupt(tmp_path / "data")

    with pytest.warns(UserWarning, match="an earlier run was interrupted and left"):
        writer = DatasetWriter(tmp_path / "data", FEATURES, shard_records=100)
    assert Path(writer.directory) != leftover
    writer.abort()
    assert remove_leftovers(tmp_path / "data") == [str(leftover)]
    assert os.listdir(tmp_path) == []


def test_two_cannot_resume_the_same_leftover(tmp_path: Path) -> None:
    """The second begins anew."""
    leftover = interrupt(tmp_path / "data")

    first = DatasetWriter(tmp_path / "data", FEATURES, shard_records=100, resume=True)
    second = DatasetWriter(tmp_path / "data", FEATURES, shard_records=100, resume=True)

    assert first.directory == str(leftover)
    assert second.directory != first.directory
    for writer in (first, second):
        writer.abort()


def test_a_part_whose_files_are_damaged_is_written_again(tmp_path: Path) -> None:
    """A leftover may have been killed while its parts were being joined."""
    leftover = interrupt(tmp_path / "data")
    next(leftover.glob("part-00002-*/*.partial")).unlink()

    with DatasetWriter(tmp_path / "data", FEATURES, shard_records=100, resume=True) as writer:
        assert writer.finished_parts == {0}
        fill(writer.part(1))
        fill(writer.part(2))

    assert values(tmp_path / "data") == expected(range(3))
