"""What a source is, told from its type, its name and the first bytes of its files."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import DataError, ShardNotFoundError
from ..shards import expand_paths
from ..tfds.info import FEATURES_FILE, INFO_FILE
from .image_listing import IMAGE_SUFFIXES
from .tfrecord_frames import detect_compression, read_frames

__all__ = ["detect_format"]

_ENDINGS = {
    ".npy": "arrays",
    ".npz": "arrays",
    ".parquet": "parquet",
    ".tar": "webdataset",
    ".tar.gz": "webdataset",
    ".tgz": "webdataset",
    ".tar.bz2": "webdataset",
    ".tar.xz": "webdataset",
}
_MAGIC = {b"\x93NUMPY": "arrays", b"PK\x03\x04": "arrays", b"PAR1": "parquet"}


def detect_format(source: Any) -> str:
    """Return the name of a source's format.

    Raises:
      ShardNotFoundError: There is no such file.
      DataError: Nothing tells what it is.
    """
    if type(source).__module__.partition(".")[0] == "datasets":
        return "huggingface"
    if isinstance(source, Mapping):
        if all(isinstance(each, (str, os.PathLike, list, tuple)) and _is_paths(each) for each in source.values()) and source:
            formats = {name: detect_format(each) for name, each in source.items()}
            if len(set(formats.values())) > 1:
                raise DataError(f"the splits are of several formats, {formats}; convert them apart")
            return next(iter(formats.values()))
        of_values = {type(each).__module__.partition(".")[0] for each in source.values()}
        return "huggingface" if of_values == {"datasets"} else "arrays"
    if not _is_paths(source):
        raise DataError(f"a path, paths by split, arrays or a data set of datasets expected, got {type(source).__name__}")
    first = source[0] if isinstance(source, (list, tuple)) else source
    if os.path.isdir(first):
        return _detect_directory(os.fspath(first))
    return _detect_file(expand_paths(first)[0].path)


def _is_paths(source: Any) -> bool:
    if isinstance(source, (list, tuple)):
        return bool(source) and all(isinstance(each, (str, os.PathLike)) for each in source)
    return isinstance(source, (str, os.PathLike))


def _detect_directory(directory: str) -> str:
    found = Path(directory)
    if (found / "dataset_dict.json").is_file() or (found / "state.json").is_file():
        return "huggingface"
    if (found / INFO_FILE).is_file():
        try:
            form = json.loads((found / INFO_FILE).read_bytes())
        except ValueError as error:
            raise DataError(f"not JSON: {error}", os.fspath(found / INFO_FILE)) from None
        if isinstance(form, dict) and "dataset_structure" in form:
            return "sedpack"
        if (found / FEATURES_FILE).is_file():
            return "arrayrecord" if "array_record" in str(form.get("fileFormat", form.get("file_format"))) else "tfds"
    files = sorted(each.path for each in os.scandir(directory) if each.is_file() and not each.name.startswith("."))
    of_data = [path for path in files if not path.lower().endswith((*IMAGE_SUFFIXES, ".csv", ".json", ".txt", ".md"))]
    has_folders = any(each.is_dir() and not each.name.startswith(".") for each in list(os.scandir(directory)))
    if of_data:
        return _detect_file(of_data[0])
    if has_folders or any(path.lower().endswith(IMAGE_SUFFIXES) for path in files):
        return "images"
    raise DataError("nothing in this directory tells what it is; say so by source_format (--from)", directory)


def _detect_file(path: str) -> str:
    if not os.path.exists(path):
        raise ShardNotFoundError("no such file" + " matches" * glob.has_magic(path), path)
    name = os.path.basename(path).lower()
    for ending, found in _ENDINGS.items():
        if name.endswith(ending):
            return found
    with open(path, "rb") as file:
        start = file.read(512)
    for magic, found in _MAGIC.items():
        if start.startswith(magic):
            return found
    if start[257:262] == b"ustar":
        return "webdataset"
    if not start or detect_compression(path) != "none" or ".tfrec" in name:
        return "tfrecord"
    if isinstance(next(read_frames(path, "none")).data, bytes):
        return "tfrecord"
    if "array_record" in name or "arrayrecord" in name or start.startswith(b"\x83\xaf\x70\xd1"):
        return "arrayrecord"
    raise DataError("nothing tells what this file is; say so by source_format (--from)", path)
