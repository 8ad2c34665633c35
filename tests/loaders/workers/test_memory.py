"""Shared memory: what is held stays intact, what is dropped is used again, and nothing is bound by /dev/shm."""

from __future__ import annotations

import gc
import logging
import os
import sys
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import ml_dtypes
import numpy as np
import psutil
import pytest
import torch

from arrayfeed import DataLoader
from arrayfeed.loaders.fetch import Fetcher
from arrayfeed.loaders.plan import Run
from arrayfeed.loaders.state.order import Order
from arrayfeed.loaders.telling.watch import Watch
from arrayfeed.loaders.workers.arena import Arena
from arrayfeed.loaders.workers.packing import Unpacked, unpack
from arrayfeed.loaders.workers.payload import Payload
from arrayfeed.loaders.workers.pool import WorkerPool
from arrayfeed.loaders.workers.slots import Slots
from arrayfeed.samplers import IndexSampler
from support.equal import difference
from support.worker_cases import InMemory, Numbers, started_workers

pytestmark = [
    pytest.mark.usefixtures("no_leaks"),
    # Other tests of this process import JAX, which warns of any fork, and newer Pythons warn of its threads.
    pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]

LARGE = 20_000  # int64 a record: batches far beyond what is copied out


def over_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let arenas be files in TMPDIR, as on systems without memfd."""
    monkeypatch.delattr(os, "memfd_create")


def shared_bytes() -> int:
    """Return the memory that this process's arenas take, by their files' blocks."""
    total = 0
    for link in Path("/proc/self/fd").glob("*"):
        try:
            if "arrayfeed" in str(link.readlink()):
                total = max(total, link.stat().st_blocks * 512)
        except OSError:
            continue
    return total


dtypes = st.one_of(arrays.scalar_dtypes(), arrays.unicode_string_dtypes(), arrays.byte_string_dtypes(), arrays.nested_dtypes())
leaves = st.one_of(
    st.none(),
    st.text(max_size=5),
    st.binary(max_size=300),
    st.integers(),
    arrays.arrays(dtypes, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)),
)
values = st.recursive(
    leaves, lambda x: st.one_of(st.dictionaries(st.text(max_size=3), x, max_size=3), st.lists(x, max_size=3)), max_leaves=8
)


@hypothesis.given(value=values)
@hypothesis.settings(max_examples=200)
def test_any_value_survives_packing(value: Any) -> None:
    """Arrays of any dtype and shape, nested in anything; they are writable and lie in the memory that was given."""
    unpacked = Unpacked(value)
    memory = np.full(unpacked.packed.used, 0xA5, np.uint8)
    unpacked.write(memory)

    assert not difference(unpack(unpacked.packed, memory), value)


def test_arrays_are_views_of_the_slot_and_aligned() -> None:
    """No copy on the reader's side: each array lies in the memory, at a multiple of 64 bytes from its start."""
    value: list[Any] = (
        [np.arange(n, dtype=np.float32) for n in (1, 0, 17)]
        + [np.arange(90.0).reshape(9, 10)[::2, 1:]]
        + [np.ones(3, ml_dtypes.bfloat16)]
    )
    value.append(np.array([1, 2], ">M8[s]"))
    unpacked = Unpacked(value)
    memory = np.zeros(unpacked.packed.used, np.uint8)
    unpacked.write(memory)
    found = unpack(unpacked.packed, memory)

    for array in found:
        assert np.shares_memory(array, memory) or not array.size
        assert (array.ctypes.data - memory.ctypes.data) % 64 == 0
        assert array.flags.writeable
    assert found[4].dtype == ml_dtypes.bfloat16 and found[4].tolist() == [1, 1, 1]
    assert found[5].dtype == value[5].dtype and found[5].tolist() == value[5].tolist()


def test_an_arena_takes_only_what_is_written_to_it() -> None:
    """A terabyte of address space, two pages of memory; given back, it takes none, and reads as zeros."""
    arena = Arena.create()
    assert arena.capacity >= 1 << 31
    arena.memory[1 << 30] = 1
    arena.memory[(1 << 30) + 9000] = 2
    assert os.fstat(arena.fd).st_blocks * 512 == 2 * 4096

    arena.release(1 << 30, 9001)

    assert os.fstat(arena.fd).st_blocks == 0
    assert not arena.memory[1 << 30]
    arena.close()


@pytest.mark.parametrize("memfd", [True, False])
def test_slots_return_with_the_last_view(memfd: bool) -> None:
    """Whatever is derived from a batch keeps its slot: slices, transposes, memoryviews, tensors."""
    arena = Arena.create(use_memfd=memfd)
    slots = Slots(arena, 0, spare=1, limit_bytes=1 << 30)
    derive: list[Any] = [
        lambda a: a[100:],
        lambda a: a.view(np.float32).reshape(-1, 64).T[3:, ::2],
        memoryview,
        torch.from_numpy,
        lambda a: torch.from_numpy(a)[5:].view(-1),
        lambda a: np.lib.stride_tricks.as_strided(a, (3,), (1,)),
        lambda a: [iter(a)],
    ]
    for function in derive:
        slot = slots.allocate()
        view = function(slots.lend(slot, 1 << 18))
        assert slots.lent_bytes == 1 << 18
        other = slots.allocate()
        assert other.start != slot.start

        slots.free(other)
        del view
        assert slots.lent_bytes == 0
    arena.close()


def test_batches_larger_than_a_slot_get_larger_ones() -> None:
    """Of all sizes, growing and shrinking."""
    arena = Arena.create()
    slots = Slots(arena, 0, spare=2, limit_bytes=1 << 40)
    for nbytes in (10, 100 << 20, 1 << 31, 100):
        slots.expect(nbytes)
        assert slots.allocate().size >= 4 * nbytes
    arena.close()


class Widths:
    """Records whose size differs by a factor of ten thousand."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": np.full(10 ** (index % 4 + 3), index, np.uint8)}


def test_a_batch_that_does_not_fit_its_slot_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where address space is short, slots start small: the stream is the same."""
    monkeypatch.setattr("arrayfeed.loaders.workers.arena._CAPACITIES", (1 << 28,))
    expected = [np.full(10 ** (k % 4 + 3), k, np.uint8) for k in range(12)]

    found = [batch["x"][0] for batch in DataLoader(Widths(), num_workers=2, multiprocessing_context="fork")]

    assert not difference(found, expected)


@pytest.mark.parametrize("memfd", [True, False])
def test_a_thousand_batches_held_stay_intact(memfd: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, in memory shared with the workers, while these go on writing."""
    if not memfd:
        over_file(monkeypatch)
    loader = DataLoader(Numbers(1000, width=LARGE // 2), num_workers=2)
    held = list(loader)
    del loader

    assert len(held) == 1000
    assert sum(np.shares_memory(batch["x"], batch["x"]) and batch["x"].base is not None for batch in held) == 1000
    assert all(batch["x"].min() == batch["x"].max() == k for k, batch in enumerate(held))


def test_memory_is_used_again() -> None:
    """A pass over 400 MB takes the memory of the few batches that are on their way."""
    loader = DataLoader(Numbers(2500, width=LARGE), num_workers=2, prefetch_factor=2)
    for _ in loader:
        used = shared_bytes()

    assert 0 < used < 50 << 20
    del loader


def test_memory_that_was_held_is_given_back() -> None:
    """After 160 MB of batches are dropped, what stays is a few slots to go on with."""
    loader = DataLoader(Numbers(2000, width=LARGE), num_workers=1, num_epochs=None)
    iterator = iter(loader)
    held = [next(iterator) for _ in range(1000)]
    full = shared_bytes()
    del held

    assert full > 900 * LARGE * 8
    assert shared_bytes() < 30 << 20


def test_no_line_of_python_runs_when_a_batch_is_dropped() -> None:
    """Ctrl-C that comes while a finalizer runs is lost, and training goes on; so what ends with every batch runs none."""
    iterator = iter(DataLoader(Numbers(200, width=LARGE), num_workers=2))
    called = []
    gc.disable()  # what other tests left may have finalizers
    try:
        for _ in range(100):
            batch = next(iterator)
            shared = batch["x"].base is not None
            sys.setprofile(lambda frame, event, argument: called.append((event, frame.f_code.co_qualname)))
            del batch
            sys.setprofile(None)
    finally:
        gc.enable()

    assert shared
    assert {name for event, name in called if event == "call"} == set()


def test_a_forked_child_leaves_its_parents_batches_alone() -> None:
    """It drops them, all but a few of them beyond what is kept; they used to turn to zeros in the parent."""
    iterator = iter(DataLoader(Numbers(100, width=LARGE), num_workers=2))
    held = [next(iterator) for _ in range(100)]

    child = os.fork()
    if not child:
        try:
            held.clear()
        finally:
            os._exit(0)

    assert os.waitpid(child, 0)[1] == 0
    assert all(batch["x"].min() == batch["x"].max() == k for k, batch in enumerate(held))


def test_beyond_the_limit_batches_are_copied_and_that_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """All stay intact; those beyond the limit lie in private memory."""
    fetcher = Fetcher(Numbers(40, width=LARGE))
    pool = WorkerPool(
        Payload(fetcher, Order(IndexSampler(40)), None),
        num_workers=1,
        method="forkserver",
        ahead=2,
        watch=Watch(),
        limit_bytes=10 * 8 * LARGE,
    )
    lane, number = pool.enter()
    held: list[Any] = []
    with caplog.at_level(logging.WARNING, "arrayfeed"):
        for k in range(40):
            order = pool.order(Run(0, (k, k + 1)), lane, number)
            while not order.settled:
                pool.turn()
            held += pool.collect(order).batches
    pool.close()

    assert all(batch["x"].min() == batch["x"].max() == k for k, batch in enumerate(held))
    assert len(caplog.records) == 1 and "copied to private memory" in caplog.text


def test_batches_outlive_loader_and_workers() -> None:
    """They stay readable and writable after everything else is gone; then the memory is released too."""
    loader = DataLoader(Numbers(4, width=LARGE), batch_size=2, num_workers=1, output="torch")
    first, second = loader
    loader.close()
    del loader
    gc.collect()
    first["x"] += 1

    assert first["x"].unique().tolist() == [1, 2]
    assert second["x"].unique().tolist() == [2, 3]


def test_an_in_memory_source_is_shared_by_all_workers() -> None:
    """40 MB of data take 40 MB of shared memory once, not once for each of three workers."""
    source = InMemory(5000, width=1000)
    loader = DataLoader(source, batch_size=100, num_workers=3)
    iterator = iter(loader)
    for _ in range(12):
        next(iterator)
    private = [psutil.Process(pid).memory_full_info().uss for pid in started_workers(loader)]

    assert len(private) == 3
    assert max(private) < 35 << 20


def test_a_full_disk_is_an_error_and_not_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where memory is a file in TMPDIR, which cannot take a batch: an error in its turn that says what to do."""
    over_file(monkeypatch)

    def refuse(arena: Arena, start: int, nbytes: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Arena, "reserve", refuse)
    loader = DataLoader(Numbers(4), num_workers=1, multiprocessing_context="fork")

    with pytest.raises(RuntimeError, match="the disk of TMPDIR is full"):
        next(iter(loader))


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/shm is Linux's")
def test_nothing_is_ever_named() -> None:
    """No file in /dev/shm or TMPDIR, in the middle of a pass."""
    before = {*os.listdir("/dev/shm")}
    iterator = iter(DataLoader(Numbers(100, width=LARGE), num_workers=2))
    next(iterator)

    assert not [name for name in {*os.listdir("/dev/shm")} - before if "arrayfeed" in name]
    assert not [name for name in os.listdir(os.environ.get("TMPDIR", "/tmp")) if name.startswith("arrayfeed-")]
