"""A program that ends with loaders under way ends: at once, with its own exit code, without a word."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

START = """
import sys, threading, time
import arrayfeed

class Slow:
    def __init__(self, delay_s): self.delay_s = delay_s
    def __len__(self): return 100
    def __getitem__(self, index):
        time.sleep(self.delay_s)
        return index

def start(delay_s):
    iterator = iter(arrayfeed.DataLoader(Slow(delay_s), batch_size=1))
    next(iterator)
    return iterator
"""

ENDS = {
    "waiting for room": ("iterator = start(0); time.sleep(0.1)", 0),
    "at work": ("iterator = start(0.3)", 0),
    "exit in a loop": ("for batch in arrayfeed.DataLoader(Slow(0.01)): sys.exit(3)", 3),
    "two at once": ("one, other = start(0.01), start(0.02)", 0),
    "in a cycle": ("iterator = [start(0.01)]; iterator.append(iterator)", 0),
    "held by a module": ("sys.modules['arrayfeed'].kept = start(0.01)", 0),
    "forked": (
        "import os\niterator = start(0.01)\nchild = os.fork()\nnext(iterator)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if child else 7)",
        7,
    ),
}


def run(code: str) -> tuple[subprocess.CompletedProcess[str], float]:
    """Return how a program with ``code`` ended, and how long it took from the moment it printed a line."""
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", f"{START}\n{code}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        start = time.perf_counter()
        output, errors = process.communicate(timeout=60)
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors), time.perf_counter() - start


@pytest.mark.parametrize("name", ENDS)
def test_the_end_of_the_program_is_the_end_of_the_thread(name: str) -> None:
    """Exit code kept, nothing on stderr, no longer than the piece of work in hand."""
    code, status = ENDS[name]
    process, seconds = run(code if "sys.exit" in code and "fork" not in code else f"{code}\n")

    assert (process.returncode, process.stderr) == (status, "")
    assert seconds < 5


def test_an_error_in_the_training_loop_is_all_that_is_shown() -> None:
    """One traceback, exit code 1."""
    process, _ = run("for batch in arrayfeed.DataLoader(Slow(0.01)): 1 / 0")

    assert process.returncode == 1
    assert process.stderr.count("Traceback") == 1
    assert process.stderr.strip().endswith("ZeroDivisionError: division by zero")


def test_a_transform_that_never_returns_does_not_keep_the_program() -> None:
    """It is given five seconds, then it is left behind."""
    process, seconds = run(
        "stuck = threading.Event()\n"
        "def get_stuck(index):\n    if index: stuck.set(); threading.Event().wait()\n    return index\n"
        "iterator = iter(arrayfeed.DataLoader(Slow(0), transforms=get_stuck)); next(iterator)\n"
        "stuck.wait(); print('going', flush=True)"
    )

    assert (process.returncode, process.stderr) == (0, "")
    assert 4 < seconds < 12


def test_ctrl_c_in_a_loop_ends_the_program_as_ctrl_c_does() -> None:
    """While the consumer waits for a batch; exit by the signal, one traceback, no thread's complaint."""
    code = "import os, signal\nthreading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()\nstart(0)\nlist(start(0.05))"
    process, seconds = run(code)

    assert process.returncode == -2
    assert process.stderr.strip().endswith("KeyboardInterrupt")
    assert process.stderr.count("Traceback") == 1
    assert seconds < 8
