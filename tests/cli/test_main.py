"""The command line as a user meets it: a process, its output and its exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from arrayfeed import DatasetWriter, verify
from arrayfeed.cli.info import describe, format_description
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
    """Once for people, and with ``--json`` for programs; bytes and hashes are those of the files."""
    path = write_digits(tmp_path / "digits")
    sizes = {
        split: [file.stat().st_size for file in path.glob(f"digits-{split}.array_record-*")] for split in ("train", "test")
    }

    found = json.loads(arrayfeed("info", "--json", path).stdout)

    files = {split: found["splits"][split].pop("files") for split in ("train", "test")}
    assert found == {
        **dict.fromkeys(("description", "citation", "license"), ""),
        **dict.fromkeys(("metadata", "supervised_keys")),
        "name": "digits",
        "version": "1.0.0",
        "root": verify(path).root,
        "features": {
            "image": "Image(shape=(8, 8, 1), dtype=uint8)",
            "label": "ClassLabel(shape=(), dtype=int64, num_classes=10)",
        },
        "splits": {
            "train": {"records": 1437, "shards": 4, "bytes": sum(sizes["train"]), "codec": "none"},
            "test": {"records": 360, "shards": 1, "bytes": sum(sizes["test"]), "codec": "none"},
        },
    }
    assert [file["records"] for file in files["train"]] == [400, 400, 400, 237]
    assert files["test"] == [
        {
            "name": "digits-test.array_record-00000-of-00001",
            "records": 360,
            "bytes": sizes["test"][0],
            "codec": "none",
            "sha256": sha256((path / "digits-test.array_record-00000-of-00001").read_bytes()).hexdigest(),
            "metadata": None,
        }
    ]
    table = arrayfeed("info", path).stdout
    assert f"train    1,437       4  {sum(sizes['train']):,}  none\n" in table
    assert "note: split 'train' has many small shards, of 180,224 bytes" in table
    assert f"{files['test'][0]['sha256']}\n" in arrayfeed("info", "--shards", path).stdout


@pytest.mark.parametrize("codec", ["none", "zstd", "brotli", "snappy"])
def test_info_tells_how_records_are_compressed(tmp_path: Path, codec: str) -> None:
    """As the files say; what was appended may differ. And what was said of the data set and of a shard."""
    with DatasetWriter(tmp_path / "data", {"x": np.int64}, codec=codec, license="CC0", metadata={"a": [1]}) as writer:
        writer.begin_shard({"camera": "left"})
        writer.write({"x": 1})
        writer.write_all([], split="empty")

    found = describe(str(tmp_path / "data"))

    assert found["splits"]["train"]["codec"] == found["splits"]["train"]["files"][0]["codec"] == codec
    assert found["splits"]["train"]["files"][0]["metadata"] == {"camera": "left"}
    assert found["splits"]["empty"] == {"records": 0, "shards": 0, "bytes": 0, "codec": "", "files": []}
    assert (found["license"], found["metadata"]) == ("CC0", {"a": [1]})
    with DatasetWriter(tmp_path / "data", mode="append", codec="none") as writer:
        writer.write({"x": 2})
    both = describe(str(tmp_path / "data"))
    assert both["splits"]["train"]["codec"] == ", ".join(sorted({"none", codec}))
    text = format_description(both)
    assert "license CC0" in text and 'metadata {"a": [1]}' in text


def test_info_needs_no_manifest(tmp_path: Path) -> None:
    """Of a data set that TFDS prepared, it tells what there is."""
    found = describe(str(Path(__file__).parents[1] / "fixtures" / "tfds" / "every_feature" / "1.0.0"))

    assert found["root"] is found["splits"]["train"]["files"][0]["sha256"] is None
    assert found["splits"]["train"]["codec"] == "zstd"
    assert "root unknown, it has no manifest" in format_description(found)


def test_output_that_nobody_reads_to_the_end_is_no_error(tmp_path: Path) -> None:
    """As in ``arrayfeed show DIR | head``: no traceback."""
    path = write_digits(tmp_path / "digits")
    command = f'"{Path(sys.executable).with_name("arrayfeed")}" show "{path}" train : | head -n 1'
    run = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=60)

    assert (run.returncode, run.stdout, run.stderr) == (1, "train[0]\n", "")


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
