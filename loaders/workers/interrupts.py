"""Ctrl-C while something is being set up: kept until that is done, so that nothing half made is left behind."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["postponed"]


@contextmanager
def postponed() -> Iterator[None]:
    """Let SIGINT take effect at the end of the block only, which should be short.

    The signal is not blocked, since another thread may be the one to receive it: its handler is replaced, which Python only
    ever calls in the main thread. In other threads there is nothing to do, and where a handler is not Python's nothing to be
    done.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    caught: list[FrameType | None] = []
    signal.signal(signal.SIGINT, lambda _, frame: caught.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if caught:
            handler(signal.SIGINT, caught[0])
