"""``make demo`` keeps what it promises, from an empty directory and from one it has filled before."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from support.library import ROOT


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What the demo prints, and the directory it ran in: twice, the second time over its own output."""
    directory = tmp_path_factory.mktemp("demo")
    for _ in range(2):
        command = [sys.executable, "-W", "error", str(ROOT / "notebooks" / "demo.py")]
        run = subprocess.run(command, cwd=directory, check=True, stdout=subprocess.PIPE, text=True, timeout=300)
    return run.stdout, directory


def test_the_demo_learns_the_digits(demo: tuple[str, Path]) -> None:
    """It reads at least 0.97 of the test digits rightly, and says how fast and with how much waiting."""
    printed, _ = demo
    accuracy = re.search(r"test accuracy +([\d.]+)", printed)
    waiting = re.search(r"waiting +([\d.]+)%", printed)

    assert accuracy and float(accuracy[1]) >= 0.97
    assert waiting and 0 <= float(waiting[1]) <= 100
    assert re.search(r"throughput +[\d,]+ examples/s", printed)


def test_the_demo_resumes_to_the_same_bit(demo: tuple[str, Path]) -> None:
    """Stopped in the middle of an epoch and resumed in a new process, it ends with the loss of the unbroken run."""
    printed, directory = demo
    losses = re.findall(r"0x[0-9a-f.]+p[+-]\d+", printed)

    assert len(losses) == 2
    assert losses[0] == losses[1]
    assert (directory / "demo-output" / "loader.json").stat().st_size < 1000


def test_the_demo_draws_its_predictions(demo: tuple[str, Path]) -> None:
    """The contact sheet is a picture, and no blank one."""
    _, directory = demo
    with Image.open(directory / "demo-output" / "predictions.png") as sheet:
        assert sheet.size == (960, 640)
        colours = sheet.getcolors(maxcolors=2**16)

    assert colours and len(colours) > 10
