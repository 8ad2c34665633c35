"""One function for all formats: looks what the source is, and converts it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, get_args

from .arrayrecord import convert_arrayrecord
from .arrays import convert_arrays
from .conversion import Converted
from .detect import detect_format
from .huggingface import convert_huggingface
from .images import convert_images
from .parquet import convert_parquet
from .sedpack import convert_sedpack
from .tfds import convert_tfds
from .tfrecord import convert_tfrecord
from .webdataset import convert_webdataset

__all__ = ["SourceFormat", "convert"]

SourceFormat: TypeAlias = Literal[
    "auto", "arrayrecord", "arrays", "huggingface", "images", "parquet", "sedpack", "tfds", "tfrecord", "webdataset"
]

_CONVERTERS: dict[str, Callable[..., Converted]] = {
    "arrayrecord": convert_arrayrecord,
    "arrays": convert_arrays,
    "huggingface": convert_huggingface,
    "images": convert_images,
    "parquet": convert_parquet,
    "sedpack": convert_sedpack,
    "tfds": convert_tfds,
    "tfrecord": convert_tfrecord,
    "webdataset": convert_webdataset,
}


def convert(source: Any, path: str | os.PathLike[str], *, source_format: SourceFormat = "auto", **options: Any) -> Converted:
    """Convert whatever this is to a data set.

        convert("train-*.tfrecord.gz", "digits")
        convert({"train": "train.npz", "test": "test.npz"}, "digits", features=schema)
        convert("pets", "pets-af", on_error="skip")             a folder of pictures by class
        convert(datasets.load_dataset("ylecun/mnist"), "mnist")

    Args:
      source: A path, a directory, a glob or a list of them, or such by split; arrays by name; a data set of ``datasets``.
      path: The directory to be.
      source_format: What it is, which ``"auto"`` tells from names and first bytes.
      options: As the function for that format takes them, ``convert_tfrecord`` and so on; see there, and ``ConvertOptions``.

    Raises:
      DataError: Nothing tells what the source is; or as that function.
      TypeError: That function takes no such option.
      ValueError: There is no such format; or as that function.
    """
    if source_format not in get_args(SourceFormat):
        raise ValueError(f"source_format must be one of {sorted(get_args(SourceFormat))}, got {source_format!r}")
    found = detect_format(source) if source_format == "auto" else source_format
    if found in ("tfds", "images", "sedpack", "huggingface") and isinstance(source, (list, tuple)) and len(source) == 1:
        source = source[0]
    if found in ("tfds", "images", "sedpack") and isinstance(source, Mapping):
        raise ValueError(f"{found}: one directory expected, whose splits are inside it; got {list(source)}")
    return _CONVERTERS[found](source, path, **options)
