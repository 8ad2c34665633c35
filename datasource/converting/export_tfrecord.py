"""ArrayRecord back to TFRecord files, which TensorFlow reads."""

from __future__ import annotations

import dataclasses
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, Unpack

from ..shards import Paths
from ..tfds import DatasetInfo, SplitInfo
from ..tfds.filenames import DEFAULT_TEMPLATE, shard_filename
from ..tfrecord.framing import seal
from ..writing.checks import default_name
from .arrayrecord import Records, open_records
from .conversion import Converted, Piece
from .export import Done, ExportOptions, Kept, run_export

__all__ = ["Compression", "export_tfrecord"]

Compression: TypeAlias = Literal["none", "gzip", "zlib"]

_SUFFIXES = {"none": "", "gzip": ".gz", "zlib": ".zlib"}
#: zlib's spelling of the two; gzip's header without name and time, so that the same records are the same file.
_BITS = {"none": None, "gzip": zlib.MAX_WBITS | 16, "zlib": zlib.MAX_WBITS}


def export_tfrecord(
    source: Paths, path: str | os.PathLike[str], *, compression: Compression = "none", **options: Unpack[ExportOptions]
) -> Converted:
    """Write the records of ArrayRecord files as TFRecord files. Needs no TensorFlow.

        export_tfrecord("digits", "digits-tfrecord")
        tf.data.TFRecordDataset(glob("digits-tfrecord/digits-train.tfrecord-*"))

    From the directory of a data set, not compressed, this makes one that TFDS opens, too: with the same features, splits, class
    names and description, in the format that ``convert_tfds`` reads. Shards stay as they are cut, unless an option says how
    many, or how large, they should be.

    Args:
      source: The directory of a data set; or bare ArrayRecord files.
      path: The directory to be.
      compression: Of every file; TensorFlow must be told which it is (``compression_type="GZIP"``). Names end with it.
      options: See ``ExportOptions``.

    Raises:
      DatasetNotFoundError, ShardNotFoundError: There is no such source.
      CorruptShardError: A record is damaged; names it.
      DatasetExistsError: There is something at ``path``.
      ValueError: An option is not as described.
    """
    if compression not in _SUFFIXES:
        raise ValueError(f"compression must be 'none', 'gzip' or 'zlib', got {compression!r}")
    records = open_records(source, options)
    name = default_name(os.fspath(path)) if records.info is None else records.info.name
    pieces = records.pieces
    counts = {split: sum(piece.split == split for piece in pieces) for split in records.splits}
    firsts: dict[str, int] = {}
    names = []
    for number, piece in enumerate(pieces):
        firsts.setdefault(piece.split, number)
        place = number - firsts[piece.split]
        shard = shard_filename(place, counts[piece.split], dataset=name, split=piece.split, file_format="tfrecord")
        names.append(shard + _SUFFIXES[compression])
    return run_export(
        path,
        pieces,
        _Writer(records, tuple(names), compression),
        _Finish(records.info if compression == "none" else None, tuple(pieces)),
        identity=("tfrecord", compression, name, records.identity),
        splits=records.splits,
        options=options,
    )


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes one file."""

    records: Records
    names: tuple[str, ...]
    compression: Compression

    def __call__(self, number: int, piece: Piece, directory: str, kept: Kept) -> int:
        num_bytes, bits = 0, _BITS[self.compression]
        deflate = None if bits is None else zlib.compressobj(wbits=bits)
        with open(os.path.join(directory, self.names[number]), "wb") as file:
            for item in self.records.read(piece):
                record = kept.take(item)
                if record is None:
                    continue
                header, footer = seal(record)
                framed = header + record + footer
                file.write(framed if deflate is None else deflate.compress(framed))
                num_bytes += len(record)
            if deflate is not None:
                file.write(deflate.flush())
            file.flush()
            os.fsync(file.fileno())
        return num_bytes


@dataclass(frozen=True, slots=True)
class _Finish:
    """Describes the data set, if it is one."""

    info: DatasetInfo | None
    pieces: tuple[Piece, ...]

    def __call__(self, directory: str, done: Sequence[Done]) -> None:
        if self.info is None:
            return
        splits = []
        for split in self.info.splits:
            mine = [each for piece, each in zip(self.pieces, done, strict=True) if piece.split == split.name]
            lengths = tuple(each.num_records for each in mine)
            splits.append(SplitInfo(split.name, lengths, sum(each.about for each in mine), DEFAULT_TEMPLATE))
        changed = dataclasses.replace(self.info, splits=tuple(splits), file_format="tfrecord", alternative_file_formats=())
        changed.write(directory)
