"""A few decoded chunks, so that reading one record after the other does not decompress a chunk once per record."""

from __future__ import annotations

from .chunk import Group

__all__ = ["GroupCache"]

_SLOTS = 8
_SLOT_BYTES = 8 << 20


class GroupCache:
    """Keeps at most eight chunks of up to 8 MiB, and one larger chunk: the last.

    It takes no lock, so that a fork in the middle of a read leaves nothing locked in the child: a slot is replaced by one
    assignment, and a reader that comes too late decodes again.
    """

    def __init__(self) -> None:
        self._slots: list[tuple[str, int, Group] | None] = [None] * (_SLOTS + 1)

    def get(self, path: str, chunk: int) -> Group | None:
        """Return the records of a chunk, or None."""
        for slot in (chunk % _SLOTS, _SLOTS):
            entry = self._slots[slot]
            if entry is not None and entry[1] == chunk and entry[0] == path:
                return entry[2]
        return None

    def put(self, path: str, chunk: int, group: Group) -> None:
        """Keep the records of a chunk for a while."""
        held = len(group.values) + group.ends.nbytes
        self._slots[chunk % _SLOTS if held <= _SLOT_BYTES else _SLOTS] = (path, chunk, group)
