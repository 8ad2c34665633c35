"""``arrayfeed verify`` and ``arrayfeed pin`` as a user meets them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.digits import write_digits


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_digits(tmp_path_factory.mktemp("cli") / "digits")


def arrayfeed(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the installed command."""
    command = [Path(sys.executable).with_name("arrayfeed"), *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def test_a_data_set_in_order_is_status_0(pristine: Path) -> None:
    """With what was looked at, and the root to quote; nothing on standard error where no terminal is."""
    root = json.loads((pristine / "arrayfeed.json").read_text())["root"]

    run = arrayfeed("verify", pristine, "--root", root)

    assert (run.returncode, run.stderr) == (0, "")
    lines = run.stdout.splitlines()
    assert lines[0].startswith("7 files, 1,797 records, ")
    assert lines[1:] == [f"root {root}", "nothing is wrong"]
    assert arrayfeed("verify", "--quick", pristine, "--root", root).stdout == run.stdout
    assert f"root {root}" in arrayfeed("info", pristine).stdout


def test_what_is_wrong_is_printed_by_shard_and_record_with_status_1(pristine: Path, tmp_path: Path) -> None:
    """A line for each, the root that the files have now, and how many they are."""
    path = tmp_path / "digits"
    shutil.copytree(pristine, path)
    shard = path / "digits-train.array_record-00002-of-00004"
    data = bytearray(shard.read_bytes())
    data[300] ^= 1
    shard.write_bytes(data)

    run = arrayfeed("verify", path)

    assert run.returncode == 1
    wrong = [line for line in run.stdout.splitlines() if line.startswith("wrong: ")]
    assert wrong[0].startswith(f"wrong: {shard.name}: its SHA-256 is ")
    assert wrong[1].startswith(f"wrong: {shard.name}, record 1: ")
    assert run.stdout.endswith("2 problems found\n")
    form = json.loads(arrayfeed("verify", "--json", path).stdout)
    assert [(problem["file"], problem["record"]) for problem in form["problems"]] == [(shard.name, None), (shard.name, 1)]


def test_overlap_is_status_1(pristine: Path, tmp_path: Path) -> None:
    """A shard of one split copied into another: every record of it is in both."""
    path = tmp_path / "digits"
    shutil.copytree(pristine, path)
    shutil.copy(path / "digits-test.array_record-00000-of-00001", path / "digits-val.array_record-00000-of-00001")
    info = json.loads((path / "dataset_info.json").read_text())
    info["splits"].append({**info["splits"][1], "name": "val"})
    (path / "dataset_info.json").write_text(json.dumps(info))
    (path / "arrayfeed.json").unlink()
    assert arrayfeed("verify", path).returncode == 0

    run = arrayfeed("verify", "--overlap", "--workers", "2", path)

    assert run.returncode == 1
    assert "overlap: 360 records of split 'test' stand in split 'val', too: test[0] = val[0], " in run.stdout


def test_a_root_that_is_none_is_status_2(pristine: Path) -> None:
    """As for any argument that makes no sense."""
    run = arrayfeed("verify", pristine, "--root", "1234")

    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == "arrayfeed: root must be 64 hexadecimal digits, got '1234'\n"


def test_pin_writes_the_manifest_of_a_data_set_that_has_none(pristine: Path, tmp_path: Path) -> None:
    """The very one that its writer would have written; and never over another."""
    path = tmp_path / "digits"
    shutil.copytree(pristine, path)
    (path / "arrayfeed.json").unlink()

    run = arrayfeed("pin", path)

    assert (path / "arrayfeed.json").read_bytes() == (pristine / "arrayfeed.json").read_bytes()
    assert run.stdout == json.loads((path / "arrayfeed.json").read_text())["root"] + "\n"
    again = arrayfeed("pin", path)
    assert again.returncode == 1
    assert "there is a manifest" in again.stderr
