"""What every worker needs, pickled once: source, functions, order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..fetch import Fetcher
from ..state.order import Order
from ..worker_info import WorkerInfo
from .arena import Arena
from .packing import Packed, Unpacked, dump, unpack

__all__ = ["Payload", "check_picklable"]


@dataclass(frozen=True, slots=True)
class Payload:
    """Everything a worker works with. It lies at the start of the arena, and its arrays are views of that.

    So a source that holds its data in arrays takes its memory once, however many workers there are: pages are shared until
    somebody writes to them, and to a worker they look like its own.
    """

    fetcher: Fetcher
    order: Order
    worker_init_fn: Callable[[int], None] | None
    num_workers: int = 1
    seed: int = 0

    def describe(self, worker: int) -> WorkerInfo:
        """Return what code that runs in a worker may know about it."""
        return WorkerInfo.of(worker, self.num_workers, self.seed, self.fetcher.parts()["source"])

    def store(self, arena: Arena, start: int) -> tuple[Packed, bool]:
        """Write it to the arena from ``start`` on, a multiple of the page size; say whether it refers to ``__main__``.

        Raises:
          TypeError: Something cannot be pickled; names it.
          MemoryError: It takes more than half of the arena.
        """
        try:
            unpacked = Unpacked(self, by_value=True)
        except TypeError:
            check_picklable({**self.fetcher.parts(), "sampler": self.order.sampler, "worker_init_fn": self.worker_init_fn})
            raise
        used = unpacked.packed.used
        if start + used > arena.capacity // 2:
            raise MemoryError(f"the source takes {used} bytes, more than half of the {arena.capacity} there are to share")
        arena.reserve(start, used)
        unpacked.write(arena.memory[start : start + used])
        return unpacked.packed, unpacked.refers_to_main

    @staticmethod
    def load(arena: Arena, start: int, packed: Packed) -> Payload:
        """Return the payload that ``store`` wrote, in a process of its own."""
        payload: Payload = unpack(packed, arena.copy_on_write(start, packed.used))
        return payload


def check_picklable(parts: dict[str, object]) -> None:
    """Raise for the first part that cannot be pickled.

    Raises:
      TypeError: Names the part, and says why.
    """
    for name, part in parts.items():
        try:
            dump(part, by_value=True)
        except TypeError as error:
            raise TypeError(
                f"{name} ({part!r}) cannot be sent to worker processes: {error.__cause__}. Install cloudpickle, define it at "
                'the top level of a module, or use worker_type="thread"'
            ) from error
