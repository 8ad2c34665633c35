"""Sources and transforms for the tests of workers: in a module that worker processes can import."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from arrayfeed import DataLoader


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass
class Labelled:
    image: Any
    label: Any


def started_workers(loader: DataLoader, timeout_s: float = 60.0) -> list[int]:
    """Return the process numbers of a loader's workers when all are ready: one may be done before the last starts."""
    pool, deadline = loader._workers._open_pool(), time.monotonic() + timeout_s
    while len(pool.pids) < pool.num_workers:
        assert time.monotonic() < deadline, f"{len(pool.pids)} of {pool.num_workers} workers are ready after {timeout_s} s"
        time.sleep(0.005)
    pids: list[int] = pool.pids
    return pids


class EverySort:
    """Examples with every sort of leaf and nesting that a batch can have."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> dict[str, Any]:
        rng = np.random.default_rng(index)
        return {
            "image": rng.integers(0, 256, (5, 7, 3), dtype=np.uint8),
            "mixed": np.int32(index) if index % 2 else np.int64(index << 33),
            "number": index,
            "real": index / 7,
            "truth": index % 3 == 0,
            "text": f"é{index}" * (index % 5),
            "raw": bytes([index % 256]) * (index % 9),
            "none": None,
            "time": np.datetime64(index, "s"),
            "complex": np.complex64(index * 1j),
            "empty": np.zeros((0, 4), np.float16),
            "swapped": np.arange(3, dtype=">i4") + index,
            "turned": np.asfortranarray(rng.random((3, 4))),
            "pair": Pair(np.float32(index), {"deep": (np.arange(2) + index,)}),
            "labelled": Labelled(rng.random(3), index % 10),
        }


class Numbers:
    """Element ``k`` is ``{"x": [k, k, ...]}``, of ``width`` int64."""

    def __init__(self, length: int, width: int = 4) -> None:
        self.length = length
        self.width = width

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": np.full(self.width, index, np.int64)}


class InMemory(Numbers):
    """The same, out of one array."""

    def __init__(self, length: int, width: int = 4) -> None:
        super().__init__(length, width)
        self.data = np.repeat(np.arange(length), width).reshape(length, width)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": self.data[index]}


class FieldError(Exception):
    """An error whose constructor takes two arguments and passes on one: it cannot be unpickled."""

    def __init__(self, field: str, *, reason: str) -> None:
        super().__init__(f"{field}: {reason}")


@dataclass
class Once:
    """Does something to the first example with this number that any process sees; a file remembers."""

    index: int
    path: Path

    def __call__(self, example: dict[str, Any]) -> dict[str, Any]:
        if example["x"][0] == self.index and self.first():
            self.act()
        return example

    def first(self) -> bool:
        try:
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def act(self) -> None:
        raise NotImplementedError


class KillOnce(Once):
    def act(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class CrashOnce(Once):
    def act(self) -> None:
        import faulthandler

        faulthandler.disable()
        os.kill(os.getpid(), signal.SIGSEGV)


class ExitOnce(Once):
    def act(self) -> None:
        sys.exit(3)


@dataclass
class KillAlways:
    """Kills its process at one example, each time."""

    index: int

    def __call__(self, example: dict[str, Any]) -> dict[str, Any]:
        if example["x"][0] == self.index:
            os.kill(os.getpid(), signal.SIGKILL)
        return example


@dataclass
class Fail:
    """Raises at one example."""

    index: int
    kind: str = "value"

    def __call__(self, example: dict[str, Any]) -> dict[str, Any]:
        if example["x"][0] == self.index:
            if self.kind == "field":
                raise FieldError("x", reason="wrong")
            raise ValueError(f"no {self.index} here")
        return example


@dataclass
class Sleep:
    """Takes some time, more at one example."""

    seconds: float = 0.0
    index: int = -1
    longer: float = 0.0

    def __call__(self, example: dict[str, Any]) -> dict[str, Any]:
        time.sleep(self.longer if example["x"][0] == self.index else self.seconds)
        return example


def add_process(example: dict[str, Any]) -> dict[str, Any]:
    """Add which process made it."""
    return example | {"process": os.getpid()}


def add_environment(example: dict[str, Any]) -> dict[str, Any]:
    """Add what a worker process is like."""
    heavy = [name for name in ("torch", "jax", "tensorflow") if name in sys.modules]
    return example | {"heavy": heavy and str(heavy), "threads": os.environ.get("OMP_NUM_THREADS"), "started": _started}


_started = -1


def note_start(worker: int) -> None:
    global _started
    _started = worker


def fail_to_start(worker: int) -> None:
    raise OSError(f"worker {worker} has no licence")


def die_at_start(worker: int) -> None:
    os._exit(9)


class OnlyHere:
    """Pickles, and cannot be unpickled in another process."""

    def __init__(self) -> None:
        self.pid = os.getpid()

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state["pid"] != os.getpid():
            raise RuntimeError("made for another process")

    def __call__(self, example: Any) -> Any:
        return example


class Ready:
    """Every element is a batch, ready made: a source that does next to nothing. Small ones are copies, as pickling would
    otherwise find many to be one; large ones are one and the same."""

    def __init__(self, length: int, shape: tuple[int, ...]) -> None:
        self.length = length
        self.batch = {"image": np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)}

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> dict[str, Any]:
        image = self.batch["image"]
        return {"image": image.copy() if image.nbytes < 1 << 20 else image}


def first(examples: list[Any]) -> Any:
    return examples[0]


@dataclass
class Note:
    """Appends a byte to a file for every example that any process makes."""

    path: Path

    def __call__(self, example: Any) -> Any:
        with open(self.path, "ab", buffering=0) as file:
            file.write(b".")
        return example


class SlowToRebuild(Numbers):
    """Takes a while to unpickle, and leaves a file each time that it is pickled or rebuilt: when that began and ended."""

    def __init__(self, length: int, folder: Path) -> None:
        super().__init__(length)
        self.folder = folder

    def __getstate__(self) -> dict[str, Any]:
        (self.folder / f"pickled-{time.monotonic_ns()}").touch()
        return vars(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        begin = time.monotonic()
        time.sleep(1.5)
        vars(self).update(state)
        (self.folder / f"rebuilt-{os.getpid()}").write_text(f"{begin} {time.monotonic()}")


@dataclass
class Stall:
    """Does not go on with one example until a file is there."""

    index: int
    release: Path

    def __call__(self, example: dict[str, Any]) -> dict[str, Any]:
        while example["x"][0] == self.index and not self.release.exists():
            time.sleep(0.01)
        return example
