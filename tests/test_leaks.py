"""The check that other tests rely on sees what it is there to see."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import threading
from multiprocessing import shared_memory

import pytest

from support.leaks import Resources


def left_since(before: Resources) -> str:
    return " ".join(before.wait_until_released(timeout_s=0.0))


def test_a_running_thread_is_seen_until_it_ends() -> None:
    """Threads count from start to end, daemons too."""
    before, stop = Resources.now(), threading.Event()
    thread = threading.Thread(target=stop.wait, name="forgotten", daemon=True)
    thread.start()
    assert "thread forgotten" in left_since(before)

    stop.set()
    assert not before.wait_until_released(timeout_s=5.0)


def test_a_child_process_is_seen_until_it_is_reaped() -> None:
    """A child counts while it runs, and as a zombie."""
    before = Resources.now()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert f"process {child.pid}" in left_since(before)

    assert not before.wait_until_released(timeout_s=5.0)


@pytest.mark.skipif(sys.platform != "linux", reason="memfd and /dev/shm are Linux's")
def test_shared_memory_is_seen_as_a_name_a_descriptor_and_a_mapping() -> None:
    """A segment of ours in /dev/shm counts, and so does nameless memory while it is open or mapped."""
    before = Resources.now()
    segment = shared_memory.SharedMemory(f"arrayfeed-test-{os.getpid()}", create=True, size=64)
    assert f"/dev/shm/{segment.name}" in left_since(before)
    segment.close()
    segment.unlink()

    descriptor = os.memfd_create("nameless")
    os.ftruncate(descriptor, 64)
    assert f"descriptor {descriptor} -> /memfd:nameless" in left_since(before)
    mapped = mmap.mmap(descriptor, 64)
    os.close(descriptor)
    assert "mapping of /memfd:nameless" in left_since(before)

    mapped.close()
    assert not before.wait_until_released(timeout_s=5.0)
