"""Where the records of a TFRecord file are, found once: the offsets, and the small file that keeps them.

The kept file is a ``.npy`` of int64: magic, version, the TFRecord file's size and time of modification (ns), the CRC32C of the
offsets, and the offsets: of every record's start and of the last one's end. It is believed of a file of that size and time
only, and if its checksum matches; anything else is as if it were not there.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..arrayrecord.crc import load_crc32c
from ..arrayrecord.file import open_file
from ..cache_directory import cache_directory
from ..errors import CorruptShardError, DataError
from ..npy import open_npy
from .framing import FrameError, scan

__all__ = ["IndexPlace", "load_offsets"]

Ints = npt.NDArray[np.int64]

#: Where offsets are kept: in the user's cache, beside the file, or nowhere.
IndexPlace = Literal["cache", "beside", "memory"]

_MAGIC, _VERSION = 0x5844_4E49_4352_4654, 1  # "TFRCINDX"
_HEADER_WORDS = 6
#: Scanning a smaller file takes a millisecond, which is no reason to leave a file behind.
_WORTH_KEEPING_BYTES = 1 << 20


def load_offsets(path: str, place: IndexPlace) -> Ints:
    """Return where each record of a TFRecord file starts, and where the last one ends: int64, records + 1, for reading.

    Kept offsets are mapped, and taken from beside the file or from the user's cache, wherever they are.

    Raises:
      ShardNotFoundError, DataError: There is no such file, or it cannot be read, or is compressed.
      CorruptShardError: It is no TFRecord file, or was cut short.
    """
    try:
        status = os.stat(path)
    except OSError:
        return _scan_file(path)  # which says what is wrong
    identity = np.array([_MAGIC, _VERSION, status.st_size, status.st_mtime_ns], np.int64)
    kept = (Path(f"{path}.index.npy"), _path_in_cache(path))
    for candidate in kept if place != "memory" else ():
        offsets = _read_kept(candidate, identity)
        if offsets is not None:
            return offsets
    offsets = _scan_file(path)
    if place == "beside" and _keep(kept[0], identity, offsets):
        return offsets
    if place != "memory" and status.st_size >= _WORTH_KEEPING_BYTES:
        _keep(kept[1], identity, offsets)
    return offsets


def _path_in_cache(path: str) -> Path:
    return cache_directory("tfrecord") / f"{blake2b(os.path.realpath(path).encode(), digest_size=12).hexdigest()}.npy"


def _read_kept(path: Path, identity: Ints) -> Ints | None:
    """Return kept offsets, None if there are none that can be believed."""
    if not path.exists():
        return None
    try:
        words = open_npy(os.fspath(path))
    except DataError:
        return None
    if words.dtype != np.dtype("<i8") or words.ndim != 1 or words.size <= _HEADER_WORDS:
        return None
    offsets: Ints = words[_HEADER_WORDS:]
    if (words[:4] != identity).any() or words[4] != _checksum(offsets) or words[5] != offsets.size:
        return None
    return offsets


def _keep(path: Path, identity: Ints, offsets: Ints) -> bool:
    """Write offsets; return False where that cannot be done, which does no harm."""
    words = np.concatenate([identity, [_checksum(offsets), offsets.size], offsets]).astype("<i8")
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "xb") as file:
            np.save(file, words)
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        return False
    return True


def _checksum(offsets: Ints) -> int:
    return load_crc32c()(offsets.astype("<i8", copy=False).tobytes())


def _scan_file(path: str) -> Ints:
    file = open_file(path, "mmap")
    data = np.empty(0, np.uint8) if file.mapping is None else file.mapping
    try:
        return scan(data)
    except FrameError as error:
        compression = _compression_of(data[:2].tobytes()) if error.record == 0 else None
        if compression:
            raise DataError(
                f"this file is compressed with {compression}, in which no record can be found but by reading all before it. "
                "Write it anew with arrayfeed.decompress_tfrecord(path, new_path), or import it into ArrayRecord",
                path,
            ) from None
        raise CorruptShardError(
            f"{error.message}; this is no TFRecord file, or it is damaged or was cut short. Copy it again, or leave it out",
            path,
            error.record,
            error.offset,
        ) from None


def _compression_of(start: bytes) -> str | None:
    """Return what the first two bytes of a file that is no TFRecord file say it is."""
    if start == b"\x1f\x8b":
        return "gzip"
    # RFC 1950: deflate with a window of up to 32 KiB, and a header that is a multiple of 31.
    return "zlib" if len(start) == 2 and start[0] == 0x78 and int.from_bytes(start, "big") % 31 == 0 else None
