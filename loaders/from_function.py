"""A source without data: a function of the step, called where a batch is made."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from numpy.random import Generator

from ..datasource.source import BaseSource
from ..samplers import RecordRandom

if TYPE_CHECKING:
    import jax
    import torch

    from .output import Output
    from .workers import StartMethod, WorkerType

__all__ = ["ENDLESS", "FunctionOptions", "FunctionSource", "take_only"]

#: Steps of a source that has no end: a nanosecond each, it lasts for 146 years.
ENDLESS: Final = 1 << 62


class FunctionOptions(TypedDict, total=False):
    """The options of ``DataLoader`` that ``DataLoader.from_callable`` takes as well."""

    num_workers: int | Literal["auto"]
    worker_type: WorkerType
    prefetch_factor: int
    persistent_workers: bool
    in_order: bool
    multiprocessing_context: StartMethod | None
    worker_init_fn: Callable[[int], None] | None
    timeout: float
    output: Output
    pin_memory: bool
    device: torch.device | str | int | None
    sharding: jax.sharding.Sharding | None
    prefetch_to_device: int
    warn_waiting: float | None
    progress: bool


class FunctionSource(BaseSource[Any]):
    """Element ``step`` is ``function(step, rng)``; ``rng`` depends on seed and step alone. Picklable if the function is.

    Args:
      function: Called anew at every read.
      steps: How many elements there are, ``>= 1``.
      seed: Any integer.
    """

    def __init__(self, function: Callable[[int, Generator], Any], steps: int, seed: int) -> None:
        if not callable(function):
            raise TypeError(f"from_callable takes a function of (step, rng), got {type(function).__name__}")
        self._function = function
        self._steps = steps
        self._random = RecordRandom(seed)

    def __len__(self) -> int:
        return self._steps

    def _read_one(self, index: int) -> Any:
        return self._function(index, self._random.generator(0, index))

    @property
    def fingerprint(self) -> str:
        """Name of the function, steps and seed; what the function does is not part of it."""
        kind = type(self._function)
        name = getattr(self._function, "__qualname__", f"{kind.__module__}.{kind.__qualname__}")
        return blake2b(repr((name, self._steps, self._random.seed)).encode(), digest_size=8).hexdigest()

    def __repr__(self) -> str:
        steps = "endless" if self._steps == ENDLESS else f"{self._steps} steps"
        return f"FunctionSource({self._function!r}, {steps}, seed={self._random.seed})"


def take_only(examples: list[Any]) -> Any:
    """Return the one example there is: a batch that is one already."""
    (example,) = examples
    return example
