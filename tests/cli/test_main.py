"""The command line as a user meets it: a process, its output and its exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from arrayfeed import verify
from support.digits import write_digits


def arrayfeed(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the installed command."""
    command = [Path(sys.executable).with_name("arrayfeed"), *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def test_version_names_the_installed_one() -> None:
    """``arrayfeed --version`` tells what a bug report needs."""
    assert arrayfeed("--version").stdout == f"arrayfeed {version('arrayfeed')}\n"


def test_an_unknown_command_is_an_error_that_shows_the_usage() -> None:
    """The exit status is 2, and nothing is printed where a pipe would read it."""
    run = arrayfeed("no-such-command")

    assert (run.returncode, run.stdout) == (2, "")
    assert "usage: arrayfeed" in run.stderr


def test_info_tells_features_splits_and_sizes(tmp_path: Path) -> None:
    """Once for people, and with ``--json`` for programs; the bytes are those of the files."""
    path = write_digits(tmp_path / "digits")
    sizes = {
        split: [file.stat().st_size for file in path.glob(f"digits-{split}.array_record-*")] for split in ("train", "test")
    }

    assert json.loads(arrayfeed("info", "--json", path).stdout) == {
        "name": "digits",
        "version": "1.0.0",
        "root": verify(path).root,
        "features": {
            "image": "Image(shape=(8, 8, 1), dtype=uint8)",
            "label": "ClassLabel(shape=(), dtype=int64, num_classes=10)",
        },
        "splits": {
            "train": {"records": 1437, "shards": 4, "bytes": sum(sizes["train"])},
            "test": {"records": 360, "shards": 1, "bytes": sum(sizes["test"])},
        },
    }
    table = arrayfeed("info", path).stdout
    assert f"train    1,437       4  {sum(sizes['train']):,}" in table


def test_what_is_wrong_with_the_data_is_one_line_and_status_1(tmp_path: Path) -> None:
    """No traceback: the message names the path."""
    run = arrayfeed("info", tmp_path / "nothing")

    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith(f"arrayfeed: {tmp_path / 'nothing'}: ")
    assert run.stderr.count("\n") == 1


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    """A data set that was copied in part says which file to look for."""
    path = write_digits(tmp_path / "digits")
    lost = path / "digits-train.array_record-00002-of-00004"
    lost.unlink()
    run = arrayfeed("info", path)

    assert run.returncode == 1
    assert str(lost) in run.stderr
