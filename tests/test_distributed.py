"""Several real processes train and evaluate together, each fed its share: what comes out is what one process gets."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support import train_ranks_jax, train_ranks_torch
from support.digits import write_digits

TRAIN, TEST = 1437, 360  # neither divides by batches of 64


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits, written once."""
    return write_digits(tmp_path_factory.mktemp("digits") / "digits")


def start(*command: str | Path) -> subprocess.Popen[str]:
    """Start a script in this interpreter, with none of this process's accelerators or launchers."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("SLURM_", "OMPI_", "PMI_"))}
    environment |= {"OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.Popen(
        [sys.executable, *command], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(*processes: subprocess.Popen[str]) -> list[Any]:
    """Wait for them all and return what they printed; on failure, end the others and say why."""
    try:
        printed = [process.communicate(timeout=100) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (_, errors) in zip(processes, printed, strict=True):
        assert process.returncode == 0, errors
    return [json.loads(line) for output, _ in printed for line in output.splitlines() if line.startswith("{")]  # gloo talks


def test_two_ranks_of_torchrun_train_as_one_process_does(digits: Path) -> None:
    """With ``tail="pad"`` and ``"drop"``, in equal steps, to the same weights bit for bit as one process that takes the ranks'
    batches in turn; and to the same metrics as one rank with batches twice as large, whose sums are taken in another order.

    Evaluation sees each of the test digits once, whatever was padded.
    """
    script = train_ranks_torch.__file__
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    apart, alone = finish(start(*torchrun, script, digits), start(script, digits))

    assert apart["2"] == alone["2"]
    for tail, steps in (("pad", -(-TRAIN // 64)), ("drop", TRAIN // 64)):
        two, one = alone["2"][tail], alone["1"][tail]
        assert two["steps"] == one["steps"] == 3 * steps
        assert two["figures"][0] == one["figures"][0] == TEST
        assert two["figures"][1] == one["figures"][1] >= 0.9 * TEST
        assert two["figures"][2] == pytest.approx(one["figures"][2], rel=1e-4)
        assert two["weights"] == pytest.approx(one["weights"], rel=1e-4, abs=1e-4)


def test_two_processes_of_jax_train_as_one_does(digits: Path) -> None:
    """Over a mesh of one CPU device each, bit for bit as one process with two; each test digit is seen once."""
    script = train_ranks_jax.__file__
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    (apart,) = finish(*(start(script, digits, "2", str(process), port) for process in range(2)))
    (alone,) = finish(start(script, digits, "1", "0", port))

    assert apart == alone
    assert apart["steps"] == 3 * -(-TRAIN // 64)
    assert apart["figures"][0] == TEST
    assert apart["figures"][1] >= 0.85 * TEST
