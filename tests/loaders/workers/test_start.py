"""How workers come to be: the source is pickled once, they start side by side, and none waits for another's slow record."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from arrayfeed import DataLoader
from support.worker_cases import Note, Numbers, SlowToRebuild, Stall

pytestmark = [
    pytest.mark.usefixtures("no_leaks"),
    # Other tests of this process import JAX, which warns of any fork, and newer Pythons warn of its threads.
    pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_the_source_is_pickled_once_and_rebuilt_side_by_side(method: Any, tmp_path: Path) -> None:
    """Three workers, each of which takes 1.5 s to rebuild the source: the last begins before the first is done."""
    loader = DataLoader(SlowToRebuild(60, tmp_path), num_workers=3, multiprocessing_context=method)
    assert [int(batch["x"][0, 0]) for batch in loader] == [*range(60)]
    loader.close()

    assert len(list(tmp_path.glob("pickled-*"))) == 1
    spans = [tuple(map(float, path.read_text().split())) for path in tmp_path.glob("rebuilt-*")]
    assert max(begin for begin, _ in spans) < min(end for _, end in spans)


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_a_slow_record_does_not_stop_the_others(kind: Any, tmp_path: Path) -> None:
    """While one worker is stuck with the second batch, the other makes all that may be made ahead; the order stays."""
    made, release = tmp_path / "made", tmp_path / "release"
    made.touch()
    # 2 MiB a batch: none travel together.
    loader = DataLoader(
        Numbers(24, width=1 << 17),
        batch_size=2,
        num_workers=2,
        worker_type=kind,
        prefetch_factor=4,
        transforms=[Stall(2, release), Note(made)],
    )
    iterator = iter(loader)
    first = next(iterator)
    end = time.monotonic() + 30
    # The first batch, and those ahead but for the one that is stuck; its other record may not be begun.
    while made.stat().st_size < 2 + 7 * 2 and time.monotonic() < end:
        time.sleep(0.01)
    count = made.stat().st_size
    release.touch()

    assert count >= 2 + 7 * 2
    assert [int(batch["x"][0, 0]) for batch in [first, *iterator]] == [*range(0, 24, 2)]
