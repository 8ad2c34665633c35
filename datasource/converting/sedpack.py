"""Sedpack data sets."""

from __future__ import annotations

import hashlib
import importlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from ..errors import CorruptShardError, DataError, DatasetNotFoundError, ShardNotFoundError
from ..features import Feature, FeaturesDict, Scalar, Tensor, Text
from ..shards import Shard
from .conversion import Conversion, Converted, Item, Piece, describe_inputs
from .infer_array import infer_array
from .options import ConvertOptions
from .pieces import Counted, cut_counted
from .run import run_conversion

__all__ = ["convert_sedpack"]


def convert_sedpack(
    directory: str | os.PathLike[str], path: str | os.PathLike[str], **options: Unpack[ConvertOptions]
) -> Converted:
    """Convert a data set of Sedpack. Needs that package (``arrayfeed[sedpack]``), and for its TFRecord shards TensorFlow.

    Attributes keep dtype and shape, splits their names and order. Description, licence, version and custom metadata are taken
    over. Every shard is compared with the SHA-256 and the number of examples that the data set states, which Sedpack itself
    does not do when it reads.

    Args:
      directory: Holds ``dataset_info.json``.
      path: The directory to be.
      options: See ``ConvertOptions``.

    Raises:
      ImportError: Sedpack is not installed.
      DatasetNotFoundError: There is no Sedpack data set.
      CorruptShardError: A shard is not what was written.
      DatasetExistsError, ValueError, TypeError: As ``DatasetWriter``.
    """
    try:
        from sedpack.io import Dataset
    except ImportError as error:
        raise ImportError('this needs sedpack, which is not installed: pip install "arrayfeed[sedpack]"') from error
    try:
        found = Dataset(os.fspath(directory))
    except (OSError, ValueError) as error:
        raise DatasetNotFoundError(f"no Sedpack data set: {error}", os.fspath(directory)) from error
    structure, said = found.dataset_structure, found.metadata
    counted: dict[str, Counted] = {}
    hashes: dict[str, str] = {}
    lengths_of: dict[str, int] = {}
    for split in found.dataset_info.splits:
        shards = list(found.shard_info_iterator(split))
        paths = [os.fspath(found.path / shard.file_infos[0].file_path) for shard in shards]
        missing = [each for each in paths if not os.path.exists(each)]
        if missing:
            raise ShardNotFoundError(f"{len(missing)} of {len(paths)} shards of split {split!r} are missing", missing[0])
        if "sha256" in structure.hash_checksum_algorithms:
            place = structure.hash_checksum_algorithms.index("sha256")
            hashes |= {each: shard.file_infos[0].hash_checksums[place] for each, shard in zip(paths, shards, strict=True)}
        lengths = [shard.number_of_examples for shard in shards]
        lengths_of |= dict(zip(paths, lengths, strict=True))
        counted[split] = Counted(paths, lengths, sum(map(os.path.getsize, paths)))
    options.setdefault("description", said.description)
    options.setdefault("license", said.dataset_license)
    options.setdefault("version", said.dataset_version)
    options.setdefault("metadata", _metadata(said, structure))
    conversion = Conversion(
        features=FeaturesDict({each.name: _feature(each) for each in structure.saved_data_description}),
        pieces=cut_counted(counted, options),
        read=_Reader(structure, hashes, lengths_of),
        splits=tuple(counted),
        unit="examples",
        is_cut=True,
        identity=("sedpack", describe_inputs(each for files in counted.values() for each in files.paths)),
    )
    return run_conversion(path, conversion, options)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads slices of shards.

    Attributes:
      hashes: SHA-256 of the shards, of which it is known.
      lengths: How many examples each should have.
    """

    structure: Any
    hashes: dict[str, str]
    lengths: dict[str, int]

    def __call__(self, piece: Piece) -> Iterator[Item]:
        shards: list[Shard] = piece.source
        for shard in shards:
            try:
                examples = self._load(shard.path)
            except DataError as error:
                yield Item(shard.path, None, error)
                continue
            stop = len(examples) if shard.end is None else shard.end
            for number in range(shard.start, stop):
                yield Item(shard.path, number, examples[number])

    def _load(self, path: str) -> list[Any]:
        """Return the examples of a shard, which Sedpack makes small enough for memory."""
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        expected = self.hashes.get(path, digest)
        if digest != expected:
            raise CorruptShardError(f"its SHA-256 is {digest}, the data set states {expected}; copy it again", path)
        try:
            examples = list(_iterator(self.structure).iterate_shard(Path(path)))
        except Exception as error:
            raise CorruptShardError(f"Sedpack cannot read it: {type(error).__name__}: {error}", path) from error
        if len(examples) != self.lengths[path]:
            raise CorruptShardError(f"it has {len(examples)} examples, the data set states {self.lengths[path]}", path)
        return examples


def _iterator(structure: Any) -> Any:
    module, name = {
        "fb": ("flatbuffer", "IterateShardFlatBuffer"),
        "npz": ("npz", "IterateShardNP"),
        "tfrec": ("tfrec", "IterateShardTFRec"),
    }[structure.shard_file_type]
    kind = getattr(importlib.import_module(f"sedpack.io.{module}"), name)
    return kind(dataset_structure=structure, process_record=None)


def _feature(attribute: Any) -> Feature:
    if attribute.dtype == "str":
        return Text()
    if attribute.dtype == "bytes":
        return Tensor(shape=(), dtype=np.bytes_)
    if attribute.dtype == "int":
        return Scalar(np.int64)
    return infer_array(np.dtype(attribute.dtype), tuple(attribute.shape))


def _metadata(said: Any, structure: Any) -> Any:
    """Return what is said of the data set and, under "attributes", of each attribute."""
    found = dict(said.custom_metadata)
    attributes = {each.name: each.custom_metadata for each in structure.saved_data_description if each.custom_metadata}
    if attributes:
        found["attributes"] = attributes
    return found or None
