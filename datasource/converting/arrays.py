"""Arrays, in memory or in ``.npy`` and ``.npz`` files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, Unpack

import numpy as np

from ..arrays import ArraySource
from ..errors import CorruptShardError, ShardNotFoundError
from ..features import FeaturesDict
from ..npy import open_npy, open_npz
from ..structure import walk
from .conversion import Conversion, Converted, Item, Piece, describe_inputs
from .infer_array import features_of_arrays
from .npz_stream import NpzStream
from .options import ConvertOptions, Features, as_features
from .pieces import choose_block, cut_ranges
from .run import run_conversion

__all__ = ["Arrays", "convert_arrays"]

#: Arrays and files by name; an ``.npz`` or ``.npy`` file; a directory of ``.npy`` files.
Arrays: TypeAlias = Mapping[str, Any] | str | os.PathLike[str]


def convert_arrays(
    arrays: Arrays | Mapping[str, Arrays],
    path: str | os.PathLike[str],
    *,
    features: Features | None = None,
    split: str = "train",
    **options: Unpack[ConvertOptions],
) -> Converted:
    """Convert arrays: element ``i`` of each becomes example ``i``.

        convert_arrays({"image": images, "label": labels}, "digits")
        convert_arrays("digits.npz", "digits", features={"image": Image(shape=(8, 8, 1)), "label": ClassLabel(10)})
        convert_arrays({"train": "train.npz", "test": "test.npz"}, "digits")
        convert_arrays("embeddings.npy", "embeddings")

    Files are mapped into memory and read as they are written; a compressed ``.npz`` is inflated row by row, from its beginning
    to its end, in one piece.

    Args:
      arrays: Arrays of one length by name, nested or not; paths of ``.npy`` files may stand for them. An ``.npz`` file; an
        ``.npy`` file, or a directory of them, called by their names. Or such by split: a dict of nothing but dicts, ``.npz``
        files and directories.
      path: The directory to be.
      features: What an example is made of. If not given, every array becomes what keeps each bit of it.
      split: The name of the split, where ``arrays`` does not name any.
      options: See ``ConvertOptions``. Arrays in memory are converted by this process, unless ``num_workers`` is given.

    Raises:
      SchemaError: A row does not fit the features; names it. Or nothing stores the rows of an array.
      ShardNotFoundError, CorruptShardError, DataError: A file is missing or damaged, or holds Python objects.
      ValueError: The arrays of a split differ in length.
      DatasetExistsError, TypeError: As ``DatasetWriter``.
    """
    given = arrays if isinstance(arrays, Mapping) and _is_by_split(arrays) else {split: arrays}
    found = {name: _open(each) for name, each in given.items()}
    stored = _infer(found) if features is None else as_features(features)
    files = [path for each in found.values() for path in each.files]
    is_cut = all(each.is_cut for each in found.values())
    pieces = []
    for name, each in found.items():
        ranges = cut_ranges(each.length, each.num_bytes, options) if is_cut else [(0, each.length)]
        pieces += [Piece(name, (start, stop), stop - start) for start, stop in ranges]
    if not files:
        options.setdefault("num_workers", 0)
    conversion = Conversion(
        features=stored,
        pieces=pieces,
        read=_Reader(found),
        splits=tuple(found),
        unit="examples",
        is_cut=is_cut,
        identity=("arrays", describe_inputs(files), [each.fingerprint for each in found.values()]),
    )
    return run_conversion(path, conversion, options)


def _infer(splits: Mapping[str, _Rows | _Stream]) -> FeaturesDict:
    """Return the features of all splits' rows."""
    first, *others = (each.infer() for each in splits.values())
    if any(other != first for other in others):
        raise ValueError(f"the arrays of the splits {list(splits)} differ in name, dtype or shape; give features that fit all")
    return first


class _Rows:
    """Arrays any row of which can be had at once: in memory, or mapped. Pickles; files by their names."""

    is_cut = True

    def __init__(self, given: Any, name: str) -> None:
        self._source = ArraySource(given)
        self._given = given
        self.name = name
        self.length = len(self._source)
        self.fingerprint = self._source.fingerprint

    @property
    def files(self) -> list[str]:
        return [os.fspath(leaf) for _, leaf in walk(self._given) if isinstance(leaf, (str, os.PathLike))]

    @property
    def num_bytes(self) -> int:
        in_memory = (leaf for _, leaf in walk(self._given) if not isinstance(leaf, (str, os.PathLike)))
        return sum(map(os.path.getsize, self.files)) + sum(np.asarray(leaf).nbytes for leaf in in_memory)

    def infer(self) -> FeaturesDict:
        """Return the features of a row."""
        return features_of_arrays(_load(self._given))

    def rows(self, start: int, stop: int) -> Iterator[Any]:
        """Yield rows ``start <= row < stop``."""
        block = choose_block(self.length, self.num_bytes)
        for first in range(start, stop, block):
            yield from self._source.__getitems__(range(first, min(first + block, stop)))


class _Stream:
    """A compressed file; the same as ``_Rows``, but all rows or none."""

    is_cut = False
    fingerprint = ""

    def __init__(self, path: str) -> None:
        self._stream = NpzStream(path)
        self.name = path
        self.length = self._stream.length
        self.files = [path]
        self.num_bytes = 0

    def infer(self) -> FeaturesDict:
        return features_of_arrays(self._stream.arrays)

    def rows(self, start: int, stop: int) -> Iterator[Any]:
        return self._stream.rows()


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads ranges of rows."""

    splits: Mapping[str, _Rows | _Stream]

    def __call__(self, piece: Piece) -> Iterator[Item]:
        found = self.splits[piece.split]
        start, stop = piece.source
        try:
            for row, example in enumerate(found.rows(start, stop), start):
                yield Item(found.name, row, example)
        except CorruptShardError as error:
            yield Item(found.name, None, error)  # of a compressed file, of which then nothing is read


def _is_by_split(arrays: Mapping[str, Any]) -> bool:
    return bool(arrays) and all(
        isinstance(each, Mapping)
        or (isinstance(each, (str, os.PathLike)) and (os.fspath(each).endswith(".npz") or os.path.isdir(each)))
        for each in arrays.values()
    )


def _open(arrays: Arrays) -> _Rows | _Stream:
    if isinstance(arrays, Mapping):
        name = next((os.fspath(leaf) for _, leaf in walk(arrays) if isinstance(leaf, (str, os.PathLike))), "the arrays")
        return _Rows(arrays, name)
    path = os.fspath(arrays)
    if os.path.isdir(path):
        files = {each.stem: os.fspath(each) for each in sorted(Path(path).glob("*.npy"))}
        if not files:
            raise ShardNotFoundError("there is no .npy file in this directory", path)
        return _Rows(files, path)
    if path.endswith(".npz"):
        if NpzStream.is_needed(path):
            return _Stream(path)
        return _Rows(path, path)
    return _Rows({Path(path).stem: path}, path)


def _load(node: Any) -> Any:
    if isinstance(node, Mapping):
        return {name: _load(each) for name, each in node.items()}
    if isinstance(node, (str, os.PathLike)):
        path = os.fspath(node)
        return open_npz(path) if path.endswith(".npz") else open_npy(path)
    return np.asarray(node)
