"""The first batch of a pass, made by all workers at once: each makes a part, so that it is there so many times sooner.

Only the first: later ones are under way while it is used, and each by one worker takes less work altogether.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ...datasource.columns import StructureError
from ...datasource.structure import merge, walk
from ..plan import Run
from ..runs import Made
from ..telling.times import Times
from .threads import ThreadPass

if TYPE_CHECKING:
    from .passes import WorkerPass

__all__ = ["PartedPass", "divide_first", "join"]


class PartedPass(Iterator[Made]):
    """The runs of a pass, the first of them put together from parts.

    Where a part fails, or parts do not make the whole that one worker would have made, one worker makes it: so batch and error
    are the same as ever.

    Args:
      runs: Makes what ``divide_first`` gave.
      first, parts: The run that comes in parts, and how many these are.
      make: Makes a run by itself, out of its turn.
    """

    def __init__(self, runs: ThreadPass[Made] | WorkerPass, first: Run, parts: int, make: Callable[[Run], Made]) -> None:
        self._runs = runs
        self._first: Run | None = first
        self._parts = parts
        self._make = make

    @property
    def stale(self) -> bool:
        """Whether it cannot go on; see the pass that makes the parts."""
        return self._runs.stale

    @property
    def ready(self) -> int:
        """How many runs wait to be asked for."""
        return self._runs.ready if self._first is None else 0

    def __next__(self) -> Made:
        first, self._first = self._first, None
        if first is None or self._parts == 1:
            return next(self._runs)
        made = [next(self._runs) for _ in range(self._parts)]
        whole = None if any(part.error for part in made) else join([part.batches[0] for part in made])
        return self._make(first) if whole is None else Made(first, [whole], None, Times.joined([part.times for part in made]))

    def close(self) -> None:
        """End it. May be called twice."""
        self._runs.close()


def divide_first(runs: Iterator[Run], parts: int) -> tuple[Run, int, Iterator[Run]]:
    """Return the first run, which is a single batch, how many parts it comes in, and these parts with all further runs.

    There are at most ``parts`` of them, none empty, the larger ones first.
    """
    first = next(runs)
    start, stop = first.bounds
    size, more = divmod(stop - start, parts)
    bounds = [start + part * size + min(part, more) for part in range(parts + 1)]
    pieces = [Run(first.epoch, piece) for piece in pairwise(bounds) if piece[0] < piece[1]]
    return first, len(pieces), chain(pieces if len(pieces) > 1 else [first], runs)


def join(parts: list[Any]) -> Any:
    """Return the batch that some batches are parts of; None where that might not be what their examples stack to."""
    leaves = [walk(part) for part in parts]
    kinds = [[(path, leaf.dtype, leaf.shape[1:]) for path, leaf in each if _is_column(leaf)] for each in leaves]
    if not kinds[0] or any(kind != kinds[0] for kind in kinds) or len(kinds[0]) != len(leaves[0]):
        return None
    ends = np.cumsum([0, *(len(each[0][1]) for each in leaves)])
    places = [np.arange(start, stop) for start, stop in pairwise(ends.tolist())]
    if any(len(leaf) != len(where) for each, where in zip(leaves, places, strict=True) for _, leaf in each):
        return None
    try:
        return merge(int(ends[-1]), list(zip(places, parts, strict=True)))
    except StructureError:
        return None


def _is_column(leaf: object) -> bool:
    return isinstance(leaf, np.ndarray) and leaf.ndim > 0 and leaf.dtype.isnative and leaf.dtype.names is None
