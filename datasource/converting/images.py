"""Folders of pictures: by class, or flat with a table; the files are stored as they are."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Unpack

from ..errors import DataError, DecodeError, ShardNotFoundError
from ..features import Image, Text
from ..features.image_header import read_header
from .conversion import Conversion, Converted, Item, Piece
from .image_listing import Listing, list_classes
from .image_stats import ImageStats
from .image_table import read_table
from .options import ConvertOptions, Features, as_features
from .pieces import cut_ranges
from .run import run_conversion

__all__ = ["convert_images", "fault_of_image", "read_image"]

#: Pictures that are looked at to tell how many channels they have.
_SAMPLE = 256


def convert_images(
    directory: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    table: str | os.PathLike[str] | None = None,
    features: Features | None = None,
    split: str = "train",
    **options: Unpack[ConvertOptions],
) -> Converted:
    """Convert a folder of pictures: PNG, JPEG and whatever else is an image, stored byte for byte.

        pets/cat/1.jpg, pets/dog/1.jpg                      split "train": image, label, filename
        pets/train/cat/1.jpg, pets/test/dog/1.jpg           the same by split
        pets/1.jpg, pets/2.jpg, pets/pets.csv               image, filename, and a feature for each column

    Labels are numbered in the order of their sorted names, over all splits. The features are ``image``, of any height and width
    and as many channels as 256 files from all over the folder have; ``filename``, the path below ``directory``; and the
    ``label``, or the columns. Hidden files and those with other endings are passed over.

    A table's column of file names is found by its content. Columns of whole numbers become int64, of numbers float64, of others
    text, but for ``label`` and ``class``, whose texts are classes; ``split`` says which split a row belongs to.

    Args:
      directory: Holds the pictures.
      path: The directory to be.
      table: A CSV file with a header line. If not given, the only one in ``directory``, where that has no folders of pictures.
      features: What an example is made of, where it is to be other than said: a fixed shape, other names of classes.
      split: The name of the split, where neither folders nor a table name any.
      options: See ``ConvertOptions``.

    Raises:
      ShardNotFoundError: There are no pictures; or a table names files that are not there.
      DecodeError: A file is no image, or was cut short; names it.
      DataError: The table cannot be understood; names the line.
      DatasetExistsError, ValueError, TypeError: As ``DatasetWriter``.
    """
    directory = os.fspath(directory)
    if not os.path.isdir(directory):
        raise ShardNotFoundError("no such directory", directory)
    if table is None:
        tables = sorted(each.path for each in os.scandir(directory) if each.name.endswith(".csv"))
        if len(tables) == 1 and not _has_folders(directory):
            table = tables[0]
    found = list_classes(directory, split) if table is None else read_table(directory, os.fspath(table), split)
    if not any(found.files.values()):
        raise ShardNotFoundError(
            "there is no picture in it: neither in folders called by classes, nor in such by split, nor with a table", directory
        )
    if features is None:
        features = {"image": _look(directory, found), "filename": Text(), **found.features}
    pieces, digests = [], []
    for name, files in found.files.items():
        num_bytes, digest = _survey(directory, files)
        digests.append(digest)
        for start, stop in cut_ranges(len(files), num_bytes, options):
            pieces.append(Piece(name, (files[start:stop], found.rows[name][start:stop]), stop - start))
    conversion = Conversion(
        features=as_features(features),
        pieces=pieces,
        read=_Reader(directory, found.columns, frozenset(features)),
        splits=tuple(found.files),
        unit="examples",
        is_cut=True,
        identity=("images", os.path.abspath(directory), digests),
    )
    return run_conversion(path, conversion, options)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads pictures."""

    directory: str
    columns: tuple[str, ...]
    wanted: frozenset[str]

    def __call__(self, piece: Piece) -> Iterator[Item]:
        files, rows = piece.source
        for name, row in zip(files, rows, strict=True):
            path = os.path.join(self.directory, name)
            example = {"filename": name, **dict(zip(self.columns, row, strict=True))}
            example = {key: value for key, value in example.items() if key in self.wanted}
            try:
                yield Item(path, None, {"image": read_image(path), **example})
            except DataError as error:
                yield Item(path, None, error)


def read_image(path: str) -> bytes:
    """Return an image file's bytes, having looked whether it is one and whole, as far as that shows without decoding it.

    Raises:
      ShardNotFoundError, DataError: It is not there, or cannot be read.
      DecodeError: It is no image, or was cut short.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        raise ShardNotFoundError("no such file", path) from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path) from error
    fault = fault_of_image(data)
    if fault:
        raise DecodeError(fault, path)
    return data


def fault_of_image(data: bytes) -> str:
    """Return why the bytes are no whole image file, empty if they are, as far as that shows without decoding them."""
    header = read_header(data)
    if header is None:
        return f"it is no image, or was cut short: {len(data)} bytes that begin {data[:8]!r}"
    if header.format == "jpeg" and b"\xff\xd9" not in data:  # the marker that ends a picture
        return f"the picture was cut short: the JPEG file of {len(data)} bytes has no end"
    return ""


def _look(directory: str, found: Listing) -> Image:
    """Return the feature of some pictures from all over the folder: of any size, with as many channels as they have."""
    files = [name for names in found.files.values() for name in names]
    stats: ImageStats | None = None
    for place in _spread(len(files)):
        try:
            one = ImageStats.of(read_image(os.path.join(directory, files[place])))
        except DataError:
            continue  # its turn comes
        if one is not None:
            stats = one if stats is None else stats.join(one)
    if stats is None:
        return Image()
    return dataclasses.replace(stats, height=None, width=None).to_feature()


def _survey(directory: str, files: Sequence[str]) -> tuple[int, str]:
    """Return how many bytes the files have, and a digest of their sizes and times of modification."""
    total, digest = 0, blake2b(digest_size=8)
    for name in files:
        try:
            found = os.stat(os.path.join(directory, name))
        except OSError:
            continue  # it is said when its turn comes
        total += found.st_size
        digest.update(f"{name}\0{found.st_size}\0{found.st_mtime_ns}\0".encode(errors="surrogateescape"))
    return total, digest.hexdigest()


def _spread(length: int) -> range:
    """Return up to 256 places, evenly over all."""
    return range(0, length, max(1, -(-length // _SAMPLE)))


def _has_folders(directory: str) -> bool:
    return any(each.is_dir() and not each.name.startswith(".") for each in list(os.scandir(directory)))
