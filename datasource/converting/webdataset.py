"""WebDataset tars."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from ..errors import CorruptShardError, DataError, DecodeError, SchemaError
from ..features import Feature, Image, Scalar, Tensor, Text
from ..npy import read_npy_header
from ..shards import Paths
from ..tasks import Tick
from .conversion import Conversion, Converted, Item, OnError, Piece, describe_inputs
from .image_listing import IMAGE_SUFFIXES
from .image_stats import ImageStats
from .images import fault_of_image
from .infer_array import infer_array
from .inputs import expand_splits
from .observe import observe
from .options import ConvertOptions, Features, as_features
from .pieces import group_files
from .run import run_conversion

if TYPE_CHECKING:  # it brings tarfile, which nobody else needs
    from .tar_samples import Sample

__all__ = ["convert_webdataset"]

# As WebDataset's own decoder has them.
_IMAGES = tuple(suffix.removeprefix(".") for suffix in IMAGE_SUFFIXES)
_NUMBERS = ("cls", "cls2", "class", "count", "index", "inx", "id")
_TEXTS = ("txt", "text", "transcript", "json", "jsn")
#: Pictures of each file that are looked at to tell how many channels they have.
_LOOKED_AT = 32


def convert_webdataset(
    paths: Paths | Mapping[str, Paths],
    path: str | os.PathLike[str],
    *,
    features: Features | None = None,
    split: str = "train",
    **options: Unpack[ConvertOptions],
) -> Converted:
    """Convert WebDataset tars, plain or compressed. Needs no webdataset.

        convert_webdataset({"train": "imagenet-train-*.tar", "val": "imagenet-val-*.tar"}, "imagenet")

    A sample is the files that share their name up to its first dot, one behind the other; each becomes a feature, called by
    what follows the dot. ``__key__`` is what they share.

        .png .jpg .jpeg .webp ...             an image, stored byte for byte
        .cls .index .id .count ...            int64
        .txt .json                            text; JSON as it stands
        .npy                                  a tensor, if all have one dtype
        others                                bytes

    Which there are is told from a first look at all files. What is missing in some samples is optional, but for images.

    Args:
      paths: A path, a directory, a glob, or a list of them; or such by split.
      path: The directory to be.
      features: What to keep of each sample, by the endings.
      split: The name of the split, where ``paths`` does not name any.
      options: See ``ConvertOptions``. A file is read from its beginning to its end: ``num_shards`` cannot be kept.

    Raises:
      ShardNotFoundError: A file is missing.
      CorruptShardError: A file is no whole tar.
      DecodeError: A file of a sample is not what its ending says; names the tar and the sample's number.
      SchemaError: A sample does not fit the features.
      DatasetExistsError, ValueError, TypeError: As ``DatasetWriter``.
    """
    splits = expand_splits(paths, split, (".tar",))
    pieces = [
        piece
        for name, files in splits.items()
        for piece in group_files(name, {each: os.path.getsize(each) for each in files}, options)
    ]
    if features is None:
        stats = _Stats()
        look = _Observer(options.get("on_error", "raise"))
        found = observe(look, pieces, "B", num_workers=options.get("num_workers"), progress=options.get("progress", False))
        for each in found:
            stats.join(each)
        features = stats.to_features()
    conversion = Conversion(
        features=as_features(features),
        pieces=pieces,
        read=_Reader(frozenset(features), options.get("on_error", "raise")),
        splits=tuple(splits),
        unit="B",
        is_cut=False,
        identity=("webdataset", describe_inputs(each for files in splits.values() for each in files)),
    )
    return run_conversion(path, conversion, options)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the samples of tars."""

    wanted: frozenset[str]
    on_error: OnError

    def __call__(self, piece: Piece) -> Iterator[Item]:
        from .tar_samples import is_sound, read_samples

        for path in piece.source:
            try:
                if self.on_error == "skip" and not is_sound(path):
                    raise CorruptShardError("it cannot be inflated to its end, so that none of it can be trusted", path)
                for sample in read_samples(path):
                    value: dict[str, Any] | DataError
                    try:
                        value = _decode(sample, self.wanted)
                    except DecodeError as error:
                        value = DecodeError(f"sample {sample.key!r}: {error.message}", path, sample.number)
                    yield Item(path, sample.number, value, sample.size)
            except DataError as error:
                yield Item(path, None, error)


def _decode(sample: Sample, wanted: frozenset[str]) -> dict[str, Any]:
    if sample.fault:
        raise DecodeError(sample.fault)
    example: dict[str, Any] = {"__key__": sample.key} if "__key__" in wanted else {}
    for ending in wanted & sample.parts.keys():
        data = sample.parts[ending]
        try:
            example[ending] = _decoder(ending)(data)
        except (ValueError, UnicodeDecodeError) as error:
            message = error.message if isinstance(error, DataError) else str(error)
            raise DecodeError(f"its .{ending} file: {message}") from None
    return example


def _decoder(ending: str) -> Callable[[bytes], Any]:
    last = ending.rpartition(".")[2]
    if last in _IMAGES:
        return _check_image
    if last in _NUMBERS:
        return int
    if last in _TEXTS:
        return bytes.decode
    return _load_array if last == "npy" else bytes


def _check_image(data: bytes) -> bytes:
    fault = fault_of_image(data)
    if fault:
        raise DecodeError(fault)
    return data


def _load_array(data: bytes) -> np.ndarray[Any, Any]:
    read_npy_header(io.BytesIO(data), len(data))  # which finds out whether it claims more than there is
    return np.asarray(np.lib.format.read_array(io.BytesIO(data), allow_pickle=False))


@dataclass(frozen=True, slots=True)
class _Observer:
    """Tells what the samples of some tars have in common."""

    on_error: OnError

    def __call__(self, piece: Piece, tick: Tick) -> _Stats:
        from .tar_samples import read_samples

        stats = _Stats()
        for path in piece.source:
            looked_at: dict[str, int] = {}
            try:
                for sample in read_samples(path):
                    tick(sample.size)
                    stats.add(sample, looked_at)
            except DataError:
                if self.on_error == "raise":
                    raise
        return stats


@dataclass
class _Stats:
    """What samples have in common: how many have each ending, and what is in their images and arrays."""

    samples: int = 0
    seen: dict[str, int] = field(default_factory=dict)
    images: dict[str, ImageStats] = field(default_factory=dict)
    arrays: dict[str, tuple[str, tuple[int | None, ...]]] = field(default_factory=dict)

    def add(self, sample: Sample, looked_at: dict[str, int]) -> None:
        """Take one more sample in."""
        self.samples += 1
        for ending, data in sample.parts.items():
            self.seen[ending] = self.seen.get(ending, 0) + 1
            last = ending.rpartition(".")[2]
            if last in _IMAGES and looked_at.get(ending, 0) < _LOOKED_AT:
                looked_at[ending] = looked_at.get(ending, 0) + 1
                found = ImageStats.of(data)
                if found is not None:
                    self._join_image(ending, found)
            elif last == "npy":
                try:
                    shape, _, dtype = read_npy_header(io.BytesIO(data), len(data))
                except Exception:
                    continue  # its turn comes
                self._join_array(ending, (dtype.str, shape))

    def join(self, other: _Stats) -> None:
        """Take more samples in."""
        self.samples += other.samples
        for ending, count in other.seen.items():
            self.seen[ending] = self.seen.get(ending, 0) + count
        for ending, image in other.images.items():
            self._join_image(ending, image)
        for ending, array in other.arrays.items():
            self._join_array(ending, array)

    def _join_image(self, ending: str, stats: ImageStats) -> None:
        known = self.images.get(ending)
        self.images[ending] = stats if known is None else known.join(stats)

    def _join_array(self, ending: str, found: tuple[str, tuple[int | None, ...]]) -> None:
        known = self.arrays.get(ending, found)
        if known[0] != found[0] or len(known[1]) != len(found[1]):
            raise SchemaError(
                f"some .{ending} files hold {known[0]} with {len(known[1])} axes, others {found[0]} with {len(found[1])}; no "
                "feature describes both. Give features without them"
            )
        shape = tuple(a if a == b else None for a, b in zip(known[1], found[1], strict=True))
        self.arrays[ending] = (found[0], shape)

    def to_features(self) -> dict[str, Feature]:
        """Return the features of the samples."""
        return {"__key__": Text(), **{ending: self._to_feature(ending) for ending in sorted(self.seen)}}

    def _to_feature(self, ending: str) -> Feature:
        optional = self.seen[ending] < self.samples
        last = ending.rpartition(".")[2]
        if last in _IMAGES:
            # Only some of them were looked at.
            stats = self.images.get(ending)
            return Image() if stats is None else ImageStats(None, None, stats.channels, stats.bits).to_feature()
        if last in _NUMBERS:
            return Tensor(shape=(), dtype=np.int64, optional=True) if optional else Scalar(np.int64)
        if last in _TEXTS:
            return Text(optional=optional)
        if last == "npy" and ending in self.arrays:
            dtype, shape = self.arrays[ending]
            return infer_array(np.dtype(dtype), shape, optional=optional)
        return Tensor(shape=(), dtype=np.bytes_, optional=optional)
