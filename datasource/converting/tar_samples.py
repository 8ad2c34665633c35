"""The samples of a WebDataset tar: files with one name and several endings, one behind the other."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..errors import CorruptShardError, DataError, ShardNotFoundError

__all__ = ["Sample", "is_sound", "read_samples"]

_NAME = re.compile(r"(?P<key>(?:.*/)?[^/.]+)\.(?P<ending>[^/]+)", re.DOTALL)
_OPENERS: dict[bytes, Callable[[str, str], Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}
_PIECE_BYTES = 1 << 20
#: More than a record can hold; what a header claims may be a lie.
_MAX_MEMBER_BYTES = (1 << 31) - 1


@dataclass
class Sample:
    """One sample.

    Attributes:
      number: In its file, from 0 on.
      key: What its files share of their name.
      parts: The bytes of each file, by its ending in lower case.
      fault: What is wrong with it; empty if nothing is.
      size: Bytes of the tar that it takes, as they are stored.
    """

    number: int
    key: str
    parts: dict[str, bytes] = field(default_factory=dict)
    fault: str = ""
    size: int = 0


class _Damaged(Exception):
    pass


class _Member(tarfile.TarInfo):
    """A header; where it is damaged or missing, tarfile would end without a word."""

    @classmethod
    def fromtarfile(cls, tarfile_: tarfile.TarFile) -> _Member:
        try:
            return super().fromtarfile(tarfile_)
        except tarfile.HeaderError as error:
            if type(error).__name__ == "EOFHeaderError":  # two blocks of zeros: the end
                raise
            raise _Damaged(str(error)) from None


def read_samples(path: str) -> Iterator[Sample]:
    """Yield the samples of a tar, plain or compressed with gzip, bzip2 or xz.

    Directories, links, and files whose names begin with a dot or have none, are passed over. Memory holds one sample.

    Raises:
      ShardNotFoundError, DataError: It is not there, or cannot be opened.
      CorruptShardError: It is no tar, is damaged, or was cut short; what came before has been given.
    """
    sample: Sample | None = None
    number = told = 0
    try:
        with open(path, "rb") as raw, tarfile.open(fileobj=raw, mode="r:*", tarinfo=_Member) as tar:
            while (member := tar.next()) is not None:
                tar.members.clear()  # type: ignore[attr-defined]  # which would keep all of them
                match = _NAME.fullmatch(member.name)
                if not member.isfile() or match is None:
                    continue
                if sample is not None and sample.key != match["key"]:
                    sample.size, told = raw.tell() - told, raw.tell()
                    yield sample
                    number += 1
                    sample = None
                if sample is None:
                    sample = Sample(number, match["key"])
                ending = match["ending"].lower()
                if ending in sample.parts:
                    sample.fault = f"sample {sample.key!r} has two files that end with .{ending}"
                sample.parts[ending] = _read(tar, member)
            size = raw.tell() - told
    except FileNotFoundError:
        raise ShardNotFoundError("no such file", path) from None
    except (_Damaged, tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise DataError(f"cannot be read: {error.strerror or error}", path) from error
        raise CorruptShardError(
            f"{error}; this is no whole tar: it was cut short, is damaged or is something else", path, number
        ) from None
    if sample is not None:
        sample.size = size
        yield sample


def is_sound(path: str) -> bool:
    """Return whether a compressed tar can be inflated to its end; of a plain one this is not looked at.

    A damaged stream may give wrong bytes before it is known to be damaged, at its end.
    """
    with open(path, "rb") as raw:
        start = raw.read(6)
    opener = next((opener for magic, opener in _OPENERS.items() if start.startswith(magic)), None)
    if opener is None:
        return True
    try:
        with opener(path, "rb") as file:
            while file.read(_PIECE_BYTES):
                pass
    except (EOFError, zlib.error, lzma.LZMAError, OSError):
        return False
    return True


def _read(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    if member.size > _MAX_MEMBER_BYTES:
        raise _Damaged(f"{member.name!r} claims {member.size} bytes, and no record can have more than {_MAX_MEMBER_BYTES}")
    file = tar.extractfile(member)
    assert file is not None  # of a regular file there is one
    return file.read()
