"""A loader feeds TensorFlow: as a ``tf.data.Dataset``, and as Keras's own data set with TensorFlow behind it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.digits import write_digits
from support.library import ROOT

SCRIPT = Path(__file__).parents[1] / "support" / "train_tensorflow.py"


def test_tensorflow_trains_on_a_loader(tmp_path: Path) -> None:
    """Elements are the loader's batches, bit by bit, text and nested fields too, each pass in an order of its own; the data set
    knows its cardinality and shapes; Keras trains on it, and on ``as_keras``, to an accuracy that only training gives."""
    digits = write_digits(tmp_path / "digits")
    python = os.environ.get("ARRAYFEED_TFDS_PYTHON", sys.executable)
    # The checkout itself is tested, under the name that it is imported by, whatever is installed beside TensorFlow.
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "arrayfeed").symlink_to(ROOT)
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    environment = {**os.environ, **quiet, "PYTHONPATH": str(tmp_path / "src")}
    run = subprocess.run([python, str(SCRIPT), str(digits)], env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    (told,) = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]

    assert told["looked"] == {
        "same": True,
        "cardinality": 15,
        "free": [None, 8, 8, 1],
        "fixed": [100, 8, 8, 1],
        "text": "string",
        "endless": 40,
    }
    assert told["refused"]
    assert told["passes"] == [3, 3 * 12]
    assert told["state"] == [5, 0]
    assert told["dataset"] == pytest.approx(told["keras"])
    assert told["dataset"] > 0.9
