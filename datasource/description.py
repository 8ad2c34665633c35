"""What a source of examples is, in a few lines for people."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .features import ClassLabel, Feature, FeaturesDict, LabeledImage, Sequence

if TYPE_CHECKING:
    from .examples import ExampleDataSource

__all__ = ["describe"]

_SHOWN_NAMES = 20


def describe(source: ExampleDataSource) -> str:
    """Return name, number of examples, files and their size on the disk, every feature, and the classes of the labels.

    mnist/train: 60,000 examples in 4 shards of 11,594,722 bytes, /data/mnist/3.0.1
    FeaturesDict({
        'image': Image(shape=(28, 28, 1), dtype=uint8),
        'label': ClassLabel(shape=(), dtype=int64, num_classes=10),
    })
    label: 0 'zero', 1 'one', 2 'two' ...
    """
    files = source.records.files
    head = f"{source.name or type(source).__name__}: {len(source):,} examples in {len(files)} shard{'s' * (len(files) != 1)}"
    if files:
        head += f" of {_count_bytes(files)} bytes, {os.path.dirname(files[0]) if len(files) > 1 else files[0]}"
    return "\n".join([head, repr(source.features), *_list_classes(source.features, "")])


def _count_bytes(files: Iterable[str]) -> str:
    try:
        return f"{sum(map(os.path.getsize, files)):,}"
    except OSError:
        return "unknown"


def _list_classes(feature: Feature, path: str) -> list[str]:
    """Return a line for every feature that has names of classes."""
    if isinstance(feature, FeaturesDict):
        return [
            line for name, each in sorted(feature.items()) for line in _list_classes(each, f"{path}/{name}" if path else name)
        ]
    if isinstance(feature, Sequence):
        return _list_classes(feature.feature, path)
    if not isinstance(feature, (ClassLabel, LabeledImage)) or not feature.has_names:
        return []
    names = feature.names
    shown = ", ".join(f"{number} {name!r}" for number, name in enumerate(names[:_SHOWN_NAMES]))
    return [f"{path}: {shown}{f', ... ({len(names)} in all)' if len(names) > _SHOWN_NAMES else ''}"]
