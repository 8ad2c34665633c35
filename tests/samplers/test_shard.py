"""Which rank of how many: given, or found in what launchers leave behind; and how ranks share places."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import types
from pathlib import Path

import pytest

from arrayfeed.samplers import ShardOptions
from arrayfeed.samplers.stripe import Stripe

SRUN = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "2", "SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "4"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, (0, 1)),
        ({"RANK": "2", "WORLD_SIZE": "8", "LOCAL_RANK": "0"}, (2, 8)),
        (SRUN, (2, 4)),
        ({"SLURM_PROCID": "3", "SLURM_NTASKS": "4"}, (3, 4)),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, (1, 2)),
        ({"PMI_RANK": "1", "PMI_SIZE": "3"}, (1, 3)),
        ({"MV2_COMM_WORLD_RANK": "0", "MV2_COMM_WORLD_SIZE": "5"}, (0, 5)),
        # torchrun started by srun, once a machine: torchrun knows better.
        ({**SRUN, "RANK": "9", "WORLD_SIZE": "32"}, (9, 32)),
        # mpirun inside a SLURM job: its helpers were started by srun, the ranks by mpirun.
        ({**SRUN, "OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "6"}, (5, 6)),
        # A batch script that runs Python without srun: one process, whatever the job was given.
        ({"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, (0, 1)),
    ],
)
def test_the_launcher_is_found_in_the_environment(environ: dict[str, str], expected: tuple[int, int]) -> None:
    """torchrun first, then MPI, then SLURM; without any of them, one process."""
    assert ShardOptions.from_environment(environ) == ShardOptions(*expected)


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Called without arguments, it reads `os.environ`."""
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")

    assert ShardOptions.from_environment() == ShardOptions(1, 2)


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"RANK": "1"}, "RANK is set but WORLD_SIZE is not; set both, or pass ShardOptions"),
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE is set but RANK is not"),
        ({"RANK": "one", "WORLD_SIZE": "2"}, "RANK is 'one', which is no whole number"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK is 2 and WORLD_SIZE is 2; a rank must lie in 0 <= rank < count"),
        ({"RANK": "-1", "WORLD_SIZE": "2"}, "RANK is -1"),
        ({"PMI_RANK": "0", "PMI_SIZE": "0"}, "PMI_SIZE is 0"),
    ],
)
def test_half_an_answer_is_an_error(environ: dict[str, str], message: str) -> None:
    """Guessing one process would let every rank train on all records."""
    with pytest.raises(ValueError, match=message):
        ShardOptions.from_environment(environ)


def test_torch_distributed_is_asked_where_it_is_initialised(tmp_path: Path) -> None:
    """A real process group of one rank's number wins over the environment; before it exists, the environment counts."""
    code = (
        "import torch.distributed as dist\n"
        "from arrayfeed.samplers import ShardOptions\n"
        "world = {'RANK': '3', 'WORLD_SIZE': '4'}\n"
        "print(ShardOptions.from_environment(world))\n"
        f"dist.init_process_group('gloo', init_method='file://{tmp_path}/store', rank=0, world_size=1)\n"
        "print(ShardOptions.from_environment(world))\n"
    )
    assert run(code).splitlines() == ["ShardOptions(index=3, count=4)", "ShardOptions(index=0, count=1)"]


def test_two_ranks_of_a_real_process_group_find_themselves(tmp_path: Path) -> None:
    """Each of two gloo processes gets its own share."""
    code = (
        "import sys, torch.distributed as dist\n"
        "from arrayfeed.samplers import IndexSampler, ShardOptions\n"
        f"dist.init_process_group('gloo', init_method='file://{tmp_path}/store', rank=int(sys.argv[1]), world_size=2)\n"
        "print(*IndexSampler(11, shuffle=True, shard=ShardOptions.from_environment({})))\n"
        "dist.destroy_process_group()\n"
    )
    children = [start(code, str(rank)) for rank in range(2)]
    outputs = [child.communicate(timeout=100) for child in children]
    seen = [int(index) for output, _ in outputs for index in output.split()]

    assert [child.returncode for child in children] == [0, 0], outputs
    assert sorted(seen) == list(range(11))
    assert abs(len(outputs[0][0].split()) - len(outputs[1][0].split())) == 1


def test_jax_is_asked_only_where_it_runs() -> None:
    """Importing JAX is no reason to start its backend, after which it could no longer be told of other processes."""
    code = (
        "import jax, sys\n"
        "from arrayfeed.samplers import ShardOptions\n"
        "print(ShardOptions.from_environment({}))\n"
        "print(jax._src.xla_bridge.backends_are_initialized())\n"
        "jax.devices()\n"
        "print(ShardOptions.from_environment({'SLURM_PROCID': '1', 'SLURM_NTASKS': '2'}))\n"
        "jax.process_count, jax.process_index = lambda: 4, lambda: 3\n"
        "print(ShardOptions.from_environment({'SLURM_PROCID': '1', 'SLURM_NTASKS': '2'}))\n"
    )
    lone, two, four = (
        "ShardOptions(index=0, count=1)",
        "ShardOptions(index=1, count=2)",
        "ShardOptions(index=3, count=4)",
    )

    assert run(code).splitlines() == [lone, "False", two, four]


def test_nothing_is_imported_to_find_out() -> None:
    """Neither torch nor jax, nor anything else that was not there."""
    code = (
        "import sys\nfrom arrayfeed.samplers import ShardOptions\nbefore = set(sys.modules)\n"
        "ShardOptions.from_environment({'RANK': '0', 'WORLD_SIZE': '2'})\nprint(set(sys.modules) - before)\n"
        "print('torch' in sys.modules, 'jax' in sys.modules)"
    )
    assert run(code).splitlines() == ["set()", "False False"]


def test_an_old_jax_without_the_question_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where JAX cannot say whether its processes know each other, it is taken as one process."""
    old = types.ModuleType("jax")
    old.distributed = types.ModuleType("jax.distributed")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jax", old)
    monkeypatch.delitem(sys.modules, "jax._src.xla_bridge", raising=False)

    assert ShardOptions.from_environment({}) == ShardOptions()


def test_shards_are_checked_values() -> None:
    """Equal, hashable, picklable; a rank outside its world is refused with both numbers."""
    assert ShardOptions(1, 2) == ShardOptions(index=1, count=2) == pickle.loads(pickle.dumps(ShardOptions(1, 2)))
    assert len({ShardOptions(), ShardOptions(0, 1), ShardOptions(0, 2)}) == 2
    for index, count, message in [(2, 2, "index is 2; of 2 shards"), (-1, 2, "index is -1"), (0, 0, "count is 0")]:
        with pytest.raises(ValueError, match=message):
            ShardOptions(index, count)
    with pytest.raises(TypeError):
        ShardOptions(0.0, 1)  # type: ignore[arg-type]


def test_stripes_are_what_slicing_gives() -> None:
    """Against the plain version, for all small lengths, worlds, tails and batch sizes."""
    for length in range(25):
        for world in range(1, 6):
            for batch in (1, 2, 3):
                for tail in ("uneven", "drop", "pad"):
                    stripes = [_stripe(length, rank, world, tail, batch) for rank in range(world)]
                    if None in stripes:
                        assert stripes == [None] * world, "all ranks refuse, or none does"
                        continue
                    _check_stripes([stripe for stripe in stripes if stripe is not None], length, world, batch)


def _stripe(length: int, rank: int, world: int, tail: str, batch: int) -> Stripe | None:
    try:
        return Stripe(length, ShardOptions(rank, world), tail, batch)  # type: ignore[arg-type]
    except ValueError:
        return None


def _check_stripes(stripes: list[Stripe], length: int, world: int, batch: int) -> None:
    tail = stripes[0].tail
    step = world * batch
    if tail == "uneven":
        order = list(range(length))
    elif tail == "drop":
        order = list(range(length // step * step))
    else:
        order = list(range(-(-length // step) * step))
    for rank, stripe in enumerate(stripes):
        own = order[rank::world]
        assert [stripe.to_global(place) for place in range(stripe.places)] == own
        for place in range(len(order) + 1):
            assert stripe.first_from(place) == len([g for g in own if g < place])


def start(code: str, *arguments: str) -> subprocess.Popen[str]:
    environ = {key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE")}
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(code: str) -> str:
    child = start(code)
    output, errors = child.communicate(timeout=100)
    assert child.returncode == 0, errors
    return output
