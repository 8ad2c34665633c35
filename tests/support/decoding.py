"""Batches of records decoded by a plan, and as the parser and the features decode them record by record: the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from arrayfeed.datasource.errors import DecodeError
from arrayfeed.datasource.example.plan import DecodePlan
from arrayfeed.datasource.example.single import parse_record
from arrayfeed.datasource.features import FeaturesDict
from arrayfeed.datasource.memory import Extents

from .equal import difference

__all__ = ["assert_same", "plainly", "together"]


def plainly(features: FeaturesDict, records: Sequence[bytes], bounds: Sequence[int]) -> Any:
    """Return the batches, or the error, as the parser and the features give them record by record."""
    leaves, batches = features.leaves(), []
    try:
        for start, stop in pairwise(bounds):
            rows = []
            for row, record in enumerate(records[start:stop], start=start):
                try:
                    wire = parse_record(record)
                    rows.append([leaf.read(wire) for leaf in leaves])
                except DecodeError as error:
                    raise DecodeError(error.message, "shard", row) from None
            columns = [leaf.stack([values[place] for values in rows]) for place, leaf in enumerate(leaves)]
            batches.append(features.nest(iter(columns)))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return batches


def together(plan: DecodePlan, records: Sequence[bytes], bounds: Sequence[int]) -> Any:
    try:
        return plan.decode_columns(Extents.joined(records), np.arange(len(records)), bounds, lambda row: ("shard", row))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def assert_same(plan: DecodePlan, features: FeaturesDict, records: Sequence[bytes], bounds: Sequence[int]) -> bool:
    """Compare, and return whether the records were decoded rather than refused."""
    expected = plainly(features, records, bounds)
    assert difference(together(plan, records, bounds), expected) == ""
    return isinstance(expected, list)
