"""``arrayfeed convert`` and ``arrayfeed export`` as a user meets them."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from arrayfeed.cli.main import main
from arrayfeed.datasource.example.wire import serialize_example
from arrayfeed.datasource.tfds import DatasetInfo
from support.tfrecords import FIXTURES, write_tfrecord
from support.written import read_examples, read_records


def command(*arguments: str | Path) -> list[str]:
    return [str(Path(sys.executable).with_name("arrayfeed")), *map(str, arguments)]


def arrayfeed(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the installed command."""
    return subprocess.run(command(*arguments), check=False, capture_output=True, text=True, timeout=120)


def test_tfrecord_files_become_a_data_set_and_go_back(tmp_path: Path) -> None:
    """There and back: records counted on standard output, nothing on standard error, the same bytes in the end."""
    run = arrayfeed(
        "convert", FIXTURES / "pictures-*-of-00002", tmp_path / "data", "--num-shards", "2", "--description", "Pictures"
    )

    assert (run.returncode, run.stderr) == (0, "")
    lines = run.stdout.splitlines()
    assert lines[0] == "train: 24 records"
    assert lines[1].startswith("root ") and len(lines[1]) == 69
    assert DatasetInfo.read(tmp_path / "data").description == "Pictures"

    run = arrayfeed("export", tmp_path / "data", tmp_path / "back", "--shard-records", "10", "--json")
    assert run.returncode == 0
    form = json.loads(run.stdout)
    assert (form["num_records"], form["skipped"]) == ({"train": 24}, [])
    assert len(list((tmp_path / "back").glob("data-train.tfrecord-*-of-00003"))) == 3
    assert arrayfeed("convert", tmp_path / "back", tmp_path / "home").returncode == 0
    assert read_records(tmp_path / "home") == read_records(tmp_path / "data")


def test_splits_and_fields_are_given_on_the_command_line(tmp_path: Path) -> None:
    """SPLIT=FILE; types, shapes, defaults, classes and pictures by --field."""
    digits = load_digits()
    np.savez(tmp_path / "a.npz", image=digits.images[:100].astype(np.uint8)[..., None], label=digits.target[:100])
    np.savez(tmp_path / "b.npz", image=digits.images[100:120].astype(np.uint8)[..., None], label=digits.target[100:120])

    classes = ",".join(f"d{k}" for k in range(10))
    fields: tuple[str, ...] = ("--field", "image=uint8[8,8,1]", "--field", f"label=label:{classes}")
    run = arrayfeed("convert", f"train={tmp_path}/a.npz", f"test={tmp_path}/b.npz", tmp_path / "digits", *fields, "--json")

    assert json.loads(run.stdout)["num_records"] == {"train": 100, "test": 20}
    examples = read_examples(tmp_path / "digits")
    assert [example["label"] for example in examples["test"]] == digits.target[100:120].tolist()
    np.testing.assert_array_equal(examples["train"][7]["image"][..., 0], digits.images[7])

    fields = ("--field", "score=float32=-1", "--field", "lengths=int64[?]", "--field", "nowhere=bytes=x=y")
    run = arrayfeed("convert", FIXTURES / "pictures.gz", tmp_path / "some", *fields)
    assert run.returncode == 0, run.stderr
    first = read_examples(tmp_path / "some")["train"][3]
    assert (first["score"], first["lengths"].tolist(), first["nowhere"]) == (-1.0, [0, 1, 2], b"x=y")


def root_of(path: Path) -> str:
    return str(json.loads((path / "arrayfeed.json").read_text())["root"])


def test_each_format_is_recognised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From directories, names and first bytes."""
    (tmp_path / "no-name").write_bytes((FIXTURES / "pictures.gz").read_bytes())
    np.save(tmp_path / "x.npy", np.arange(5))
    for source, count in (
        (FIXTURES / "shapes" / "1.0.0", 20),
        (FIXTURES.parent / "tfds" / "numbers" / "small" / "1.2.0", 25),
        (tmp_path / "no-name", 24),
        (tmp_path / "x.npy", 5),
    ):
        assert main(["convert", str(source), f"{tmp_path}/out{count}", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["num_records"]["train"] == count
    assert main(["export", f"{tmp_path}/out20", f"{tmp_path}/pictures", "--to", "images"]) == 0
    assert main(["convert", f"{tmp_path}/pictures", f"{tmp_path}/home"]) == 0
    assert capsys.readouterr().out.endswith("\ntrain: 20 records\n" + f"root {root_of(tmp_path / 'home')}\n")


def test_bad_records_are_named_with_status_1_or_listed(tmp_path: Path) -> None:
    """What was finished is kept, and the same command with --on-error=skip goes on from there."""
    data = bytearray((FIXTURES / "pictures-00001-of-00002").read_bytes())
    data[-30] ^= 1
    (tmp_path / "b").write_bytes(data)
    sources = (FIXTURES / "pictures-00000-of-00002", tmp_path / "b")
    options = ("--num-shards", "4", "--field", "image/label=int64", "--workers", "0")
    arguments = ("convert", *sources, tmp_path / "data", *options)

    run = arrayfeed(*arguments)
    assert (run.returncode, run.stdout) == (1, "")
    assert f"arrayfeed: {tmp_path}/b, record 13, byte " in run.stderr
    assert "what was finished is kept in" in run.stderr
    run = arrayfeed(*arguments, "--on-error", "skip")

    assert (run.returncode, run.stdout.splitlines()[0]) == (0, "train: 23 records")
    assert f"skipped: {tmp_path}/b, record 13: the checksum of its data does not match" in run.stderr
    assert f"1 skipped; they are listed in {tmp_path}/data.skipped.json" in run.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "data", "data.skipped.json"]


def test_arguments_that_make_no_sense_are_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With one line that says why."""
    pictures = FIXTURES / "pictures.gz"
    shapes = FIXTURES / "shapes" / "1.0.0"
    for arguments, message in (
        (("convert", pictures, tmp_path / "x", "--codec", "lzma"), "codec 'lzma' is unknown"),
        (("convert", pictures, tmp_path / "x", "--field", "label"), "NAME=TYPE expected"),
        (("convert", pictures, tmp_path / "x", "--num-shards", "2"), "num_shards cannot be kept"),
        (("convert", shapes, tmp_path / "x", "--raw"), "unexpected keyword argument 'raw'"),
        (("export", shapes, tmp_path / "x", "--only", "label"), "--only is for"),
    ):
        assert main([*map(str, arguments)]) == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert message in told.err
    assert main(["convert", f"{tmp_path}/nothing", f"{tmp_path}/x"]) == 1
    assert capsys.readouterr().err == f"arrayfeed: {tmp_path}/nothing: no such file\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["convert", "export"])
def test_help_shows_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """To copy from."""
    with pytest.raises(SystemExit) as caught:
        main([name, "--help"])

    assert caught.value.code == 0
    assert f"examples:\n  arrayfeed {name} " in capsys.readouterr().out


def read_all(handle: int, found: list[bytes]) -> None:
    """Read a terminal until its other end is closed; who writes to it would wait for that."""
    try:
        while piece := os.read(handle, 1 << 16):
            found.append(piece)
    except OSError:
        pass  # how Linux says that it is closed


def test_ctrl_c_ends_at_once_and_the_same_command_goes_on(tmp_path: Path) -> None:
    """Status 130, no traceback, a bar on a terminal; and nothing is left behind in the end."""
    records = [serialize_example({"x": [bytes(2000)], "n": np.array([n])}) for n in range(12_000)]
    write_tfrecord(tmp_path / "many.tfrecord", records)
    arguments = command(
        "convert", tmp_path / "many.tfrecord", tmp_path / "data", "--num-shards", "40", "--codec", "zstd:12", "--workers", "2"
    )
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("4H", 24, 100, 0, 0))  # in a terminal without columns there is no bar
    run = subprocess.Popen(arguments, stderr=child, stdout=child, start_new_session=True)
    os.close(child)
    shown: list[bytes] = []
    reader = threading.Thread(target=read_all, args=(parent, shown))
    reader.start()
    end = time.monotonic() + 100
    while time.monotonic() < end and not list(tmp_path.glob("data.incomplete-*/part-*.json")):
        time.sleep(0.01)
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does, to all processes
    assert run.wait(60) == 130
    reader.join()
    os.close(parent)
    text = b"".join(shown).decode()
    assert "data: " in text and "B/s" in text
    assert "Traceback" not in text
    assert "arrayfeed: interrupted" in text and "the same command goes on from there" in text
    done = len(list(tmp_path.glob("data.incomplete-*/part-*.json")))
    assert done >= 1
    again = subprocess.run(arguments, check=False, capture_output=True, text=True, timeout=200)
    assert (again.returncode, again.stderr) == (0, "")
    assert read_records(tmp_path / "data") == {"train": records}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "many.tfrecord"]
