"""The options that all converters take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from ..features import FeaturesDict
from ..features.features_dict import FeatureLike
from ..writing.parallel import DatasetOptions
from .conversion import OnError

__all__ = ["ConvertOptions", "Features", "as_features"]

#: What an example is made of.
Features: TypeAlias = FeaturesDict | Mapping[str, FeatureLike]


def as_features(features: Features) -> FeaturesDict:
    """Return ``features`` as what they stand for."""
    return features if isinstance(features, FeaturesDict) else FeaturesDict(features)


class ConvertOptions(DatasetOptions, total=False):
    """What every converter takes besides what it reads; defaults in parentheses.

    on_error            ``"raise"`` (default): a bad record ends the conversion, naming itself and its file. ``"skip"``: it is
                        left out and listed.
    num_shards          Shards of each split, equal but for one record; where records can be counted beforehand.
    shard_bytes, shard_records, codec, name, version, description, citation, license, metadata, supervised_keys
                        As ``DatasetWriter`` takes them. What a source says of itself is taken over where they are not given.
    num_workers         Processes (as many as there are processors, none for little); spawned, so that a script needs its
                        ``if __name__ == "__main__"``.
    resume              Go on with what an interrupted run of the same inputs and options left (True). A run that ends by an
                        exception leaves its finished parts, too.
    progress            Show a bar, which needs tqdm (False).
    """

    on_error: OnError
    num_shards: int
    num_workers: int
    progress: bool
