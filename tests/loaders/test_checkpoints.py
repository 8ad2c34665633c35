"""A loader's state goes where training keeps its checkpoints, and comes back."""

from __future__ import annotations

import json
import pickle
import socket
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from arrayfeed import DataLoader, Filter, FlatMap, IndexSampler, RandomMap, pack
from arrayfeed.samplers import BucketBatchSampler, MixtureSampler
from support.loading import Listed

noise = RandomMap(lambda example, rng: {**example, "r": rng.random()})
CASES: dict[str, dict[str, Any]] = {
    "shuffled": {"shuffle": True, "seed": 3},
    "long seed": {"shuffle": True, "seed": 2**200},
    "mixture": {"sampler": MixtureSampler([30, 50], shuffle=True)},
    "random": {"shuffle": True, "transforms": noise},
    "filtered": {"shuffle": True, "transforms": [Filter(lambda example: example["x"] % 3), noise]},
    "multiplied": {"transforms": FlatMap(lambda example: [example] * (example["x"] % 5))},
    "buckets": {"batch_sampler": BucketBatchSampler(range(80), boundaries=[20, 50], batch_sizes=[4, 3, 2])},
}


def make(name: str) -> DataLoader:
    options = CASES[name] if "batch_sampler" in CASES[name] else {"batch_size": 7} | CASES[name]
    return DataLoader(Listed(80), **options)


def rest(iterator: Any) -> list[list[Any]]:
    return [list(map(list, zip(*(batch[key].tolist() for key in sorted(batch)), strict=True))) for batch in iterator]


@pytest.mark.parametrize("name", CASES)
def test_torch_distributed_checkpoint_saves_and_loads_a_loader(name: str, tmp_path: Path) -> None:
    """As the Stateful object it is, in a directory, into a loader that has just been made: all keys are there before."""
    loader = make(name)
    iterator = iter(loader)
    for _ in range(4):
        next(iterator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, about running without a process group
        save({"loader": loader}, checkpoint_id=tmp_path / "checkpoint")
        state = loader.state_dict()
        expected = rest(iterator)
        resumed = make(name)
        load({"loader": resumed}, checkpoint_id=tmp_path / "checkpoint")

    assert resumed.state_dict() == state
    assert rest(resumed) == expected


def test_ranks_that_filter_gather_merge_and_save_one_checkpoint(tmp_path: Path) -> None:
    """Two processes with gloo; one process goes on, and every record that the filter keeps was delivered once."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    script = str(Path(__file__).parents[1] / "support/checkpoint_ranks.py")
    ranks = [subprocess.Popen([sys.executable, script, str(rank), port, str(tmp_path)]) for rank in range(2)]
    assert [rank.wait(100) for rank in ranks] == [0, 0]
    loader = DataLoader(
        range(100), sampler=IndexSampler(100, shuffle=True), batch_size=9, transforms=Filter(lambda number: number % 7 % 3)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        load({"loader": loader}, checkpoint_id=tmp_path / "checkpoint")
    found = [number for rank in range(2) for number in json.loads((tmp_path / f"rank{rank}.json").read_text())]

    assert len(found) == 30
    assert sorted(found + np.concatenate(list(loader)).tolist()) == [number for number in range(100) if number % 7 % 3]


@pytest.mark.parametrize("name", CASES)
def test_a_state_is_what_lightning_and_orbax_take(name: str, tmp_path: Path) -> None:
    """A plain dict: torch saves it and loads it with weights only, as Lightning does; JSON, as Orbax's JsonSave, keeps it."""
    loader = make(name)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    torch.save({"loaders": {"fit_loop": {"state_dict": {"combined_loader": [state]}}}}, tmp_path / "last.ckpt")
    loaded = torch.load(tmp_path / "last.ckpt", weights_only=True)["loaders"]["fit_loop"]["state_dict"]["combined_loader"][0]

    assert loaded == json.loads(json.dumps(state)) == pickle.loads(pickle.dumps(state)) == state
    assert len(json.dumps(state)) < 2000
    expected = rest(iterator)
    for form in (loaded, json.loads(json.dumps(state))):
        resumed = make(name)
        resumed.load_state_dict(form)
        assert rest(resumed) == expected


def test_the_keys_of_a_state_do_not_depend_on_the_place() -> None:
    """A checkpoint is read by the keys of a loader that has just been made."""
    packing = pack(8, window=3)
    loaders = [make(name) for name in CASES] + [DataLoader([[1] * (k % 7 + 1) for k in range(40)], transforms=packing)]
    for loader in loaders:
        keys = loader.state_dict().keys()
        for _ in loader:
            assert loader.state_dict().keys() == keys
        assert loader.state_dict().keys() == keys
