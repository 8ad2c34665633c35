"""What every source promises, whatever it reads: one suite over all kinds of them, a list of the elements as the oracle."""

# Much here is passed what the annotations forbid, to see what is said of it at run time.
# mypy: disable-error-code="arg-type, call-overload, no-untyped-call, unused-ignore"

from __future__ import annotations

import gc
import inspect
import itertools
import operator
import pickle
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arrayfeed.datasource import ArrayRecordDataSource, BaseSource
from arrayfeed.datasource.columns import StructureError, stack
from arrayfeed.datasource.shards import Shard
from arrayfeed.datasource.structure import walk
from support.source_cases import SOURCE_CASES, Case, freeze
from support.view_cases import VIEW_CASES

ROOT = Path(__file__).parents[1]
CASES = SOURCE_CASES | VIEW_CASES

# One source is read by many examples of a property: it does not change.
same_source = settings(max_examples=settings().max_examples // 5, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Seven:
    """An integer to all who ask, and no number."""

    def __index__(self) -> int:
        return 7


#: Those that the others are made of are read 100,000 times by threads; the others a tenth of that, unless there is time.
MAIN = {"mmap", "pread", "zstd", "examples", "TFRecord files", "arrays in mapped files", "cache in memory"}


@pytest.fixture(params=list(CASES))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def case(name: str) -> Case:
    return CASES[name]


@pytest.fixture
def made(case: Case, tmp_path: Path) -> Iterator[tuple[BaseSource[Any], Sequence[Any]]]:
    source, elements = case(tmp_path)
    yield source, elements
    source.close()


@pytest.fixture
def source(made: tuple[BaseSource[Any], Sequence[Any]]) -> BaseSource[Any]:
    """A source that was just made: nothing of it was read."""
    return made[0]


@pytest.fixture
def elements(made: tuple[BaseSource[Any], Sequence[Any]]) -> list[Any]:
    """What its elements are."""
    return [freeze(element) for element in made[1]]


def frozen(found: Any) -> list[Any]:
    return [freeze(element) for element in found]


@contextmanager
def quick_switches() -> Iterator[None]:
    """Let threads take turns a hundred times as often as they do by themselves."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def run_threads(tasks: Sequence[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=task) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class TestContract:
    # -- elements -------------------------------------------------------------------------------------------------

    def test_its_length_is_the_number_of_its_elements(self, source: BaseSource[Any], elements: list[Any]) -> None:
        """An empty one is false, as a list is."""
        assert len(source) == len(elements)
        assert bool(source) == bool(elements)

    def test_an_element_is_read_by_any_integer_from_both_ends(self, source: BaseSource[Any], elements: list[Any]) -> None:
        """Python's, NumPy's of all widths, bool, and whatever has ``__index__``."""
        for k in range(-len(elements), len(elements)):
            assert freeze(source[k]) == elements[k]
        for kind in (np.int8, np.uint8, np.int32, np.uint64, np.array, bool):
            for k in (0, 1, -1) if kind not in (np.uint8, np.uint64, bool) else (0, 1):
                if len(elements) > abs(k):
                    assert freeze(source[kind(k)]) == elements[k]  # type: ignore[index]
        if len(elements) > 7:
            assert freeze(source[Seven()]) == elements[7]  # type: ignore[call-overload]

    def test_outside_is_an_index_error_that_says_how_many_there_are(self, source: BaseSource[Any], elements: list[Any]) -> None:
        """One past either end, and numbers of any size, alone or among others."""
        count = len(elements)
        for index in (count, count + 1, -count - 1, 2**31, 2**63 - 1, -(2**63), 2**63, 2**64, -(10**30)):
            message = re.escape(f"index {index} is out of range for {count} ")
            reads: list[Callable[[], Any]] = [
                lambda: source[index],  # noqa: B023
                lambda: source[[index]],  # noqa: B023
                lambda: source[(*range(count), index)],  # type: ignore[call-overload]  # noqa: B023
                lambda: source.__getitems__([*range(count), index]),  # noqa: B023
                lambda: source.read_batch([index]),  # noqa: B023
                lambda: source.select([index]),  # noqa: B023
            ]
            if -(2**63) <= index < 2**63:
                reads += [lambda: source[np.array([index])], lambda: source[np.int64(index)]]  # noqa: B023
            for read in reads:
                with pytest.raises(IndexError, match=message):
                    read()

    def test_what_is_no_integer_is_a_type_error(self, source: BaseSource[Any]) -> None:
        """Floats, even whole ones, texts, None, masks, arrays of more dimensions."""
        for key in (0.0, 1.5, "0", None, 1j, np.float64(0), np.array(0.0), object(), {0}):
            with pytest.raises(TypeError):
                source[key]  # type: ignore[index]
            with pytest.raises(TypeError):
                source.__getitems__([key])  # type: ignore[list-item]
        for keys in ([True, False], np.array([True]), np.array([[0]]), [[0]], np.array([0.0]), ["0"], [None], [1.5, 0], 0):
            for read in (source.__getitems__, source.read_batch, source.select):
                with pytest.raises(TypeError):
                    read(keys)  # type: ignore[operator]

    def test_a_list_of_indices_gives_a_list_in_its_order(self, source: BaseSource[Any], elements: list[Any]) -> None:
        """Duplicates and negative ones too, of any kind of sequence; the caller's array stays as it is."""
        count = len(elements)
        asked = np.random.default_rng(0).integers(-count, count, 100).tolist() if count else []
        expected = [elements[k] for k in asked]
        for keys in (asked, tuple(asked), np.array(asked, np.int64), np.array(asked, np.int16), np.array(asked, object)):
            before = [*keys]
            assert frozen(source[keys]) == frozen(source.__getitems__(keys)) == expected  # type: ignore[call-overload]
            assert [*keys] == before
        assert frozen(source[np.array(asked, np.int64) % max(count, 1)].__iter__()) == expected
        assert frozen(source[range(count)[::-1]]) == elements[::-1]
        assert source[[]] == source.__getitems__(np.empty(0, np.int64)) == []
        assert type(source[[]]) is list

    def test_a_word_of_what_will_be_read_changes_nothing(self, source: BaseSource[Any], elements: list[Any]) -> None:
        """Whatever is foretold, in any order; what lies outside is refused, and a closed source has no use for it."""
        count = len(elements)
        asked = np.random.default_rng(0).integers(-count, count, 50).tolist() if count else []
        for indices in (asked, np.array(asked, np.int64), [*range(count)], []):
            assert source.will_need(indices) >= 0
            assert frozen(source[asked]) == [elements[k] for k in asked]
        with pytest.raises(IndexError, match=f"index {count} is out of range"):
            source.will_need([count])
        source.close()
        assert source.will_need(asked) == 0

    def test_a_batch_is_the_elements_stacked(self, source: BaseSource[Any], elements: list[Any]) -> None:
        """``read_batch`` gives the columns that ``stack`` makes of the elements, and ``read_batches`` several such."""
        count = len(elements)
        asked = np.random.default_rng(0).integers(-count, count, 50).tolist() if count else []
        bounds = [0, 0, len(asked) // 3, len(asked)]
        expected = [source[asked[a:b]] for a, b in itertools.pairwise(bounds)]
        try:
            columns = [stack(rows) for rows in expected]
        except StructureError:
            # What does not stack, makes no batch: a short last batch among whole ones.
            with pytest.raises(StructureError):
                source.read_batches(asked, bounds)
            with pytest.raises(StructureError):
                source.read_batch(asked)
            return
        for batch, rows, wanted in zip(source.read_batches(asked, bounds), expected, columns, strict=True):
            if rows:
                assert self.rows_of(batch, len(rows)) == self.rows_of(wanted, len(rows))
        if asked:
            assert self.rows_of(source.read_batch(asked), len(asked)) == self.rows_of(stack(source[asked]), len(asked))

    @staticmethod
    def rows_of(columns: Any, count: int) -> list[Any]:
        """Return a batch row by row: of each leaf, and of each structure around them."""
        leaves = walk(columns)
        assert all(isinstance(leaf, np.ndarray) and len(leaf) == count for _, leaf in leaves)
        return [[type(columns), *[(path, freeze(np.asarray(leaf[row]))) for path, leaf in leaves]] for row in range(count)]

    def test_it_is_a_sequence(self, source: BaseSource[Any], elements: list[Any]) -> None:
        """Iteration, also twice and by turns, ``reversed``, ``in``, ``index`` and ``count``."""
        assert frozen(source) == frozen(iter(source)) == elements
        assert [(freeze(a), freeze(b)) for a, b in zip(source, source, strict=True)] == [(e, e) for e in elements]
        assert frozen(reversed(source)) == elements[::-1]
        assert isinstance(source, Sequence)
        if elements and elements[0][0] not in ("array", "tuple"):  # of arrays a list cannot say either
            assert object() not in source
        if elements and elements[0][0] == "bytes":
            for element in (elements[0][1], elements[-1][1]):
                assert element in source
                assert source.index(element) == elements.index(("bytes", element))
                assert source.count(element) == elements.count(("bytes", element))
        with pytest.raises(ValueError):
            source.index(object())

    # -- views ----------------------------------------------------------------------------------------------------

    @same_source
    @given(data=st.data())
    def test_slices_are_those_of_a_list_to_any_depth(
        self, source: BaseSource[Any], elements: list[Any], data: st.DataObject
    ) -> None:
        """Starts, stops and steps of any sign and size, of slices of slices and selections; lazily, and then read."""
        view: BaseSource[Any] = source
        expected = elements
        for _ in range(data.draw(st.integers(1, 4))):
            if expected and data.draw(st.booleans()):
                chosen = data.draw(st.lists(st.integers(-len(expected), len(expected) - 1), max_size=10))
                view, expected = view.select(chosen), [expected[k] for k in chosen]
            else:
                part = data.draw(st.slices(len(expected)) | wild_slices)
                view, expected = view[part], expected[part]
            assert len(view) == len(expected)
        assert frozen(view) == expected
        assert frozen(view[range(len(view))]) == frozen(view[k] for k in range(len(view))) == expected

    def test_a_slice_of_no_step_is_a_value_error(self, source: BaseSource[Any]) -> None:
        """As a list's is."""
        with pytest.raises(ValueError, match="slice step cannot be zero"):
            source[::0]
        with pytest.raises(TypeError):
            source[0.0:1]  # type: ignore[misc]

    def test_a_view_keeps_the_indices_it_was_made_of(self, source: BaseSource[Any], elements: list[Any]) -> None:
        """Whatever the caller does with his array afterwards."""
        chosen = np.arange(len(elements))
        view = source.select(chosen)
        chosen[:] = 2**40

        assert frozen(view) == elements

    # -- identity -------------------------------------------------------------------------------------------------

    def test_it_says_what_it_is(self, source: BaseSource[Any], elements: list[Any]) -> None:
        """``repr`` has the number of its elements and what they are read from, in one line that is not long."""
        text = repr(source)
        assert re.search(rf"(?<!\d){len(elements)}(?!\d)", text)
        assert re.search(r"(?:one|none|s-0|train|image|array|list)\b" if text.startswith("Array") else "Source", text)
        assert "\n" not in text and len(text) < 600

    @same_source
    @given(data=st.data())
    def test_views_of_the_same_elements_have_the_same_fingerprint(
        self, source: BaseSource[Any], elements: list[Any], data: st.DataObject
    ) -> None:
        """And views of others, or in another order, have others; a slice of them all is the whole."""
        indices = range(len(elements))
        parts = [data.draw(st.slices(len(elements)) | wild_slices) for _ in range(2)]
        chosen = [indices[part] for part in parts]
        one, two = (source[part] for part in parts)

        assert re.fullmatch("[0-9a-f]{16}", one.fingerprint)
        for other, which in ((two, chosen[1]), (source, indices), (source.select(list(chosen[0])), chosen[0])):
            if list(chosen[0]) == list(which):
                assert one.fingerprint == other.fingerprint
            elif [elements[k] for k in chosen[0]] != [elements[k] for k in which]:
                assert one.fingerprint != other.fingerprint

    def test_its_fingerprint_is_that_of_its_files_wherever_they_are(
        self, case: Case, source: BaseSource[Any], tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        """Made once more in another folder; other processes, which have other hashes of texts, are asked below."""
        again, _ = case(tmp_path_factory.mktemp("elsewhere"))

        assert source.fingerprint == again.fingerprint
        again.close()

    # -- other processes and threads ------------------------------------------------------------------------------

    def test_it_pickles_small_and_comes_back_the_same(self, source: BaseSource[Any], elements: list[Any]) -> None:
        """Before it was read, after, and when it is closed, which it stays."""
        for _ in range(2):
            data = pickle.dumps(source)
            copy = pickle.loads(data)
            assert len(data) < 8000
            assert frozen(copy) == elements
            assert (repr(copy), copy.fingerprint) == (repr(source), source.fingerprint)
            assert frozen(source) == elements
        source.close()
        with pytest.raises(ValueError, match="is closed"):
            pickle.loads(pickle.dumps(source))[[]]

    def test_four_threads_read_it_at_once(
        self, name: str, case: Case, tmp_path: Path, rng: np.random.Generator, request: pytest.FixtureRequest
    ) -> None:
        """100,000 elements, one by one and in batches, of sources that are all fresh: first reads race with each other."""
        source, elements = case(tmp_path)
        count, fresh, wrong = len(elements), pickle.dumps(source), list[str]()
        rounds = 25 if name in MAIN or request.config.getoption("--soak") else 5
        plain = [*map(freeze, elements)]

        def read(source: BaseSource[Any], start: threading.Barrier, order: list[int]) -> None:
            try:
                start.wait()
                for place in range(0, len(order), 50):
                    asked = order[place : place + 50]
                    found = source[asked] if place % 100 else [*map(source.__getitem__, asked[:8]), *source[asked[8:]]]
                    if [*map(freeze, found)] != [plain[k] for k in asked]:
                        wrong.append(f"elements {asked}")
            except BaseException as error:
                wrong.append(repr(error))

        with quick_switches():
            for _ in range(rounds if count else 0):
                shared, start = pickle.loads(fresh), threading.Barrier(4)
                orders = rng.integers(0, count, (4, 1000 if rounds == 25 else 500)).tolist()
                run_threads([partial(read, shared, start, order) for order in orders])
        assert not wrong

    # -- the end --------------------------------------------------------------------------------------------------

    def test_closed_it_refuses_to_read_and_says_so(self, source: BaseSource[Any], elements: list[Any]) -> None:
        """However it is read, and twice closed; what it is it still tells, and a view of it closes it."""
        about = len(source), repr(source), source.fingerprint
        if elements:
            source[0]
        view = source[:]
        with source as entered:
            assert entered is source
        source.close()
        for each in (source, view):
            reads: list[Callable[[], Any]] = [
                lambda: each[[]],  # noqa: B023
                lambda: each.read_batch([]),  # noqa: B023
                lambda: each.read_batches([], [0, 0]),  # noqa: B023
                *([lambda: each[0], lambda: each[[0]], lambda: next(iter(each))] if elements else []),  # noqa: B023
            ]
            for read in reads:
                with pytest.raises(ValueError, match=r"is closed$"):
                    read()
        assert about == (len(source), repr(source), source.fingerprint)

    def test_what_was_read_outlives_it(self, source: BaseSource[Any], elements: list[Any]) -> None:
        """Elements and batches stay as they are when it is closed and gone, its files' memory with it."""
        kept = [source[k] for k in range(len(source))], source[range(len(source))]
        try:
            batch = source.read_batch(range(len(source)))
        except StructureError:  # elements of shapes that differ make no batch
            batch = source.read_batch([0])
        count = len(walk(batch)[0][1])
        rows = self.rows_of(batch, count)
        source.close()
        del source
        gc.collect()
        noise = [np.full(1 << 16, 255, np.uint8) for _ in range(50)]  # lands where memory was given back

        assert frozen(kept[0]) == frozen(kept[1]) == elements
        assert self.rows_of(batch, count) == rows
        del noise

    def test_it_may_be_closed_while_others_read_it(self, case: Case, tmp_path_factory: pytest.TempPathFactory) -> None:
        """Each read gives what it should or says that it is closed; none finds another's memory, or none at all."""
        source, raw = case(tmp_path_factory.mktemp("closing"))
        elements, fresh, wrong = frozen(raw), pickle.dumps(source), list[str]()

        def read(source: BaseSource[Any], closed: threading.Event) -> None:
            last = False
            while not last:
                last = closed.is_set()
                try:
                    if frozen(source) != elements or frozen(source[k] for k in range(len(source))) != elements:
                        wrong.append("an element")
                    source[[]]
                except ValueError as error:
                    if not str(error).endswith("is closed"):
                        wrong.append(repr(error))
                    return
                except BaseException as error:
                    wrong.append(repr(error))
                    return
            wrong.append("it was read when it was closed")

        with quick_switches():
            for delay in range(30):
                shared, closed = pickle.loads(fresh), threading.Event()

                def close(shared: BaseSource[Any] = shared, closed: threading.Event = closed, delay: int = delay) -> None:
                    time.sleep(delay * 1e-4)
                    shared.close()
                    closed.set()

                run_threads([close, *[partial(read, shared, closed)] * 3])
        assert not wrong


def test_children_read_every_source_however_they_are_begun(tmp_path: Path) -> None:
    """fork, spawn and forkserver; before and after the parent read, and while another thread of it does."""
    made = []
    for number, (name, case) in enumerate(CASES.items()):
        (tmp_path / str(number)).mkdir()
        source, elements = case(tmp_path / str(number))
        made.append((name, source, frozen(elements), source.fingerprint))
    run = subprocess.run(
        [sys.executable, "-m", "support.source_children"], input=pickle.dumps(made), cwd=ROOT, capture_output=True, timeout=100
    )
    assert run.stdout.decode() == "read everywhere\n", run.stderr.decode()


def test_every_kind_of_source_and_view_is_here(tmp_path: Path) -> None:
    """Whoever adds a class that reads adds a case: all that can be made are among those that the cases are made of."""
    met: set[type] = set()
    for number, case in enumerate(CASES.values()):
        (tmp_path / str(number)).mkdir()
        source, _ = case(tmp_path / str(number))
        remaining = [source]
        while remaining:
            each = remaining.pop()
            met.add(type(each))
            remaining += each._sources()
        source.close()

    known: list[type] = [BaseSource]
    for kind in known:
        known += kind.__subclasses__()
    library = {kind for kind in known if kind.__module__.startswith("arrayfeed.datasource.") and not inspect.isabstract(kind)}
    assert met == library


big = st.integers(-(2**65), 2**65) | st.integers(-100, 100)
wild_slices = st.builds(slice, st.none() | big, st.none() | big, st.none() | big.filter(operator.truth))


def test_a_thousand_shards_pickle_in_8_kb() -> None:
    """Of a million records together; a slice of them too."""
    shards = [Shard(f"/data/imagenet/2.1.0/imagenet-train.array_record-{k:05d}-of-01000") for k in range(1000)]
    source = ArrayRecordDataSource.from_lengths(shards, [1000 + k % 3 for k in range(1000)])
    for each in (source, source[10:-10:3], source[::-1][5:]):
        data = pickle.dumps(each)
        assert len(data) < 8000
        assert len(pickle.loads(data)) == len(each)
        assert pickle.loads(data).fingerprint == each.fingerprint


def test_options_that_there_are_not_are_refused(tmp_path: Path) -> None:
    """Where files are opened at once, and where they are opened later."""
    for options, message in [
        ({"io": "read"}, "io must be 'mmap' or 'pread', got 'read'"),
        ({"io": None}, "io must be 'mmap' or 'pread', got None"),
        ({"check": "all"}, "check must be 'structure', 'crc' or 'hash', got 'all'"),
        ({"max_chunk_bytes": 0}, "max_chunk_bytes must be at least 1, got 0"),
        ({"max_chunk_bytes": -1}, "max_chunk_bytes must be at least 1, got -1"),
    ]:
        for make in (lambda **o: ArrayRecordDataSource("a", **o), lambda **o: ArrayRecordDataSource.from_lengths([], [], **o)):
            with pytest.raises(ValueError, match=message):
                make(**options)
    with pytest.raises(TypeError):
        ArrayRecordDataSource("a", max_chunk_bytes=1e6)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        ArrayRecordDataSource("a", "pread")  # type: ignore[misc]


def test_fingerprints_tell_files_slices_and_orders_apart(tmp_path: Path) -> None:
    """By name, part and order; not by folder, nor by how they were named."""
    from support.shards import write_shard

    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        for name in "abc":
            write_shard(tmp_path / folder / name, [name.encode()] * 5)

    def fingerprint(*names: str, folder: str = "x") -> str:
        return ArrayRecordDataSource([tmp_path / folder / name for name in names]).fingerprint

    assert fingerprint("a", "b", "c") == fingerprint("*") == fingerprint("*", folder="y") == fingerprint("a[0:5]", "b", "c")
    different = [fingerprint(*names) for names in (["a"], ["b"], ["a", "b"], ["b", "a"], ["a[0:4]"], ["a[1:5]"], ["a", "a"])]
    assert len({*different}) == len(different)
