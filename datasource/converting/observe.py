"""A first look at all pieces of an input, by all processors, before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from ..progress import show_progress
from ..tasks import Tick, run_tasks
from .conversion import Piece
from .run import choose_workers

__all__ = ["observe"]

T = TypeVar("T")


def observe(
    look: Callable[[Piece, Tick], T], pieces: Sequence[Piece], unit: str, *, num_workers: int | None, progress: bool
) -> list[T]:
    """Return what ``look`` gives of every piece, in their order.

    Args:
      look: Pickles, as what it returns does.
    """
    total = sum(piece.size for piece in pieces)
    if num_workers is None:
        num_workers = choose_workers(total, unit)
    with show_progress(progress, total=total, unit=unit, what="looking") as tick:
        return run_tasks(partial(_look, look), pieces, num_workers=num_workers, tick=tick, describe=str, attempts=2)


def _look(look: Callable[[Piece, Tick], Any], piece: Piece, tick: Tick) -> Any:
    return look(piece, tick)
