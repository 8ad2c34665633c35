"""Runs one conversion again and again, in children that are killed at random moments, until one comes to its end.

Run as a script, so that the process that forks has no threads:

    killed_conversions.py DIRECTORY KIND KILLS

KIND is "tfrecord", "gzip", "arrays", "images", "tar", "export" or "folder".

Converts to a path, over as many kills as it takes, and compares the outcome with that of a run that nobody disturbed; then to
the next one, until KILLS runs were killed. Prints a JSON object: how many runs were killed, how many finished parts the next
ones found, and how many of these were written once more.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import signal
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from array_record.python import array_record_module  # noqa: F401  imported once here, not in every child

from arrayfeed.datasource.converting import (
    convert_arrays,
    convert_images,
    convert_tfrecord,
    convert_webdataset,
    export_folder,
    export_tfrecord,
)
from arrayfeed.datasource.example.wire import serialize_example
from arrayfeed.datasource.features.image_codec import encode_image
from support.killed_writes import in_child
from support.tfrecords import write_tfrecord

COUNT = 3000


def make_inputs(directory: Path) -> None:
    """Write what is converted, in all forms."""
    x = np.arange(COUNT * 40, dtype=np.uint8).reshape(COUNT, 40)
    records = [serialize_example({"x": [x[n].tobytes()], "n": np.array([n])}) for n in range(COUNT)]
    for number in range(6):
        path = write_tfrecord(directory / f"plain-{number}.tfrecord", records[500 * number : 500 * number + 500])
        (directory / f"gzip-{number}.tfrecord.gz").write_bytes(gzip.compress(path.read_bytes(), 1))
        with tarfile.open(directory / f"{number}.tar", "w") as tar:
            for n in range(80 * number, 80 * number + 80):
                info = tarfile.TarInfo(f"{n:05d}.cls")
                info.size = 5
                tar.addfile(info, io.BytesIO(b"%5d" % n))
    np.savez(directory / "arrays.npz", x=x, n=np.arange(COUNT))
    png = encode_image(np.zeros((1, 1, 1), np.uint8), "png")
    for n in range(400):
        folder = directory / "images" / "ab"[n % 2]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{n}.png").write_bytes(png)


def conversions(inputs: Path) -> dict[str, Callable[[Path], object]]:
    """Return each conversion, to a path."""
    digits = inputs.parent / "exported"
    return {
        "tfrecord": lambda path: convert_tfrecord(inputs / "plain-*", path, name="a", num_shards=12, num_workers=0),
        "gzip": lambda path: convert_tfrecord(inputs / "gzip-*", path, name="a", shard_bytes=8000, num_workers=0),
        "arrays": lambda path: convert_arrays(inputs / "arrays.npz", path, name="a", num_shards=12, num_workers=0),
        "images": lambda path: convert_images(inputs / "images", path, name="a", num_shards=12, num_workers=0),
        "tar": lambda path: convert_webdataset(inputs / "*.tar", path, name="a", shard_bytes=40_000, num_workers=0),
        "export": lambda path: export_tfrecord(digits, path, num_workers=0),
        "folder": lambda path: export_folder(digits, path, num_workers=0),
    }


def run_killed(run: Callable[[Path], object], path: Path, kill_after_s: float | None = None) -> int:
    """Run a conversion in a child and return its wait status."""

    def task() -> None:
        run(path)

    return in_child(task, kill_after_s)


def read_tree(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def list_finished(path: Path) -> dict[str, bytes]:
    """Return what an interrupted run left finished: parts by their attempt, or whole files by their node."""
    found = {}
    for leftover in path.parent.glob(f"{path.name}.incomplete-*"):
        for part in leftover.glob("part-*.json"):
            found[part.name] = part.read_bytes()
        for done in leftover.glob("done/*.json"):
            found[done.name] = str(done.stat().st_ino).encode()
    return found


def is_tidying(path: Path, expected: set[str]) -> bool:
    """Return whether an interrupted run had written everything, and may have begun to remove what it kept for the next."""
    return any(expected <= set(read_tree(leftover)) for leftover in path.parent.glob(f"{path.name}.incomplete-*"))


def main(directory: Path, kind: str, kills: str) -> None:
    inputs = directory / "inputs"
    inputs.mkdir()
    make_inputs(inputs)
    run = conversions(inputs)
    if kind in ("export", "folder"):
        assert run_killed(run["images" if kind == "folder" else "arrays"], directory / "exported") == 0
    began = time.monotonic()
    assert run_killed(run[kind], directory / "undisturbed") == 0
    takes_s = time.monotonic() - began
    expected = read_tree(directory / "undisturbed")
    draw, told = random.Random(0), Counter[str]()
    for number in range(10_000):
        path = directory / str(number) / "data"
        path.parent.mkdir()
        kept: dict[str, bytes] = {}
        while True:
            status = run_killed(run[kind], path, draw.uniform(0, takes_s))
            if path.exists():
                break
            assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
            told["killed"] += 1
            finished = list_finished(path)
            if is_tidying(path, set(expected)):
                kept = {}
                continue
            told["kept"] += len(finished)
            told["redone"] += sum(finished.get(name) != attempt for name, attempt in kept.items())
            kept = finished
        assert read_tree(path) == expected
        assert os.listdir(path.parent) == [path.name], [*path.parent.rglob("*")]
        if told["killed"] >= int(kills):
            break
        takes_s *= 0.9  # a machine has slower and faster moments
    print(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
