"""A progress bar, where one is wanted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .tasks import Tick

__all__ = ["show_progress"]


@contextmanager
def show_progress(shown: bool, *, total: int | None, unit: str, what: str) -> Iterator[Tick]:
    """Give a function that is told how much more is done, and show it on standard error.

    Args:
      unit: Of ``total``; "B" for bytes, which are shown as kB, MB and so on.

    Raises:
      ImportError: It is to be shown, and tqdm is not installed.
    """
    if not shown:
        yield lambda count: None
        return
    try:
        from tqdm import tqdm
    except ImportError as error:
        raise ImportError("a progress bar needs tqdm, which is not installed: pip install tqdm, or progress=False") from error
    spaced = unit if unit == "B" else f" {unit}"
    with tqdm(total=total, unit=spaced, unit_scale=unit == "B", desc=what) as bar:
        yield bar.update
