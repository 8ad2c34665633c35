"""The system is told what will be read, and it reads that, ahead; nothing else depends on it."""

from __future__ import annotations

import mmap
import resource
import sys
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import arrayfeed
from arrayfeed.datasource import ArrayRecordDataSource, BaseSource, SequenceSource, TFRecordSource, hints
from arrayfeed.datasource.errors import ShardNotFoundError
from arrayfeed.datasource.source import Indices
from support.page_cache import drop, resident, wait_for_pages
from support.shards import write_shard
from support.tfrecords import write_tfrecord

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what is in the page cache is asked as Linux tells it")

PAGE = mmap.PAGESIZE
COUNT, SIZE = 40, 150_000


@pytest.fixture(autouse=True)
def nothing_read_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this thread has read before, it does not know of."""
    monkeypatch.setattr(hints, "_reads", hints._Reads())


@pytest.fixture
def records(rng: np.random.Generator) -> list[bytes]:
    return [rng.integers(0, 256, SIZE, np.uint8).tobytes() for _ in range(COUNT)]


def plain(folder: Path, records: list[bytes]) -> tuple[BaseSource[Any], Path]:
    return ArrayRecordDataSource(write_shard(folder / "a", records)), folder / "a"


def preads(folder: Path, records: list[bytes]) -> tuple[BaseSource[Any], Path]:
    return ArrayRecordDataSource(write_shard(folder / "a", records), io="pread"), folder / "a"


def compressed(folder: Path, records: list[bytes]) -> tuple[BaseSource[Any], Path]:
    return ArrayRecordDataSource(write_shard(folder / "a", records, codec="zstd", group_size=2)), folder / "a"


def tfrecords(folder: Path, records: list[bytes]) -> tuple[BaseSource[Any], Path]:
    return TFRecordSource(write_tfrecord(folder / "a", records)), folder / "a"


def indexed(folder: Path, records: list[bytes]) -> tuple[BaseSource[Any], Path]:
    features = {"data": arrayfeed.features.Tensor(shape=(SIZE,), dtype=np.uint8, encoding="bytes")}
    with arrayfeed.DatasetWriter(folder / "data", features, codec="none") as writer:
        writer.write_all({"data": np.frombuffer(record, np.uint8)} for record in records)
    source = arrayfeed.open(folder / "data", split="train", io="mmap")
    return source, next(path for path in (folder / "data").iterdir() if path.stat().st_size > COUNT * SIZE)


MAKERS = [plain, preads, compressed, tfrecords, indexed]


def count_reads() -> int:
    """Return how often this thread has read from a disk, or has waited for that in a fault."""
    usage = resource.getrusage(resource.RUSAGE_THREAD)
    return usage.ru_inblock + usage.ru_majflt


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_what_will_be_needed_comes_into_the_page_cache(
    tmp_path: Path, records: list[bytes], make: Callable[[Path, list[bytes]], tuple[BaseSource[Any], Path]]
) -> None:
    """As much as it says, without any of it being read here; nothing is read from disk when it is asked for then."""
    source, path = make(tmp_path, records)
    source[[0]]  # opens and imports what is opened and imported lazily
    drop(path)
    chosen = [30, 7, 8, 21]
    before = resident(path)

    told = source.will_need(chosen)
    expected = [*before.nonzero()[0]]
    if make is not compressed:  # records lie in their order, and little is between them
        for index in chosen:
            expected += range(index * (path.stat().st_size // COUNT) // PAGE + 2, (index + 1) * SIZE // PAGE - 2)

    assert wait_for_pages(path, np.array(expected))
    assert len(chosen) * SIZE <= told <= len(chosen) * 3 * SIZE
    assert resident(path).sum() <= before.sum() + told // PAGE + 4 * len(chosen)
    reads = count_reads()
    found = source[chosen]
    assert count_reads() == reads
    data = [each["data"].tobytes() for each in found] if make is indexed else found
    assert data == [records[index] for index in chosen]
    source.close()


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_a_batch_is_told_of_before_its_first_record_is_touched(
    tmp_path: Path, records: list[bytes], make: Callable[[Path, list[bytes]], tuple[BaseSource[Any], Path]], monkeypatch: Any
) -> None:
    """All of it at once, as stretches of whole pages; what was foretold is not told again, while other records are."""
    source, path = make(tmp_path, records)
    source.will_need([0])
    told: list[int] = []
    hint = hints._hint

    def note(starts: Indices, sizes: Indices, advise: Callable[[int, int], object]) -> int:
        told.append(starts.size)
        return hint(starts, sizes, advise)

    monkeypatch.setattr(hints, "_hint", note)
    drop(path)

    source[[5, 19, 33]]
    source.will_need([1, 2, 3, 4])
    source[[1, 2, 3, 4]]
    source[[11, 12]]

    assert told == [3, 3 if make is compressed else 4, 2], "two records share a chunk where they are compressed"
    source.close()


def test_hints_pause_while_nothing_comes_from_disk(tmp_path: Path, records: list[bytes]) -> None:
    """And begin again with the first read that does; of each thread by itself."""
    source, path = plain(tmp_path, records)
    source[range(COUNT)]
    told = [source.will_need([k % COUNT]) for k in range(100)]
    assert not any(told[-30:])
    elsewhere: list[int] = []
    thread = threading.Thread(target=lambda: elsewhere.append(source.will_need([3])))
    thread.start()
    thread.join()
    assert elsewhere[0] >= SIZE
    source.close()

    drop(path)
    again, _ = ArrayRecordDataSource(str(path)), again_read(path)
    assert again.will_need([3]) >= SIZE
    again.close()


def again_read(path: Path) -> bytes:
    """Read a few bytes of a file, from disk if they are not in the cache."""
    with path.open("rb") as file:
        return file.read(PAGE)


def test_short_records_are_not_told_of(tmp_path: Path) -> None:
    """Below 32 kB on average; what the system reads around them serves several."""
    for size, is_told in ((800, False), (30_000, False), (40_000, True)):
        source = ArrayRecordDataSource(write_shard(tmp_path / f"{size}", [b"x" * size] * 20))
        assert (source.will_need([3, 11]) > 0) == is_told
        source.close()


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_files_that_are_gone_are_no_matter(
    tmp_path: Path, records: list[bytes], make: Callable[[Path, list[bytes]], tuple[BaseSource[Any], Path]]
) -> None:
    """A word of what will be read raises nothing: reading does."""
    source, path = make(tmp_path, records)
    fresh = arrayfeed.open(tmp_path / "data", split="train") if make is indexed else None
    path.unlink()
    assert (source if fresh is None else fresh).will_need([3, 4]) >= 0
    if fresh is not None:
        with pytest.raises(ShardNotFoundError):
            fresh[[3, 4]]
        fresh.close()
    source.close()


class Told(SequenceSource[Any]):
    """Keeps what it was told of, and what was read."""

    def __init__(self, elements: list[Any]) -> None:
        super().__init__(elements)
        self.told: list[int] = []
        self.read: list[int] = []

    def _read_many(self, indices: Indices) -> list[Any]:
        self.read += indices.tolist()
        return super()._read_many(indices)

    def _will_need(self, indices: Indices) -> int:
        self.told += indices.tolist()
        return indices.size


VIEWS: dict[str, Callable[[Told], BaseSource[Any]]] = {
    "slice": lambda s: s[30:2:-3],
    "selection": lambda s: s.select([9, -1, 9, 0, 4, 17, 3, 2]),
    "map": lambda s: s.map(dict),
    "fields": lambda s: s.as_tuple("n"),
    "batches": lambda s: s.batch(3),
    "windows": lambda s: s.window(4, 2),
    "cache": lambda s: s.cache(),
    "concatenation": lambda s: s[20:] + s[:10],
    "zip": lambda s: arrayfeed.zip_sources(a=s, b=s[::-1]),
    "enumeration": lambda s: s.enumerate(),
    "part": lambda s: s.split([0.5, 0.5], seed=1)[0],
    "view of views": lambda s: s[::2].map(dict).batch(2)[1:].as_tuple("n"),
}


@pytest.mark.parametrize("make", VIEWS.values(), ids=VIEWS)
def test_a_view_tells_its_source_of_what_it_will_read(make: Callable[[Told], BaseSource[Any]]) -> None:
    """Of just these elements, and says how much that source was told."""
    source = Told([{"n": np.int64(k)} for k in range(40)])
    view = make(source)
    indices = [4, 1, 1, -1]

    assert view.will_need(indices) == len(source.told) > 0
    view[indices]
    assert sorted(source.told) == sorted(source.read)


def test_the_rows_of_batches_tell_of_batches() -> None:
    """Each once, however many of its rows are asked for."""
    source = Told([{"n": np.arange(5) + 5 * k} for k in range(8)])
    view = source.unbatch()
    assert view.will_need([0, 3, 12, 39]) == 3
    assert source.told == [0, 2, 7]


def test_a_cache_tells_of_what_it_lacks() -> None:
    """What it has is not read from the source."""
    source = Told([{"n": np.int64(k)} for k in range(40)])
    view = source.cache()
    view[[3, 4]], view.read_batch([5])
    view.will_need([3, 4, 5, 6])
    assert source.told == [6]


@given(st.lists(st.tuples(st.integers(0, 200_000), st.integers(1, 30_000)), min_size=1, max_size=12))
def test_pages_of_stretches_are_named_once(stretches: list[tuple[int, int]]) -> None:
    """Every page that a stretch lies in, and no other; runs of them ascend and do not touch."""
    starts, sizes = np.array(stretches, np.int64).T
    runs = hints.merge_pages(starts, sizes)

    expected = {page for start, size in stretches for page in range(start // PAGE, (start + size - 1) // PAGE + 1)}
    named = [page for start, size in runs for page in range(start // PAGE, (start + size) // PAGE)]
    assert named == sorted(expected)
    assert all(start % PAGE == 0 and size % PAGE == 0 for start, size in runs)
    assert all(a + size < b for (a, size), (b, _) in pairwise(runs))
