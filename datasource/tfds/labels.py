"""Names of classes, which stand in files of their own: ``<feature>.labels.txt``, one name a line."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import SchemaError
from ..features import ClassLabel, FeaturesDict, LabeledImage
from ..features.leaf_feature import LeafFeature

__all__ = ["LABELS_SUFFIX", "collect_labels", "read_labels", "write_labels"]

LABELS_SUFFIX = ".labels.txt"


def collect_labels(features: FeaturesDict) -> dict[str, list[str]]:
    """Return the class names of every feature that has some, by the name of the file that they are kept in.

    Raises:
      SchemaError: A name is empty, begins or ends with a space, or has more than one line: it would not be read back.
    """
    labels: dict[str, list[str]] = {}

    def collect(feature: LeafFeature, path: tuple[str, ...]) -> LeafFeature:
        if isinstance(feature, (ClassLabel, LabeledImage)) and feature.has_names:
            bad = next((name for name in feature.names if name != name.strip() or not name or "\n" in name), None)
            if bad is not None:
                raise SchemaError(f"feature {'/'.join(path)!r}: class name {bad!r} does not fit on one line of a file")
            labels[_file_name(path)] = list(feature.names)
        return feature

    features.map_leaves(collect)
    return labels


def write_labels(features: FeaturesDict, directory: str | os.PathLike[str]) -> None:
    """Write the class names of every feature that has some into ``directory``.

    Raises:
      SchemaError: As ``collect_labels``.
    """
    for name, labels in collect_labels(features).items():
        Path(directory, name).write_text("".join(f"{label}\n" for label in labels), "utf-8")


def read_labels(features: FeaturesDict, directory: str | os.PathLike[str]) -> FeaturesDict:
    """Return ``features`` with the class names that ``directory`` has; where it has none, numbers serve as names.

    Raises:
      SchemaError: A file has another number of names than there are classes.
    """

    def read(feature: LeafFeature, path: tuple[str, ...]) -> LeafFeature:
        if not isinstance(feature, (ClassLabel, LabeledImage)):
            return feature
        file = Path(directory, _file_name(path))
        try:
            lines = file.read_text("utf-8").split("\n")
        except OSError:
            return feature
        names = [line.strip() for line in lines if line.strip()]
        if feature.num_classes not in (None, len(names)):
            raise SchemaError(f"{feature.num_classes} classes, but {len(names)} names", os.fspath(file))
        return feature.with_names(names)

    return features.map_leaves(read)


def _file_name(path: tuple[str, ...]) -> str:
    """Return the name of a feature's file: its names joined by "-", a "/" inside one turned into "."."""
    return "-".join(name.replace("/", ".") for name in path) + LABELS_SUFFIX
