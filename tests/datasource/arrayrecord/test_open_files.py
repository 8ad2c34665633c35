"""What open shards cost a process: descriptors, mappings, and nothing once they are closed."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from arrayfeed.datasource import ArrayRecordDataSource
from support.shards import write_shard

Io = Literal["mmap", "pread"]

READ_MANY_SHARDS = """
import os, random, resource, shutil, sys
from arrayfeed.datasource import ArrayRecordDataSource
template, folder, io = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
with open(template, "rb") as file:
    content = file.read()
at = content.index(b"record 0 of shard 0000")
paths = [f"{folder}/{io}-{k:04d}" for k in range(1500)]
for k, path in enumerate(paths):
    with open(path, "wb") as file:
        file.write(content.replace(b"of shard 0000", b"of shard %04d" % k))
source = ArrayRecordDataSource(paths, io=io)
draw = random.Random(0)
for _ in range(2):
    order = draw.sample(range(len(source)), len(source))
    for index in order[:2000]:
        assert source[index] == b"record %d of shard %04d" % (index % 3, index // 3)
    for start in range(0, len(order), 900):
        asked = order[start : start + 900]
        assert source[asked] == [b"record %d of shard %04d" % (i % 3, i // 3) for i in asked]
    print(len(os.listdir("/proc/self/fd")))
"""


@pytest.mark.parametrize("io", ["mmap", "pread"])
def test_1500_shards_are_read_with_256_descriptors(tmp_path: Path, io: Io) -> None:
    """At random, one by one and in batches over most of them; mapped files hold no descriptor, others take turns."""
    template = write_shard(tmp_path / "template", [b"record %d of shard 0000" % k for k in range(3)])
    command = [sys.executable, "-c", READ_MANY_SHARDS, template, str(tmp_path), io]
    run = subprocess.run(command, capture_output=True, text=True, timeout=100)

    assert run.returncode == 0, run.stderr
    most = max(map(int, run.stdout.split()))
    assert most < 20 if io == "mmap" else 20 < most < 120


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("io", ["mmap", "pread"])
def test_nothing_of_a_closed_source_stays_open(tmp_path: Path, io: Io) -> None:
    """Descriptors and mappings go with ``close()``; with what was handed out, where that lies in a mapping."""
    paths = [write_shard(tmp_path / f"shard-{k}", [b"abc", b"de"]) for k in range(5)]

    def held() -> int:
        gc.collect()
        files = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
        with open("/proc/self/maps") as maps:
            return sum(os.path.realpath(tmp_path) in line for line in (*maps, *files))

    source = ArrayRecordDataSource(paths, io=io)
    assert source[[0, 5, 9]] == [b"abc", b"de", b"de"]
    assert held() == 5
    records = source.gather(np.arange(10))
    source.close()
    assert held() == (5 if io == "mmap" else 0)
    assert records.tolist() == [b"abc", b"de"] * 5
    del records
    assert held() == 0
    for end in (lambda s: s.close(), lambda s: None):
        source = ArrayRecordDataSource(paths, io=io)
        end(source)
        del source
        assert held() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_files_that_cannot_be_opened_leave_nothing_open(tmp_path: Path) -> None:
    """A shard that is no shard, after others that are."""
    paths = [write_shard(tmp_path / f"shard-{k}", [b"abc"]) for k in range(3)]
    Path(paths[2]).write_bytes(bytes(131072))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(ValueError):
            ArrayRecordDataSource(paths, io="pread")
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("io", ["mmap", "pread"])
def test_a_program_that_ends_with_a_source_open_ends_quietly(tmp_path: Path, io: Io) -> None:
    """Kept in a module, in a cycle, by a thread that is still reading."""
    path = write_shard(tmp_path / "shard", [b"abc" * 300] * 50, codec="zstd" if io == "pread" else "uncompressed")
    code = f"""
import threading
from arrayfeed.datasource import ArrayRecordDataSource
kept = ArrayRecordDataSource({path!r}, io={io!r})
cycle = [ArrayRecordDataSource({path!r}, io={io!r})]
cycle.append(cycle)
def read_for_ever():
    while True:
        for record in kept: pass
threading.Thread(target=read_for_ever, daemon=True).start()
print(len(kept[3]), len(cycle[0][[4]][0]))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout, run.stderr) == (0, "900 900\n", "")
