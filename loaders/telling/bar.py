"""A progress bar around a pass. Needs tqdm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["with_bar"]


def with_bar(batches: Iterator[Any], *, total: int | None, initial: int) -> Iterator[Any]:
    """Return an iterator over ``batches`` that draws a bar while it goes on, in a terminal or a notebook.

    Args:
      total: Batches in the pass; None for one without an end.
      initial: Batches of it that were delivered before.
    """
    from tqdm.auto import tqdm

    bar: Iterator[Any] = iter(tqdm(batches, total=total, initial=initial, unit=" batches"))
    return bar
