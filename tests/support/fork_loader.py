"""Forks in the middle of an epoch and compares what parent and child deliver; prints "same" for every loader that agrees."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import arrayfeed
from arrayfeed.loaders.workers.prefetch import Prefetcher

__all__ = ["main"]

# Python 3.12 and later warn of every fork of a process with threads. That nothing is lost then is what is tried here.
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)


def main(path: Path, prefetch_factor: int) -> None:
    """Fork with an iterator over a list, over a data set, and with a bare prefetcher."""
    small = arrayfeed.open(path, split="train")
    for source, key in ((list(small), "hash"), (small, "label")):
        iterator = iter(arrayfeed.DataLoader(source, batch_size=4, shuffle=True, prefetch_factor=prefetch_factor))
        for _ in range(9):
            next(iterator)
        compare(partial(rest, iterator, key))
    prefetcher = Prefetcher(iter(range(10)), int, ahead=2)
    assert next(prefetcher) == 0
    compare(lambda: np.array([refuse(prefetcher)]), lambda: np.array([sum(prefetcher)]))


def rest(iterator: Iterator[Any], key: str) -> npt.NDArray[Any]:
    """Return a column of all batches that are left."""
    return np.concatenate([batch[key] for batch in iterator])


def refuse(prefetcher: Iterator[int]) -> int:
    """Return 45 if the prefetcher says that it is no longer of use, and can be closed."""
    try:
        return next(prefetcher)
    except RuntimeError as error:
        return 45 if "fork" in str(error) else 0
    finally:
        prefetcher.close()  # type: ignore[attr-defined]


def compare(in_child: Callable[[], npt.NDArray[Any]], in_parent: Callable[[], npt.NDArray[Any]] | None = None) -> None:
    """Print whether child and parent get the same; the child must have no thread left."""
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(sender, in_child().tobytes())
        finally:
            os._exit(threading.active_count() - 1)
    os.close(sender)
    with os.fdopen(receiver, "rb") as pipe:
        found = pipe.read()
    status = os.waitpid(child, 0)[1]
    print("same" if status == 0 and found and found == (in_parent or in_child)().tobytes() else "other", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
