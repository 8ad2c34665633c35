"""A directory that appears whole or not at all.

    <path>.incomplete-1a2b3c4d/     everything is written here, beside its final place, so on the same file system
    <path>/                         the same directory, after one rename

A rename is atomic, and comes last, after every file and the directory itself are on the disk. A writer that is killed
leaves the first, never a half-filled second. While it lives, it holds a lock on its directory; so leftovers can be told
from the work of others. To take the place of a directory that exists, see ``replacing``.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import DatasetExistsError

if TYPE_CHECKING:
    from .replacing import Replaced

__all__ = [
    "ASIDE",
    "INCOMPLETE",
    "Leftover",
    "Staging",
    "find_aside",
    "find_leftovers",
    "is_blank",
    "lock",
    "remove_leftovers",
    "sync",
]

#: Stand between a data set's name and eight hexadecimal digits: what is being written, what is being replaced.
INCOMPLETE = ".incomplete-"
ASIDE = ".replaced-"


class Staging:
    """A directory being filled, and its way to the final name. Not safe from threads; inert in forked children.

    Args:
      path: The final name. Its parent is made if need be.
      adopt: Is asked whether to go on with what a dead writer left, a directory, instead of making a new one.
      replaced: What stands at ``path`` and is to be replaced; None if nothing may stand there.

    Raises:
      DatasetExistsError: Something stands at ``path`` (an empty directory does not count).
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        adopt: Callable[[str], bool] = lambda directory: False,
        replaced: Replaced | None = None,
    ) -> None:
        # Symbolic links are followed, for a rename would replace the link.
        self.target = os.path.realpath(path)
        self._replaced = replaced
        if replaced is None:
            _refuse_existing(self.target)
        # A forked child inherits this object; when it ends, it must not take the parent's work with it.
        self._owner = os.getpid()
        for leftover in find_leftovers(self.target):
            if not leftover.alive and adopt(leftover.directory):
                self.directory = leftover.directory
                self._lock = _try_lock(self.directory)
                if self._lock is not None:  # else another was quicker
                    return
        os.makedirs(os.path.dirname(self.target), exist_ok=True)
        self.directory = f"{self.target}{INCOMPLETE}{secrets.token_hex(4)}"
        os.mkdir(self.directory)
        self._lock = lock(self.directory, wait=True)

    def publish(self, *, without: str = "") -> None:
        """Give the directory its final name.

        Args:
          without: A file in it that is removed just before.

        Raises:
          DatasetExistsError: Something else has the name by now; the directory stays where it is, and complete.
        """
        for name in os.listdir(self.directory):
            sync(os.path.join(self.directory, name))
        sync(self.directory)
        if without:
            os.remove(os.path.join(self.directory, without))
        try:
            if self._replaced is not None:
                self._replaced.replace_with(self.directory)
                return
            # Replaces an empty directory, never one with something in it: of two writers at once, one wins.
            os.rename(self.directory, self.target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            raise DatasetExistsError(
                f"something took this name meanwhile; the finished data set is {self.directory}, rename it yourself",
                self.target,
            ) from None
        finally:
            self._release()
        sync(os.path.dirname(self.target))

    def leave(self) -> None:
        """Leave the directory as it is, for another to go on with."""
        if os.getpid() == self._owner:
            self._release()

    def discard(self) -> None:
        """Remove the directory and all that is in it."""
        if os.getpid() == self._owner:
            shutil.rmtree(self.directory, ignore_errors=True)
            self._release()

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        if self._replaced is not None:
            self._replaced.release()


@dataclass(frozen=True, slots=True)
class Leftover:
    """A directory that was to become a data set.

    Attributes:
      directory: Where it is.
      alive: Whether a process on this machine is still writing it, or that cannot be known.
    """

    directory: str
    alive: bool


def find_leftovers(path: str | os.PathLike[str]) -> list[Leftover]:
    """Return the directories that were to become ``path``, and those that it has replaced, sorted by name."""
    target = os.path.realpath(path)
    # What went aside is not left over until another has its place.
    directories = _siblings(target, INCOMPLETE) + (find_aside(target) if os.path.lexists(target) else [])
    found = []
    for directory in sorted(directories):
        handle = _try_lock(directory)
        if handle is not None:
            os.close(handle)
        found.append(Leftover(directory, alive=handle is None))
    return found


def find_aside(path: str | os.PathLike[str]) -> list[str]:
    """Return the directories that went aside for another to become ``path``, sorted by name."""
    return _siblings(os.path.realpath(path), ASIDE)


def _siblings(target: str, mark: str) -> list[str]:
    parent, name = os.path.split(target)
    form = re.compile(re.escape(name + mark) + "[0-9a-f]{8}")
    try:
        return sorted(entry.path for entry in os.scandir(parent) if form.fullmatch(entry.name) and entry.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def remove_leftovers(path: str | os.PathLike[str]) -> list[str]:
    """Delete what interrupted writers of ``path`` left behind, and return the deleted directories.

    What another process is still writing stays. Locks are seen on this machine only: on a network file system, be sure
    that no other machine is writing.
    """
    removed = []
    for leftover in find_leftovers(path):
        if not leftover.alive:
            shutil.rmtree(leftover.directory)
            removed.append(leftover.directory)
    return removed


def is_blank(directory: str) -> bool:
    """Return whether a writer left a directory before it wrote anything into it: no file there has content."""
    return not any(os.path.getsize(os.path.join(home, name)) for home, _, names in os.walk(directory) for name in names)


def sync(path: str) -> None:
    """Wait until a file, or the names in a directory, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _refuse_existing(target: str) -> None:
    try:
        with os.scandir(target) as entries:
            occupied = next(entries, None) is not None
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise DatasetExistsError("a file stands where the data set is to be written; choose another path", target) from None
    if occupied:
        raise DatasetExistsError(
            "this directory holds data already, which is never overwritten; write to another path, add to it with "
            'mode="append", or delete it first',
            target,
        )


def lock(directory: str, *, wait: bool) -> int | None:
    """Return a handle that holds the only lock on a directory; None where there are no locks.

    Raises:
      BlockingIOError: Another has it, and ``wait`` is false.
    """
    try:
        import fcntl

        handle = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    except (ImportError, OSError):
        return None
    try:
        # Who asks whether a lock is held holds it for a moment; the writer waits for that moment to pass.
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if isinstance(error, BlockingIOError):
            raise
        return None
    return handle


def _try_lock(directory: str) -> int | None:
    """Return a handle that holds the only lock on a directory; None if another has it, or there are no locks."""
    try:
        return lock(directory, wait=False)
    except BlockingIOError:
        return None
