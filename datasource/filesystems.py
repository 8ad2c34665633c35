"""Which file systems it is safe to map files of."""

from __future__ import annotations

import os
import re
from typing import Literal

__all__ = ["choose_io", "filesystem_of"]

#: Other machines write to these: a file can be cut or replaced while it is mapped, and touching what is gone ends the process.
_REMOTE = re.compile(r"nfs\d?|cifs|smb\w*|9p|afs|ceph|lustre|gpfs|beegfs\w*|glusterfs|fuse(\.\w+)?|virtiofs|wekafs")
_MOUNTS = "/proc/self/mountinfo"


def choose_io(path: str | os.PathLike[str]) -> Literal["mmap", "pread"]:
    """Return ``"mmap"`` for local files, ``"pread"`` for those on network file systems, as far as the system tells (Linux)."""
    return "pread" if _REMOTE.fullmatch(filesystem_of(path)) else "mmap"


def filesystem_of(path: str | os.PathLike[str], *, mounts: str = _MOUNTS) -> str:
    """Return the type of the file system that holds ``path``, as ``"ext4"``; empty where that cannot be told.

    Args:
      mounts: A table of mounts; its form is in Linux's ``Documentation/filesystems/proc.rst``, section 3.5.
    """
    try:
        with open(mounts, encoding="utf-8", errors="surrogateescape") as table:
            lines = table.read().splitlines()
    except OSError:
        return ""
    place = os.path.realpath(path)
    best, found = "", ""
    for line in lines:
        fields, _, kind = line.partition(" - ")
        try:
            # Blanks in names are written as octal numbers.
            mount = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields.split()[4])
        except IndexError:
            continue
        inside = mount == "/" or place == mount or place.startswith(mount + "/")
        # The last of two mounts at one place hides the first.
        if inside and len(mount) >= len(best):
            best, found = mount, kind.partition(" ")[0]
    return found
