"""Which pictures a folder holds, and what its folders' names say of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..features import ClassLabel, Feature
from ..shards import natural_key

__all__ = ["IMAGE_SUFFIXES", "Listing", "list_classes"]

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")


@dataclass(frozen=True, slots=True)
class Listing:
    """Pictures by split.

    Attributes:
      files: Paths below the folder.
      columns: What else is known of each picture.
      rows: The values of these, for each of ``files``.
      features: Of the columns.
    """

    files: Mapping[str, Sequence[str]]
    columns: tuple[str, ...]
    rows: Mapping[str, Sequence[tuple[Any, ...]]]
    features: Mapping[str, Feature]


def list_classes(directory: str, split: str) -> Listing:
    """Return the pictures in folders called by classes, or by splits and then by classes; in natural order.

    A folder is a split where no picture is in it but in folders below, and so are all others beside it.
    """
    folders = {name: os.path.join(directory, name) for name in _folders(directory)}
    is_by_split = bool(folders) and all(_holds_folders_only(path) for path in folders.values())
    if is_by_split:
        splits = {name: {each: os.path.join(name, each) for each in _folders(path)} for name, path in folders.items()}
    else:
        splits = {split: {name: name for name in folders}}
    classes = sorted({name for each in splits.values() for name in each})
    files: dict[str, list[str]] = {}
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for name, members in splits.items():
        files[name], rows[name] = [], []
        for label in sorted(members):
            row = (label,)
            below = sorted(_pictures(directory, members[label]), key=natural_key)
            files[name] += below
            rows[name] += [row] * len(below)
    return Listing(files, ("label",), rows, {"label": ClassLabel(names=classes)})


def _holds_folders_only(path: str) -> bool:
    return bool(_folders(path)) and not any(_is_picture(each.name) for each in list(os.scandir(path)))


def _folders(path: str) -> list[str]:
    return sorted(each.name for each in os.scandir(path) if each.is_dir() and not each.name.startswith("."))


def _pictures(directory: str, folder: str) -> Iterator[str]:
    """Yield the pictures in a folder and below, as paths below ``directory``."""
    for home, _, names in os.walk(os.path.join(directory, folder)):
        below = os.path.relpath(home, directory)
        yield from (os.path.join(below, name) for name in names if _is_picture(name))


def _is_picture(name: str) -> bool:
    return name.lower().endswith(IMAGE_SUFFIXES) and not name.startswith(".")
