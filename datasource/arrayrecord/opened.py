"""The shards of a source that are open in this process."""

from __future__ import annotations

import sys
from collections import deque

from .cache import GroupCache
from .indexed import IndexedRecords
from .places import Places
from .reader import ShardReader

__all__ = ["OpenShards"]

#: Files that stay open at a time with io="pread", at most: each costs a descriptor, and its index 16 to 24 bytes a record.
_MAX_OPEN = 256


class OpenShards:
    """Open files, decoded chunks, and where in memory records are.

    One object, which ``close()`` of the source drops as a whole: a thread that is reading at that moment holds it, with all
    that it maps, until its read is done, and whatever that thread still opens or learns is never seen by another read.

    It takes no lock: one could be held by another thread at the moment of a fork, and would then be held in the child for ever.
    """

    def __init__(self) -> None:
        self.places = Places(0)
        self.cache = GroupCache()
        self.indexed: IndexedRecords | None = None
        self._readers: dict[int, ShardReader] = {}
        self._order: deque[int] = deque()
        #: Index of a shard -> its reader, or None.
        self.get = self._readers.get

    def keep(self, number: int, reader: ShardReader) -> ShardReader:
        """Keep a reader, and return it; or the one that another thread was first with.

        Mapped files stay until the end, because ``places`` holds addresses in them. Others are dropped again, the oldest first;
        a reader that a thread is using lives until that thread lets go of it.
        """
        kept = self._readers.setdefault(number, reader)
        if kept is reader and reader.file.mapping is None:
            self._order.append(number)
            limit = _most_open()
            while len(self._order) > limit:
                self._readers.pop(self._order.popleft(), None)
        return kept


def _most_open() -> int:
    """Return how many descriptors one source may hold: a quarter of what the process is allowed, so that others find some."""
    if sys.platform == "win32":
        return _MAX_OPEN
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MAX_OPEN if soft == resource.RLIM_INFINITY else max(1, min(_MAX_OPEN, soft // 4))
