"""A loader's state goes where training keeps its checkpoints, and comes back."""

from __future__ import annotations

import json
import pickle
import socket
import subprocess
import sys
import warnings
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from arrayfeed import DataLoader, Filter, FlatMap, IndexSampler, RandomMap, StateError, pack
from arrayfeed.samplers import BucketBatchSampler, MixtureSampler
from support.loading import Listed, numbers_in

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
    script = str(Path(__file__).parents[2] / "support/checkpoint_ranks.py")
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


@pytest.mark.parametrize("name", CASES)
def test_an_iterator_has_the_state_that_grains_have(name: str) -> None:
    """Bytes of JSON that are ``state_dict``, loaded by an iterator that is new, under way or at its end."""
    loader = make(name)
    iterator = iter(loader)
    assert json.loads(iterator.get_state()) == make(name).state_dict()
    for _ in range(3):
        next(iterator)
    state = iterator.get_state()
    assert json.loads(state) == loader.state_dict()
    expected = rest(iterator)
    resumed = iter(make(name))
    for used in (0, 2, 80):
        list(islice(resumed, used))
        resumed.set_state(state)
        resumed.start_prefetch()
        assert resumed.get_state() == state
        assert rest(resumed) == expected


def test_a_state_is_refused_by_an_iterator_whose_pass_is_not_the_latest() -> None:
    """A loader has one place; and what is no state says so."""
    loader = make("shuffled")
    old, new = iter(loader), iter(loader)
    next(old)
    next(new)
    for ask in (old.get_state, lambda: old.set_state(new.get_state())):
        with pytest.raises(RuntimeError, match="another pass over this loader has begun"):
            ask()
    with pytest.raises(StateError, match=r"of 5 bytes is no JSON: "):
        new.set_state(b"PK\3\4\5")
    assert numbers_in([*islice(old, 1)]) == list(IndexSampler(80, shuffle=True, seed=3))[7:14]


@pytest.mark.filterwarnings("default")
def test_orbax_saves_and_restores_a_loader_beside_parameters(tmp_path: Path) -> None:
    """The real one: the iterator through Grain's handler, and the state as JSON."""
    ocp = pytest.importorskip("orbax.checkpoint")
    grain = pytest.importorskip("grain.checkpoint")
    arguments = ocp.args
    loader = make("filtered")
    iterator = iter(loader)
    for _ in range(4):
        next(iterator)
    with ocp.CheckpointManager(tmp_path) as manager:
        parameters = arguments.StandardSave({"w": np.arange(3.0)})
        state = arguments.JsonSave(loader.state_dict())
        manager.save(4, args=arguments.Composite(w=parameters, loader=grain.CheckpointSave(iterator), state=state))
        manager.wait_until_finished()
        expected = rest(iterator)
        resumed = iter(make("filtered"))
        asked = arguments.Composite(loader=grain.CheckpointRestore(resumed), state=arguments.JsonRestore())
        restored = manager.restore(4, args=asked)
    other = make("filtered")
    other.load_state_dict(restored.state)

    assert restored.loader is resumed
    assert rest(resumed) == rest(other) == expected


def test_lightning_saves_and_resumes_a_loader(tmp_path: Path) -> None:
    """The real Trainer: from every checkpoint it goes on with the very batches, and each epoch is another one."""
    pytest.importorskip("lightning")
    script = Path(__file__).parents[2] / "support/train_lightning.py"
    run = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), str(tmp_path)], capture_output=True, text=True, timeout=100
    )
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout.splitlines()[-1])
    whole = told["whole"]
    epochs = [[number for step in whole[start : start + 10] for number in step] for start in (0, 10, 20)]

    assert epochs == np.array(IndexSampler(60, shuffle=True, num_epochs=3)).reshape(3, 60).tolist()
    assert set(told["resumed"]) == {"7", "14", "21", "28"}
    for step, rest_of_run in told["resumed"].items():
        assert rest_of_run == whole[int(step) :]
