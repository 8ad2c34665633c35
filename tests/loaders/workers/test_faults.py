"""Workers that die, hang and are left alone: the stream stays as it is, and nothing stays behind."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from arrayfeed import DataLoader
from arrayfeed.loaders import WorkerError
from arrayfeed.loaders.workers.records import Job
from support.equal import difference
from support.worker_cases import CrashOnce, ExitOnce, KillAlways, KillOnce, Numbers, Once, Sleep, started_workers

pytestmark = [
    pytest.mark.usefixtures("no_leaks"),
    # Other tests of this process import JAX, which warns of any fork, and newer Pythons warn of its threads.
    pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]

METHODS = ("forkserver", "spawn", "fork")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("accident", "words"),
    [
        (KillOnce, "was killed by SIGKILL"),
        (CrashOnce, "was killed by SIGSEGV (a crash in compiled code"),
        (ExitOnce, "exited with code 3"),
    ],
)
def test_a_worker_that_dies_is_named_and_replaced(
    method: Any, accident: type[Once], words: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Killed, crashed or ended from within: its batch is made again, and the log says what happened."""
    expected = list(DataLoader(Numbers(60), batch_size=4, shuffle=True))
    # An early one: workers go on with the next epoch, and one that dies over a batch of that is nobody's business yet.
    record = int(expected[2]["x"][0, 0])
    loader = DataLoader(
        Numbers(60),
        batch_size=4,
        shuffle=True,
        num_workers=2,
        multiprocessing_context=method,
        transforms=accident(record, tmp_path / "done"),
        warn_waiting=None,  # on a busy machine it is said too
    )
    with caplog.at_level(logging.WARNING, "arrayfeed"):
        found = list(loader)

    assert not difference(found, expected)
    assert len(caplog.records) == 1 and words in caplog.text
    assert loader.stats().worker_deaths == 1


def test_a_hundred_random_kills_change_nothing(rng: np.random.Generator) -> None:
    """Any worker at any moment, idle or not, the process that starts them too: order, values and counts stay."""
    options: dict[str, Any] = {"batch_size": 5, "shuffle": True, "num_epochs": None}
    loader = DataLoader(Numbers(1000, width=3000), num_workers=3, transforms=Sleep(0.0002), **options)
    found, expected = iter(loader), iter(DataLoader(Numbers(1000, width=3000), **options))
    next(found), next(expected)
    pool = loader._workers._open_pool()
    while loader.stats().worker_deaths < 100:
        victims = [pool._crew._warden] if loader.stats().worker_deaths % 25 == 24 else pool.pids
        if victims:
            with suppress(ProcessLookupError):  # killed before, and not replaced yet
                os.kill(victims[int(rng.integers(len(victims)))], signal.SIGKILL)
        for _ in range(int(rng.integers(1, 12))):
            assert not difference(next(found), next(expected))
        time.sleep(float(rng.random()) * 0.01)

    for _ in range(50):
        assert not difference(next(found), next(expected))


def test_a_job_that_is_lost_with_a_worker_is_done_by_another() -> None:
    """One that was taken and not yet announced when the worker died: here the test takes it, out of a stopped worker's pipe."""
    loader = DataLoader(Numbers(40), num_workers=2, prefetch_factor=4, transforms=Sleep(0.03))
    pids = started_workers(loader)
    iterator = iter(loader)
    found = [int(next(iterator)["x"][0, 0])]
    pool = loader._workers._open_pool()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    jobs = os.open(f"/proc/self/fd/{pool._crew._jobs}", os.O_RDONLY | os.O_NONBLOCK)  # the end that workers read from
    assert len(os.read(jobs, Job.FORM.size)) == Job.FORM.size
    os.close(jobs)
    os.kill(pids[0], signal.SIGKILL)
    os.kill(pids[1], signal.SIGCONT)

    assert found + [int(batch["x"][0, 0]) for batch in iterator] == [*range(40)]


def test_a_batch_that_kills_three_workers_is_an_error_that_names_the_record() -> None:
    """After the batches before it; the next ``next`` tries again."""
    iterator = iter(DataLoader(Numbers(40), batch_size=4, num_workers=2, transforms=KillAlways(22)))
    assert [int(next(iterator)["x"][0, 0]) for _ in range(5)] == [0, 4, 8, 12, 16]

    for _ in range(2):
        with pytest.raises(WorkerError, match="was killed by SIGKILL") as caught:
            next(iterator)
        assert "(records 20, 21, 22, 23): 3 workers" in str(caught.value)
        assert "record 22 alone ends one" in str(caught.value)


def test_a_loop_that_is_left_leaves_nothing() -> None:
    """By break, by an exception in the training loop, by forgetting the loader in the middle of long batches."""

    def leave_by_break() -> None:
        for _ in DataLoader(Numbers(100), num_workers=2):
            break

    def leave_by_error() -> None:
        with pytest.raises(ZeroDivisionError):
            for batch in DataLoader(Numbers(100), num_workers=2):
                batch["x"] / 0 if batch["x"].min() else 1 // 0

    def forget() -> None:
        iterator = iter(DataLoader(Numbers(100), num_workers=2, transforms=Sleep(0.0, 3, 60)))
        next(iterator)

    for leave in (leave_by_break, leave_by_error, forget):
        start = time.monotonic()
        leave()
        assert time.monotonic() - start < 30  # a batch that is not waited for would take 60 s


SCRIPT = """
import os, signal, sys, threading, time
from arrayfeed import DataLoader
from support.worker_cases import Numbers, Sleep

loader = DataLoader(Numbers(10_000, width=9000), num_workers=2, multiprocessing_context={method!r}, num_epochs=None,
                    transforms=Sleep(0.001, 50, {longer}))
iterator = iter(loader)
held = [next(iterator) for _ in range(3)]
pool = loader._workers._open_pool()
while len(pool.pids) < 2:
    time.sleep(0.001)
print(*pool.pids, pool._crew._warden, flush=True)
{end}
"""

WAIT = "for batch in iterator: pass"


def start_script(method: str, end: str, longer: float = 0.0) -> tuple[subprocess.Popen[str], list[int]]:
    """Run a script that iterates over a loader; return it, and its processes, once they all work."""
    tests = Path(__file__).parents[2]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(tests.parents[1]), str(tests)]))
    script = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(SCRIPT).format(method=method, end=end, longer=longer)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert script.stdout is not None
    return script, [int(pid) for pid in script.stdout.readline().split()]


PLAIN = """
import sys
sys.modules["cloudpickle"] = None  # as if it was not installed
from arrayfeed import DataLoader
from support.worker_cases import Numbers

print("imported as", __name__)

def double(example):
    return {"x": 2 * example["x"]}

class Own(Numbers):
    pass

try:
    DataLoader(Numbers(4), num_workers=1, transforms=lambda e: e)
except TypeError as error:
    print(error)
if __name__ == "__main__":
    print([int(batch["x"][0, 0]) for batch in DataLoader(Own(4), num_workers=1, transforms=double)])
"""


def test_without_cloudpickle_scripts_need_their_guard_and_lambdas_are_refused(tmp_path: Path) -> None:
    """What the script itself defines is found in workers by importing it there, as multiprocessing does."""
    script = tmp_path / "script.py"
    script.write_text(PLAIN)
    tests = Path(__file__).parents[2]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(tests.parents[1]), str(tests)]))
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env=environment, timeout=100, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "transforms[0] (<function <lambda>" in done.stdout and "Install cloudpickle" in done.stdout
    assert "[0, 2, 4, 6]" in done.stdout
    assert "imported as __mp_main__" in done.stdout


def wait_until_gone(pids: list[int], timeout_s: float) -> list[int]:
    """Return which processes are there still, zombies not counted, after a while."""

    def runs(pid: int) -> bool:
        try:
            return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return False

    end = time.monotonic() + timeout_s
    while True:
        left = [pid for pid in pids if runs(pid)]
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.01)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("longer", [0.0, 60.0])
def test_no_process_outlives_a_killed_training_process(method: str, longer: float) -> None:
    """SIGKILL of the parent: within a second all are gone, idle, busy or stuck; nothing is left in /dev/shm."""
    named = {*os.listdir("/dev/shm")}
    script, pids = start_script(method, WAIT, longer)
    time.sleep(0.1)
    script.kill()
    script.wait()

    assert len(pids) == 3
    assert not wait_until_gone(pids, 1.0)
    assert not [name for name in {*os.listdir("/dev/shm")} - named if "arrayfeed" in name]
    script.communicate()


@pytest.mark.parametrize("method", METHODS)
def test_ctrl_c_ends_everything_quietly(method: str) -> None:
    """SIGINT to the whole group, as a terminal sends it: one KeyboardInterrupt, no worker's traceback, nobody left."""
    script, pids = start_script(method, WAIT)
    time.sleep(0.1)
    for pid in (script.pid, *pids):
        os.kill(pid, signal.SIGINT)
    _, errors = script.communicate(timeout=60)

    assert not wait_until_gone(pids, 1.0)
    assert errors.count("Traceback") == 1 and errors.rstrip().endswith("KeyboardInterrupt")


def test_the_end_of_the_interpreter_ends_workers() -> None:
    """A script that just ends, with a pass in its middle and batches in hand: exit code 0, nothing said, nobody left."""
    script, pids = start_script("forkserver", "sys.exit()", 60.0)
    out, errors = script.communicate(timeout=50)  # a batch in hand would take 60 s

    assert (script.returncode, out, errors) == (0, "", "")
    assert not wait_until_gone(pids, 0.0)


NOTEBOOK = """
from arrayfeed import DataLoader
import numpy as np

class Squares:  # of the notebook's own, as its function is: no worker could import them
    def __len__(self):
        return 10_000
    def __getitem__(self, index):
        return {"x": np.full(9000, index * index)}

loader = DataLoader(Squares(), num_workers=2, num_epochs=None, transforms=lambda example: {"x": example["x"] + 1})
iterator = iter(loader)
held = [next(iterator) for _ in range(3)]
pool = loader._workers._open_pool()
import time
while len(pool.pids) < 2:
    time.sleep(0.001)
print(*pool.pids, pool._crew._warden, int(held[2]["x"][0, 0]))
"""


def test_a_notebook_kernel_that_is_restarted_leaves_nobody() -> None:
    """Its own classes and functions work in workers, and within a second of the restart all of these are gone."""
    client = pytest.importorskip("jupyter_client")
    tests = Path(__file__).parents[2]
    manager = client.KernelManager(kernel_name="python3")
    manager.start_kernel(env=dict(os.environ, PYTHONPATH=os.pathsep.join([str(tests.parents[1]), str(tests)])))
    try:
        channel = manager.blocking_client()
        channel.start_channels()
        channel.wait_for_ready(timeout=60)
        said: list[str] = []

        def hear(message: dict[str, Any]) -> None:
            said.append(message["content"].get("text", str(message["content"])))

        channel.execute_interactive(NOTEBOOK, timeout=60, output_hook=hear)
        *pids, value = map(int, "".join(line for line in said if line[:1].isdigit()).split())
        assert (len(pids), value) == (3, 5)
        assert len(wait_until_gone(pids, 0.0)) == 3
        manager.restart_kernel(now=True)

        assert not wait_until_gone(pids, 1.0)
        channel.stop_channels()
    finally:
        manager.shutdown_kernel(now=True)
        manager.context.destroy()


@pytest.fixture
def alarm() -> Iterator[Callable[[float], None]]:
    """Press Ctrl-C so many seconds from now. Unlike a thread, it is set in one step, which Ctrl-C cannot come in between."""
    handlers = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGALRM: lambda *_: signal.raise_signal(signal.SIGINT),
    }
    previous = {number: signal.signal(number, handler) for number, handler in handlers.items()}

    def set_alarm(seconds: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, max(1e-6, seconds))

    yield set_alarm
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number, handler in previous.items():
        signal.signal(number, handler)


def test_ctrl_c_can_be_caught_and_the_loop_taken_up_again(alarm: Callable[[float], None]) -> None:
    """At any moment inside ``next``: the batches go on where they were."""
    loader = DataLoader(Numbers(60), batch_size=2, num_workers=2, transforms=Sleep(0.005))
    iterator = iter(loader)
    found: list[int] = []
    interrupts = 0
    while len(found) < 30:
        try:
            if interrupts < 5:
                alarm(0.004 + 0.011 * interrupts)
            while len(found) < 30:
                batch = next(iterator)
                found.append(int(batch["x"][0, 0]))
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            interrupts += 1

    assert found == [*range(0, 60, 2)]


def test_ctrl_c_while_workers_are_being_set_up_leaves_nothing_half_made(alarm: Callable[[float], None]) -> None:
    """At moments from the first to the last of the set-up, imports included: one KeyboardInterrupt, then the loop goes on."""
    for moment in range(0, 10, 2):
        loader = DataLoader(Numbers(6), batch_size=2, num_workers=1)
        iterator = iter(loader)
        found: list[int] = []
        interrupts = 0
        try:
            alarm(0.003 * moment)
            while True:
                if len(found) < 3:
                    found.append(int(next(iterator)["x"][0, 0]))
                time.sleep(0.001)
        except KeyboardInterrupt:
            interrupts += 1
        found += [int(batch["x"][0, 0]) for batch in iterator]
        assert (interrupts, found) == (1, [0, 2, 4])


def test_a_loader_can_be_used_in_a_thread_that_ends() -> None:
    """Workers started by a thread live on after it."""
    loader = DataLoader(Numbers(60), batch_size=2, num_workers=2)
    iterator = iter(loader)
    first: list[Any] = []
    thread = threading.Thread(target=lambda: first.append(next(iterator)))
    thread.start()
    thread.join()

    assert [int(batch["x"][0, 0]) for batch in [*first, *iterator]] == [*range(0, 60, 2)]
