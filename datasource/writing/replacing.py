"""A directory takes the place of another: at any moment the name leads to the old one or to the new one.

    data/                         the old one, until both change names in one step (Linux, macOS)
    data.incomplete-1a2b3c4d/     the new one; then the old one, which is deleted

File systems that cannot exchange two names take two renames, the old one going aside first::

    data.replaced-1a2b3c4d/       the old one

Killed between the two, nobody stands at the name; ``Replaced`` puts the old one back.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys

from ..errors import DataError, DatasetExistsError, DatasetNotFoundError
from .publish import ASIDE, INCOMPLETE, find_aside, lock, sync

__all__ = ["Replaced"]

# What says that this kernel or file system cannot exchange names: renameat2(2), renamex_np(2).
_CANNOT = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}
_AT_FDCWD = -100
_RENAME_EXCHANGE = _RENAME_SWAP = 2


class Replaced:
    """A directory that is to be replaced, by nobody else meanwhile. Not safe from threads.

    Args:
      target: Its real path. If an interrupted replacement left it aside, it is put back first.

    Raises:
      DatasetNotFoundError: There is no such directory.
      DataError: Somebody else is about to replace it.
    """

    def __init__(self, target: str) -> None:
        self.target = target
        aside = find_aside(target)
        if aside and not os.path.lexists(target):
            os.rename(aside[0], target)
            sync(os.path.dirname(target))
        if not os.path.isdir(target):
            raise DatasetNotFoundError("there is no data set to append to; leave out mode='append' to write one", target)
        try:
            self._lock = lock(target, wait=False)
        except BlockingIOError:
            raise DataError(
                "another writer appends to it; wait for it to end, or let both write parts of one writer", target
            ) from None
        # Of what was locked: that may have been replaced between its opening and its locking.
        self._identity = _identify(target if self._lock is None else self._lock)

    def replace_with(self, directory: str) -> None:
        """Give ``directory`` the name, and delete what had it.

        Raises:
          DatasetExistsError: What has the name now is not what had it when this was made; ``directory`` stays as it is.
        """
        if not os.path.isdir(self.target) or _identify(self.target) != self._identity:
            raise DatasetExistsError(
                f"it was replaced or removed meanwhile; what was appended to the one before is in {directory}", self.target
            )
        if _exchange(directory, self.target):
            old = directory
        else:
            old = self.target + ASIDE + directory.rpartition(INCOMPLETE)[2]
            os.rename(self.target, old)
            os.rename(directory, self.target)
        sync(os.path.dirname(self.target))
        shutil.rmtree(old, ignore_errors=True)

    def release(self) -> None:
        """Let others replace it."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _identify(path: str | int) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _exchange(first: str, second: str) -> bool:
    """Let two directories change names in one step; False where that cannot be done, and nothing happened."""
    names = os.fsencode(first), os.fsencode(second)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "darwin":
            failed = libc.renamex_np(*names, ctypes.c_uint(_RENAME_SWAP))
        else:
            failed = libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], ctypes.c_uint(_RENAME_EXCHANGE))
    except (AttributeError, OSError, TypeError):  # a C library without it; on Windows none of that name
        return False
    if not failed:
        return True
    code = ctypes.get_errno()
    if code in _CANNOT:
        return False
    raise OSError(code, os.strerror(code), second)
