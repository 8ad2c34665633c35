"""Bounds: the same work with no loader around it, in two processes. What comes of it is dropped, where it was made.

(b), (c): the bytes of images in memory, decoded (and cropped and flipped) one by one. (d): documents in memory, laid end to end
in a shuffled order, in one process. (f): reads of whole records by 32 threads, as ``fio`` does with a queue depth of 32.
"""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from . import records

NAME = "bare work"
CONFIGS: dict[str, dict[str, Any]] = {"default": {}}
WORKLOADS = set("bcdf")
SKIPPED = {key: "NumPy in memory is the bound" for key in "ae"}
DEPTH = 32
UNCHECKED = "bc"  # what is decoded is dropped


def version() -> str:
    return np.__version__


def prepare(workload: str, data: Path, into: Path) -> None:
    if workload in "bc":
        encoded = [
            next(value for value in each.values() if isinstance(value, bytes)) for each in records.examples(workload, data)
        ]
        np.save(into / "bytes.npy", np.frombuffer(b"".join(encoded), np.uint8))
        np.save(into / "offsets.npy", np.cumsum([0, *map(len, encoded)]))


class Decoding:
    """Two forked processes, each of which decodes half of every epoch; a batch here only says how many there were."""

    def __init__(self, workload: str, data: Path, prepared: Path, workers: int) -> None:
        self._labels = np.load(data / "label.npy")
        offsets, content = np.load(prepared / "offsets.npy"), np.load(prepared / "bytes.npy").tobytes()
        images = [content[start:stop] for start, stop in pairwise(offsets)]
        decode: Callable[[bytes], Any] = records.decode_png if workload == "b" else records.decode_jpeg
        context = multiprocessing.get_context("fork")
        self._pipes = []
        for worker in range(workers):
            ours, theirs = context.Pipe()
            self._pipes.append(ours)
            context.Process(target=self._work, args=(decode, images[worker::workers], theirs), daemon=True).start()

    @staticmethod
    def _work(decode: Callable[[bytes], Any], images: list[bytes], pipe: Any) -> None:
        import cv2

        cv2.setNumThreads(1)
        while pipe.recv():
            for image in images:
                decode(image)
            pipe.send(True)

    def epoch(self, number: int) -> Iterator[dict[str, Any]]:
        for pipe in self._pipes:
            pipe.send(True)
        for pipe in self._pipes:
            pipe.recv()
        yield {"label": self._labels}


class Windows:
    """Documents in memory, laid end to end in a shuffled order and cut into windows, the last one padded."""

    def __init__(self, data: Path, batch_size: int, seed: int) -> None:
        self._window = json.loads((data / "meta.json").read_text())["window"]
        tokens, offsets = np.load(data / "tokens.npy"), np.load(data / "offsets.npy")
        self._documents = [tokens[start:stop] for start, stop in pairwise(offsets)]
        self._batch_size = batch_size
        self._rng = np.random.default_rng(seed)

    def epoch(self, number: int) -> Iterator[dict[str, Any]]:
        order = self._rng.permutation(len(self._documents))
        size = self._batch_size * self._window
        left: list[Any] = []
        length = 0
        for index in order:
            left.append(self._documents[index])
            length += len(left[-1])
            if length >= size:
                chained = np.concatenate(left)
                for start in range(0, length - size + 1, size):
                    yield {"tokens": chained[start : start + size].reshape(-1, self._window)}
                length %= size
                left = [chained[len(chained) - length :]]
        rows = np.zeros((-(-length // self._window), self._window), np.int32)
        rows.reshape(-1)[:length] = np.concatenate(left)
        if length:
            yield {"tokens": rows}


class Reads:
    """Whole records read at random from one file, straight into the batch, so many at once as a queue is deep."""

    def __init__(self, data: Path, batch_size: int, seed: int) -> None:
        path = data / "blob.npy"
        array = np.load(path, mmap_mode="r")
        self._start, self._shape = array.offset, array.shape
        self._labels = np.load(data / "label.npy")
        self._file = os.open(path, os.O_RDONLY)
        self._batch_size = batch_size
        self._pool = ThreadPoolExecutor(DEPTH)
        self._rng = np.random.default_rng(seed)

    def _read(self, job: tuple[int, memoryview]) -> None:
        index, into = job
        os.preadv(self._file, [into], self._start + int(index) * self._shape[1])

    def epoch(self, number: int) -> Iterator[dict[str, Any]]:
        order = self._rng.permutation(self._shape[0])
        for start in range(0, len(order), 4 * DEPTH):
            chosen = order[start : start + 4 * DEPTH]
            blob = np.empty((len(chosen), self._shape[1]), np.uint8)
            list(self._pool.map(self._read, zip(chosen, map(memoryview, blob), strict=True)))
            for row in range(0, len(chosen), self._batch_size):
                rows = slice(row, row + self._batch_size)
                yield {"blob": blob[rows], "label": self._labels[chosen[rows]]}

    def close(self) -> None:
        self._pool.shutdown()
        os.close(self._file)


def open(workload: str, data: Path, prepared: Path, config: str, *, batch_size: int, workers: int, seed: int) -> Any:
    if workload in "bc":
        return Decoding(workload, data, prepared, workers)
    if workload == "d":
        return Windows(data, batch_size, seed)
    return Reads(data, batch_size, seed)
