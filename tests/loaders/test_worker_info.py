"""What code inside a worker can find out, and what is not there: frameworks that nobody asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from arrayfeed import DataLoader
from arrayfeed.loaders import get_worker_info
from support.function_cases import FRAMEWORKS, draw_globally, look_around, seen_at_start, tell_worker
from support.worker_cases import Numbers, started_workers

LOADING: dict[str, Any] = {"num_workers": 2, "batch_size": 2}


@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
def test_code_in_a_worker_process_knows_its_worker(method: Any, no_leaks: None) -> None:
    """Its number, how many there are, a seed of its own and the source; from ``worker_init_fn`` on. Outside there is none."""
    loader = DataLoader(
        Numbers(200), **LOADING, transforms=tell_worker, worker_init_fn=seen_at_start, multiprocessing_context=method, seed=7
    )
    batches = list(loader)
    loader.close()
    rows = np.concatenate([np.stack([batch[key] for key in ("id", "num_workers", "length")], axis=1) for batch in batches])
    seeds = {(int(id), int(seed)) for batch in batches for id, seed in zip(batch["id"], batch["seed"], strict=True)}

    assert {tuple(row) for row in rows.tolist()} <= {(0, 2, 200), (1, 2, 200)}
    assert len({seed for _, seed in seeds}) == len(seeds)
    assert all((batch["start"] == batch["seed"]).all() for batch in batches)
    assert get_worker_info() is None


def test_code_in_a_worker_thread_knows_its_worker() -> None:
    """As in a process; the same seed for the same number."""
    seeds = []
    for _ in range(2):
        batches = list(DataLoader(Numbers(200), **LOADING, worker_type="thread", transforms=tell_worker, seed=7))
        seeds.append({(int(i), int(s)) for batch in batches for i, s in zip(batch["id"], batch["seed"], strict=True)})

        assert {int(n) for batch in batches for n in batch["num_workers"]} == {2}
    assert all(first[1] == second[1] for first in seeds[0] for second in seeds[1] if first[0] == second[0])


@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
def test_workers_draw_other_numbers_than_each_other(method: Any, no_leaks: None) -> None:
    """Code that uses NumPy's, Python's or torch's own generator is not given the same numbers in each, nor in the next ones."""
    import torch

    torch.manual_seed(0)  # what forked workers inherit
    drawn: list[Any] = []
    pids = set()
    loader = DataLoader(Numbers(150), num_workers=3, transforms=draw_globally, multiprocessing_context=method)
    for _ in range(2):
        started_workers(loader)
        batches = list(loader)
        loader.close()
        pids |= {int(batch["pid"][0]) for batch in batches}
        drawn += [batch["drawn"][0] for batch in batches]
    columns = np.array(drawn).T

    assert len(pids) > 2
    assert [len({*column}) for column in columns[:2].tolist()] == [300, 300]
    assert len({*columns[2].tolist()}) == (300 if method == "fork" else 1)


@pytest.mark.parametrize("prefetch_factor", [0, 2])
def test_without_workers_there_is_none(prefetch_factor: int) -> None:
    """As torch has it."""
    (batch,) = DataLoader(Numbers(4), batch_size=4, transforms=tell_worker, prefetch_factor=prefetch_factor)

    assert batch["id"].tolist() == [-1] * 4


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
@pytest.mark.parametrize("output", ["torch", "jax"])
def test_workers_import_no_framework(output: Any, method: Any) -> None:
    """Whatever the batches are turned into: that is done in the training process, which has imported it."""
    loader = DataLoader(Numbers(20), **LOADING, transforms=look_around, output=output, multiprocessing_context=method)
    batches = list(loader)
    loader.close()

    for batch in batches:
        assert np.asarray(batch["imported"]).tolist() == [[False] * len(FRAMEWORKS)] * 2
