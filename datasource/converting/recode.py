"""Records of ``tf.train.Example`` held to features that the user gives, and completed by their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import DecodeError, SchemaError
from ..example.wire import WireValues, serialize_example
from ..features import FeaturesDict, Image, LabeledImage, Leaf, Tensor
from ..features.image_header import read_header
from ..features.leaf_feature import LeafFeature
from ..tfrecord import Field
from .infer_example import parse_record

__all__ = ["Recoder", "stored_features"]


def stored_features(features: FeaturesDict) -> FeaturesDict:
    """Return ``features`` as a data set has them: a ``Field`` becomes a tensor, whose values are all there."""

    def settle(feature: LeafFeature, path: tuple[str, ...]) -> LeafFeature:
        if isinstance(feature, Field):
            return Tensor(shape=feature.shape, dtype=feature.dtype, optional=feature.optional)
        return feature

    stored = features.map_leaves(settle)
    assert isinstance(stored, FeaturesDict)
    return stored


class Recoder:
    """Makes of a record the one that is stored: the keys that the features name, as they are or completed.

    Every value is looked at; of images the header is, for they are stored as they are.
    """

    def __init__(self, features: FeaturesDict) -> None:
        self._leaves = features.leaves()

    def recode(self, record: bytes, path: str, number: int | None) -> bytes:
        """Return the record to be stored.

        Raises:
          DecodeError: A value is missing, or not as promised; names the key.
        """
        wire = parse_record(record, path, number)
        kept: dict[str, WireValues] = {}
        try:
            for leaf in self._leaves:
                self._keep(leaf, wire, kept)
        except (DecodeError, SchemaError) as error:
            raise DecodeError(error.message, path, number) from error.__cause__
        return serialize_example(kept)

    def _keep(self, leaf: Leaf, wire: Mapping[str, WireValues], kept: dict[str, WireValues]) -> None:
        feature: Any = leaf.feature
        if isinstance(feature, (Image, LabeledImage)) and leaf.kind == "bytes":
            values = wire.get(leaf.key)
            if not isinstance(values, list) or len(values) != 1 or read_header(values[0]) is None:
                raise DecodeError(f"feature {leaf.key!r}: one encoded image expected")
        else:
            value = leaf.read(wire)
            if isinstance(feature, Field):
                # What was missing is its default by now.
                leaf.write(value, kept)
                return
        kept.update({key: wire[key] for key in leaf.keys if key in wire})
