"""Where things are kept that can be made again."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_directory"]


def cache_directory(kind: str) -> Path:
    """Return the folder of the user's cache for one ``kind`` of thing; made by whoever writes there.

    ``$XDG_CACHE_HOME/arrayfeed/<kind>``, or ``~/.cache/arrayfeed/<kind>``.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "arrayfeed", kind)
