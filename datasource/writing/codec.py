"""How records are compressed: ``"zstd:3"`` and the like, checked, and the choice that ``"auto"`` makes."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["AUTO", "SAMPLE_BYTES", "SAMPLE_RECORDS", "check_codec", "choose_codec", "writer_options"]

AUTO = "auto"

#: What ``"auto"`` looks at before it decides: the first records of a split, so many of them or so many bytes.
SAMPLE_RECORDS = 256
SAMPLE_BYTES = 1 << 22

#: Codec -> lowest and highest level that array_record takes; Snappy has none worth choosing.
_LEVELS = {"zstd": (-131072, 22), "brotli": (0, 11)}
# Decoding a zstd record costs ten times a plain gather, so it must save a quarter to be worth it. Encoded images save a
# hundredth, arrays of real pixels mostly more than half.
_WORTHWHILE = 0.75


def check_codec(codec: str) -> str:
    """Return ``codec`` if it is one of these.

        "auto"                    zstd where the first records shrink by a quarter or more under it, else none
        "none"                    fastest to read, by far
        "zstd", "zstd:level"      -131072 <= level <= 22; 3 if not given
        "brotli", "brotli:level"  0 <= level <= 11; 6 if not given
        "snappy"

    Raises:
      ValueError: It is none of them, or the level is out of range.
    """
    name, colon, level = codec.partition(":")
    if name in _LEVELS and colon:
        low, high = _LEVELS[name]
        try:
            fits = low <= int(level) <= high
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(f"codec {codec!r}: the level of {name} must be an integer, {low} <= level <= {high}")
    elif codec not in (AUTO, "none", "snappy", *_LEVELS):
        raise ValueError(
            f"codec {codec!r} is unknown; take 'auto', 'none', 'zstd', 'zstd:LEVEL', 'brotli', 'brotli:LEVEL' or 'snappy'"
        )
    return codec


def choose_codec(records: Sequence[bytes]) -> str:
    """Return what ``"auto"`` means for data like the first of ``records``: ``"zstd"`` or ``"none"``."""
    import zstandard

    compress = zstandard.ZstdCompressor(level=3).compress
    before = after = 0
    for record in records[:SAMPLE_RECORDS]:
        before += len(record)
        after += min(len(record), len(compress(record)))
        if before >= SAMPLE_BYTES:
            break
    return "zstd" if after <= _WORTHWHILE * before and before else "none"


def writer_options(codec: str, group_size: int = 1) -> str:
    """Return the options of ``ArrayRecordWriter``: one record a chunk, as TFDS and Grain expect, or more, under ``codec``."""
    return f"group_size:{group_size},{'uncompressed' if codec == 'none' else codec}"
