"""What is made ahead goes on over the end of a pass, and is only ever used by the pass that would have made the same."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from arrayfeed import DataLoader
from support.equal import difference
from support.loading import Listed
from support.worker_cases import Note, Numbers

pytestmark = [
    pytest.mark.usefixtures("no_leaks"),
    # Other tests of this process import JAX, which warns of any fork, and newer Pythons warn of its threads.
    pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]

WAYS: list[dict[str, Any]] = [
    {"num_workers": 0},
    {"num_workers": 2, "worker_type": "thread"},
    {"num_workers": 2, "worker_type": "process"},
]


def count_made(path: Path, wanted: int) -> int:
    """Return how many examples were made by anybody, once there are ``wanted`` and no more come."""
    end = time.monotonic() + 20
    count = -1
    while time.monotonic() < end and (count < wanted or count != path.stat().st_size):
        count = path.stat().st_size
        time.sleep(0.1)
    return count


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.get("worker_type", "none"))
def test_the_next_pass_is_begun_before_the_last_one_ends(way: dict[str, Any], tmp_path: Path) -> None:
    """With its last batch in hand and nothing more asked for: the next pass's first four batches are made, and no more.

    By threads from the second pass on: a first pass may be the only one, and nobody's functions are called after it.
    """
    made = tmp_path / "made"
    made.touch()
    ahead = 4 // max(1, way["num_workers"])
    large = Numbers(20, width=1 << 17)  # 2 MiB a batch: none travel together
    loader = DataLoader(large, batch_size=2, shuffle=True, transforms=Note(made), prefetch_factor=ahead, **way)
    expected = DataLoader(large, batch_size=2, shuffle=True, prefetch_factor=0)
    goes_on = way.get("worker_type") == "process"
    for number in range(3):
        iterator = iter(loader)
        found = [next(iterator) for _ in range(10)]
        begun = 8 * (goes_on or number > 0)

        assert not difference(found, list(expected))
        assert count_made(made, 20 * (number + 1) + begun) == 20 * (number + 1) + begun
        assert list(iterator) == []
    del iterator
    loader.close()


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.get("worker_type", "none"))
def test_whatever_the_next_pass_turns_out_to_be_it_is_right(way: dict[str, Any], rng: np.random.Generator) -> None:
    """Passes read to their end or left, epochs set, states loaded, sampler set, loader closed: as without any prefetch."""
    options: dict[str, Any] = {"batch_size": 3, "shuffle": True, "seed": 3}
    ours, plain = DataLoader(Numbers(16), **options, **way), DataLoader(Numbers(16), prefetch_factor=0, **options)
    states = [plain.state_dict()]
    for _ in range(40):
        action, epoch, steps = (int(number) for number in rng.integers(0, (6, 4, 6)))
        state = states[int(rng.integers(len(states)))]
        for loader in (ours, plain):
            if action == 0:
                loader.set_epoch(epoch)
            elif action == 1:
                loader.load_state_dict(state)
            elif action == 2:
                loader.sampler.set_epoch(epoch)
            elif action == 3:
                loader.close()
        pairs = list(zip(iter(ours), iter(plain), strict=True)) if steps == 5 else []
        for _, pair in zip(range(steps), zip(iter(ours), iter(plain), strict=True), strict=False):
            pairs.append(pair)

        assert not difference([found for found, _ in pairs], [expected for _, expected in pairs])
        assert ours.state_dict() == plain.state_dict()
        states.append(plain.state_dict())
    ours.close()


def test_several_epochs_in_a_pass_and_short_ones_go_on_too() -> None:
    """Epochs of fewer batches than are made ahead, several in a pass."""
    options: dict[str, Any] = {"batch_size": 2, "shuffle": True, "num_epochs": 2}
    ours, plain = DataLoader(Numbers(3), num_workers=3, **options), DataLoader(Numbers(3), prefetch_factor=0, **options)
    for _ in range(6):
        assert not difference(list(ours), list(plain))


def test_an_epoch_without_a_batch_is_a_pass_without_one() -> None:
    """However often it is asked for."""
    loader = DataLoader(Numbers(3), batch_size=4, drop_last=True, num_workers=2, num_epochs=3)

    assert [list(loader) for _ in range(3)] == [[], [], []]


def test_close_ends_what_was_made_ahead() -> None:
    """The thread that has begun the next pass, too."""
    loader = DataLoader(Listed(20), batch_size=2)
    list(loader), list(loader)
    assert "arrayfeed-prefetch" in {thread.name for thread in threading.enumerate()}
    loader.close()

    assert "arrayfeed-prefetch" not in {thread.name for thread in threading.enumerate()}


def test_a_source_may_be_closed_between_two_passes(tmp_path: Path) -> None:
    """While a thread reads ahead in it: reads under way are completed, and what comes after is the error of a later pass."""
    from support.loading import write_small

    source = write_small(tmp_path / "small", 3000)
    loader = DataLoader(source, batch_size=500)
    list(loader), list(loader)
    source.close()

    with pytest.raises(ValueError, match="is closed"):
        for _ in range(3):  # all of the first may have been read ahead by then
            list(loader)
    loader.close()


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_workers_that_are_not_persistent_end_with_the_pass(kind: Any) -> None:
    """Processes are other ones in the next; nothing is made ahead of it; the batches are the same, and stay."""
    loader = DataLoader(Numbers(40), batch_size=4, shuffle=True, num_workers=2, worker_type=kind, persistent_workers=False)
    plain = DataLoader(Numbers(40), batch_size=4, shuffle=True)
    kept, pids = [], set()
    others = psutil.Process().children(recursive=True)  # of libraries, which keep processes of their own
    for _ in range(2):
        iterator = iter(loader)
        kept.append(next(iterator))
        children = [child for child in psutil.Process().children(recursive=True) if child not in others]
        pids |= {child.pid for child in children}
        kept += iterator
        assert not psutil.wait_procs(children, timeout=5)[1]

    assert len(pids) >= (4 if kind == "process" else 0)
    assert [batch["x"].tolist() for batch in kept] == [batch["x"].tolist() for _ in range(2) for batch in plain]
