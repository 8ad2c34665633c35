"""Reads sources in this process and in children of it, begun in every way. Run by test_source.py, in a process of its own.

python -m support.source_children < pickle of [(name, source, frozen elements, fingerprint), ...]
"""

from __future__ import annotations

import multiprocessing
import pickle
import sys
import threading
from typing import Any, TypeAlias

from support.source_cases import freeze

Made: TypeAlias = list[tuple[str, Any, list[Any], str]]


def read(made: Made) -> None:
    """Read everything, one by one and in batches, and compare."""
    for name, source, elements, fingerprint in made:
        assert source.fingerprint == fingerprint, name
        assert [freeze(source[k]) for k in range(len(source))] == elements, name
        assert [freeze(element) for element in source[range(len(source))][::-1]] == elements[::-1], name


def read_until(stop: threading.Event, made: Made) -> None:
    while not stop.is_set():
        read(made)


def run_child(method: str, made: Made) -> None:
    child = multiprocessing.get_context(method).Process(target=read, args=(made,))  # type: ignore[attr-defined]
    child.start()
    child.join(60)
    if child.exitcode != 0:
        child.kill()
        sys.exit(f"the child begun by {method} ended with {child.exitcode}")


def main() -> None:
    fresh = sys.stdin.buffer.read()
    made = pickle.loads(fresh)
    # Children get the sources before anything of them was read here, and after.
    for method in ("spawn", "forkserver", "fork"):
        run_child(method, made)
    read(made)
    run_child("fork", made)
    # Forks from the midst of another thread's first and later reads: nothing may be locked for ever in the child.
    for _ in range(4):
        made, stop = pickle.loads(fresh), threading.Event()
        reader = threading.Thread(target=read_until, args=(stop, made))
        reader.start()
        try:
            for _ in range(3):
                run_child("fork", made)
        finally:
            stop.set()
            reader.join()
    print("read everywhere")


if __name__ == "__main__":
    main()
