"""A cache in a file: who may use it, what damage does to it, and that many processes fill it together."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arrayfeed import ArrayRecordDataSource, ArraySource, DataError, Field, SequenceSource
from arrayfeed.datasource import BaseSource
from support.equal import difference
from support.shards import write_shard
from support.sources import Asked, divide, negate

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs the file locks of POSIX")

COUNT = 60


def example(number: int) -> dict[str, Any]:
    return {"x": np.full(number % 7 * 5, number, np.int32), "label": number, "name": f"é{number}"}


def source() -> Asked:
    """Return a source that notes what is asked of it; every call gives one that is equal."""
    return Asked([example(k) for k in range(COUNT)])


def fill(path: Path) -> bytes:
    """Fill a cache file with examples and rows of all elements, and return its bytes."""
    with source().cache(path=path) as view:
        list(view)
        for number in range(7):
            view.read_batch(range(number, COUNT, 7))
    return path.read_bytes()


def assert_right(view: BaseSource[Any]) -> None:
    """Fail unless all elements, alone and as rows, are what they should be."""
    assert not difference(list(view), [example(k) for k in range(COUNT)])
    for number in range(0, 7, 3):
        rows = range(number, COUNT, 7)
        batch = view.read_batch(rows)
        assert batch["label"].tolist() == list(rows)
        assert not difference(batch["x"], np.stack([example(k)["x"] for k in rows]))


def test_what_one_process_read_the_next_does_not(tmp_path: Path) -> None:
    """The source is not asked again, of whatever folder the file is named from."""
    fill(tmp_path / "cache")
    again = source()
    with again.cache(path=tmp_path / "cache") as view:
        assert_right(view)
        assert again.asked == []
        assert (view.stats().examples, view.stats().rows, view.stats().misses) == (COUNT, COUNT, 0)


def test_it_is_filled_record_by_record(tmp_path: Path) -> None:
    """What was read counts, though the pass was never finished; other caches leave nothing behind then."""
    for part in range(4):
        asked = source()
        with asked.cache(path=tmp_path / "cache") as view:
            next(iter(view))
            view[[part * 10 + k for k in range(10)]]
        assert [calls for kind, calls in asked.asked if kind == "many"] == [[k for k in range(part * 10, part * 10 + 10) if k]]


def test_an_unpickled_view_shares_the_file(tmp_path: Path) -> None:
    """By its absolute path."""
    view = source().cache(path=tmp_path / "cache")
    copy = pickle.loads(pickle.dumps(view))
    list(view)
    assert_right(copy)

    assert copy.stats().hits >= COUNT and copy.stats().examples == COUNT
    view.close()
    copy.close()


@pytest.mark.parametrize(
    "other",
    [
        lambda: ArraySource(np.arange(COUNT)),
        lambda: source()[1:],
        lambda: source()[::-1],
        lambda: source().map(negate),
        lambda: SequenceSource(range(COUNT)),
    ],
    ids=["source", "slice", "order", "map", "length"],
)
def test_another_sources_cache_is_refused_and_stays_as_it_is(tmp_path: Path, other: Any) -> None:
    """The error names the file and what to do."""
    before = fill(tmp_path / "cache")
    with pytest.raises(
        DataError, match="filled from another source, from other code, or is damaged; delete it or give another"
    ) as e:
        other().cache(path=tmp_path / "cache")
    assert e.value.path == str(tmp_path / "cache")
    assert (tmp_path / "cache").read_bytes() == before


def test_a_change_of_a_mapped_functions_body_makes_it_another_cache(tmp_path: Path) -> None:
    """Of the same name; a fingerprint does not see that, and a file that outlives the program must."""
    versions = []
    for body in ("element * 2", "element * 2", "element * 3"):
        scope: dict[str, Any] = {"__name__": "mine"}
        exec(f"def scale(element):\n    return {body}", scope)
        versions.append(SequenceSource([1, 2, 3]).map(scope["scale"]))
    with versions[0].cache(path=tmp_path / "cache") as view:
        assert list(view) == [2, 4, 6]
    with versions[1].cache(path=tmp_path / "cache") as view:
        assert list(view) == [2, 4, 6]
        assert view.stats().misses == 0
    assert versions[1].fingerprint == versions[2].fingerprint
    with pytest.raises(DataError, match="from other code"):
        versions[2].cache(path=tmp_path / "cache")


@pytest.mark.parametrize("make", ["records", "examples", "arrays"])
def test_files_that_were_written_anew_are_others(tmp_path: Path, make: str) -> None:
    """Of the same names, lengths and sizes: what was kept of them before is not handed out."""

    def write(value: int) -> BaseSource[Any]:
        rows = np.zeros((1000, 4), np.uint8)
        rows[1] = value
        if make == "arrays":
            np.save(tmp_path / "rows.npy", rows)
            return ArraySource(tmp_path / "rows.npy")
        records = ArrayRecordDataSource(write_shard(tmp_path / "shard", [row.tobytes() for row in rows]))
        return records if make == "records" else records.decode({"none": Field(np.int64, default=0)})

    before = write(1)
    before.cache(path=tmp_path / "cache").close()
    before.cache(path=tmp_path / "cache").close()
    time.sleep(0.02)  # longer than the clock of any file system's times stands still
    after = write(2)
    assert after.fingerprint == before.fingerprint
    with pytest.raises(DataError, match="filled from another source"):
        after.cache(path=tmp_path / "cache")


def test_a_file_of_another_kind_is_not_touched(tmp_path: Path) -> None:
    """Nor is what is no file, or is nowhere."""
    for content in (b"mine", bytes(20), b"x" * 10_000):
        (tmp_path / "mine").write_bytes(content)
        with pytest.raises(DataError, match="this is no cache; nothing was written to it"):
            source().cache(path=tmp_path / "mine")
        assert (tmp_path / "mine").read_bytes() == content
    with pytest.raises(DataError, match="cannot be opened: Is a directory"):
        source().cache(path=tmp_path)
    with pytest.raises(DataError, match="cannot be opened: No such file or directory"):
        source().cache(path=tmp_path / "nowhere" / "cache")


def test_no_damage_gives_a_wrong_element(tmp_path: Path, rng: np.random.Generator) -> None:
    """A flipped bit, an overwritten part, a cut: each element is right, from the source if need be, or the file is refused."""
    path = tmp_path / "cache"
    whole = fill(path)
    refused = 0
    for attempt in range(300):
        damaged = bytearray(whole)
        if attempt % 3 == 0:
            damaged[int(rng.integers(len(whole)))] ^= 1 << int(rng.integers(8))
        elif attempt % 3 == 1:
            start, size = int(rng.integers(len(whole) - 8)), int(rng.integers(1, 200))
            damaged[start : start + size] = rng.bytes(min(size, len(whole) - start))
        else:
            del damaged[int(rng.integers(1, len(whole))) :]
        path.write_bytes(damaged)
        try:
            view = source().cache(path=path)
        except DataError:
            refused += 1
            continue
        with view:
            assert_right(view)
            assert_right(view)
    assert refused < 150


def test_every_flipped_bit_of_an_entry_is_read_around(tmp_path: Path) -> None:
    """Of one element's entry, bit by bit; and what was damaged is kept anew."""
    path = tmp_path / "cache"
    with Asked([example(3)]).cache(path=path) as view:
        list(view)
    whole = path.read_bytes()
    for bit in range(8 * 80, 8 * len(whole), 3):  # behind header and table
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with Asked([example(3)]).cache(path=path) as view:
            assert not difference(view[0], example(3)), bit
        with Asked([example(3)]).cache(path=path) as view:
            assert not difference(view[0], example(3)), bit


# -- many processes -------------------------------------------------------------------------------------------------------


def read_all(view: BaseSource[Any], seed: int) -> None:
    order = np.random.default_rng(seed).permutation(COUNT)
    for index in order.tolist():
        assert not difference(view[index], example(index))
    assert_right(view)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_fill_one_file_together(tmp_path: Path, method: str) -> None:
    """All read right while all write; each element is in the file once."""
    alone = len(fill(tmp_path / "alone"))
    view = source().cache(path=tmp_path / "cache")
    context: Any = multiprocessing.get_context(method)
    children = [context.Process(target=read_all, args=(view, seed)) for seed in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0] * 4
    assert_right(view)
    assert view.stats().examples == COUNT
    view.close()
    assert (tmp_path / "cache").stat().st_size < 1.5 * alone


def fill_for_ever(path: Path) -> None:
    while True:
        with source().cache(path=path) as view:
            read_all(view, 0)
        path.unlink()


def test_a_process_killed_at_any_moment_leaves_what_can_be_used(tmp_path: Path, rng: np.random.Generator) -> None:
    """Half an entry is none: the next reader reads around it, and others may go on writing behind it."""
    context: Any = multiprocessing.get_context("fork")
    for _ in range(20):
        child = context.Process(target=fill_for_ever, args=(tmp_path / "cache",))
        child.start()
        time.sleep(float(rng.uniform(0.005, 0.05)))
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        with source().cache(path=tmp_path / "cache") as view:
            assert_right(view)


def test_a_full_disk_is_no_error(tmp_path: Path) -> None:
    """What does not fit is read from the source, as beyond ``max_bytes``."""
    import resource

    view = source().cache(path=tmp_path / "cache")
    view[:5][0]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(tmp_path / "cache") + 100, limits[1]))
        with pytest.warns(RuntimeWarning, match="the cache is full"):
            assert_right(view)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert_right(view)
    view.close()


def test_an_error_of_the_source_leaves_the_file_usable(tmp_path: Path) -> None:
    """It passes as it is."""
    with SequenceSource([5, 0, 2]).map(divide).cache(path=tmp_path / "cache") as view:
        with pytest.raises(ZeroDivisionError):
            list(view)
        assert [view[0], view[2]] == [20, 50]
