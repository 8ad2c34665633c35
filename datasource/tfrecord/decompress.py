"""Compressed TFRecord files, made plain."""

from __future__ import annotations

import os
import zlib

from ..errors import CorruptShardError, ShardNotFoundError

__all__ = ["decompress_tfrecord"]

_PIECE_BYTES = 1 << 20
#: zlib finds out by itself whether a stream has gzip's header or its own.
_EITHER = zlib.MAX_WBITS | 32


def decompress_tfrecord(path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
    """Write what the gzip or zlib file ``path`` holds to ``new_path``, piece by piece.

    Records of a compressed file can only be had by reading all before them; ``TFRecordSource`` refuses such files.

    Raises:
      FileExistsError: ``new_path`` is there already; it stays as it is.
      ShardNotFoundError: There is no file at ``path``.
      CorruptShardError: It is not compressed with either, or was cut short; ``new_path`` is not left behind.
    """
    path, new_path = os.fspath(path), os.fspath(new_path)
    if not os.path.exists(path):
        raise ShardNotFoundError("no such file", path)
    with open(path, "rb") as source, open(new_path, "xb") as target:
        try:
            stream = zlib.decompressobj(_EITHER)
            while piece := source.read(_PIECE_BYTES):
                while piece:
                    if stream.eof:  # a gzip file may be several, one behind the other
                        stream = zlib.decompressobj(_EITHER)
                    target.write(stream.decompress(piece, _PIECE_BYTES))
                    piece = stream.unused_data if stream.eof else stream.unconsumed_tail
            if not stream.eof:
                raise zlib.error("the stream does not end")
        except BaseException as error:
            os.unlink(new_path)
            if isinstance(error, zlib.error):
                raise CorruptShardError(
                    f"no whole gzip or zlib file: {error}. It is damaged, was cut short, or is not compressed", path
                ) from None
            raise
