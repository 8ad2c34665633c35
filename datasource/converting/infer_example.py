"""Features of ``tf.train.Example`` records that came without a schema, told from all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import DecodeError, SchemaError
from ..example.wire import WireError, WireValues, parse_example
from ..features import Feature, FeaturesDict, Scalar, Tensor, Text
from .image_stats import ImageStats

__all__ = ["ExampleStats", "parse_record"]


def parse_record(record: bytes, path: str, number: int | None) -> dict[str, WireValues]:
    """Return what a record holds by key.

    Raises:
      DecodeError: It is no ``tf.train.Example``.
    """
    try:
        return parse_example(record)
    except WireError as error:
        raise DecodeError(
            f"it is no tf.train.Example: {error}. Records of another kind are converted with raw=True (--raw)", path, number
        ) from None


@dataclass
class _KeyStats:
    """What the lists of one key have in common.

    Attributes:
      kind: Of the list, as ``wire_kind`` calls them.
      seen: Records that have one.
      least, most: Values in it.
      is_text: Whether all bytes were UTF-8.
      image: What the images share, if single bytes are images in all records.
      where: The first record that has one, to be named.
    """

    kind: str
    seen: int
    least: int
    most: int
    is_text: bool
    image: ImageStats | None
    where: str

    def join(self, other: _KeyStats, key: str) -> None:
        if self.kind != other.kind:
            raise SchemaError(
                f"key {key!r} is a list of {self.kind} in {self.where}, but of {other.kind} in {other.where}; no feature "
                "describes both. Give features without it, or convert the files apart"
            )
        self.seen += other.seen
        self.least, self.most = min(self.least, other.least), max(self.most, other.most)
        self.is_text = self.is_text and other.is_text
        self.image = self.image.join(other.image) if self.image and other.image else None

    def to_feature(self, records: int) -> Feature:
        optional = self.seen < records
        is_single = self.least == self.most == 1
        if self.kind == "bytes" and is_single and self.image and not optional:
            return self.image.to_feature()
        if self.kind == "bytes" and is_single and self.is_text:
            return Text(optional=optional)
        dtype = {"int64": np.int64, "float": np.float32, "bytes": np.bytes_}[self.kind]
        if is_single and not optional and self.kind != "bytes":
            return Scalar(dtype)
        shape = () if is_single else (self.least if self.least == self.most else None,)
        return Tensor(shape=shape, dtype=dtype, optional=optional)


@dataclass
class ExampleStats:
    """What a number of records have in common, key by key. Pickles; joined in the records' order."""

    records: int = 0
    keys: dict[str, _KeyStats] = field(default_factory=dict)

    def add(self, wire: Mapping[str, WireValues], where: str) -> None:
        """Take one more record in.

        Args:
          where: What to call it in an error.

        Raises:
          SchemaError: A key has another kind of list than before; names both records.
        """
        self.records += 1
        for key, values in wire.items():
            if values is not None:
                self._join(key, _look_at(values, where, self.keys.get(key)))

    def join(self, other: ExampleStats) -> None:
        """Take more records in.

        Raises:
          SchemaError: As ``add``.
        """
        self.records += other.records
        for key, stats in other.keys.items():
            self._join(key, stats)

    def _join(self, key: str, stats: _KeyStats) -> None:
        known = self.keys.get(key)
        if known is None:
            self.keys[key] = stats
        else:
            known.join(stats, key)

    def to_features(self) -> FeaturesDict:
        """Return the features that describe all of the records as they are.

        one value in each record     int64, float32; PNG and JPEG files as images, UTF-8 as text, other bytes as such
        n values in each             a tensor of shape (n,)
        different numbers            a tensor of shape (None,)
        none at all in some          optional
        """
        return FeaturesDict({key: stats.to_feature(self.records) for key, stats in self.keys.items()})


def _look_at(values: Any, where: str, known: _KeyStats | None) -> _KeyStats:
    if not isinstance(values, list):
        kind = "int64" if values.dtype == np.int64 else "float"
        return _KeyStats(kind, 1, values.size, values.size, False, None, where)
    # Once a key's values were no text, or no image, no more of them need be looked at.
    is_text = (known is None or known.is_text) and all(map(_is_text, values))
    image = ImageStats.of(values[0]) if len(values) == 1 and (known is None or known.image) else None
    return _KeyStats("bytes", 1, len(values), len(values), is_text, image, where)


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
