"""Disjoint parts of a source."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import accumulate, pairwise
from typing import TypeVar

import numpy as np

from ..source import BaseSource, Indices

__all__ = ["split"]

T = TypeVar("T")


def split(
    source: BaseSource[T], parts: int | Sequence[float] | Mapping[str, float], seed: int | None
) -> list[BaseSource[T]] | dict[str, BaseSource[T]]:
    """Return disjoint views that together have every element once; see ``BaseSource.split``."""
    length = len(source)
    if isinstance(parts, Mapping):
        named = split(source, list(parts.values()), seed)
        assert isinstance(named, list)
        return dict(zip(parts, named, strict=True))
    bounds = _even_bounds(length, parts) if isinstance(parts, int) else _bounds(length, parts)
    if seed is None:
        return [source._at(range(start, stop)) for start, stop in pairwise(bounds)]
    order = _random_order(length, operator.index(seed))
    return [source._at(np.sort(order[start:stop])) for start, stop in pairwise(bounds)]


def _even_bounds(length: int, parts: int) -> list[int]:
    if isinstance(parts, bool) or parts < 1:
        raise ValueError(f"split needs 1 part or more, got {parts}")
    return [length * part // parts for part in range(parts + 1)]


def _bounds(length: int, parts: Sequence[float]) -> list[int]:
    """Return where parts of these counts, or of these shares, begin and end."""
    sizes = list(parts)
    if not sizes or any(not math.isfinite(size) or size < 0 for size in sizes):
        raise ValueError(f"the parts of a split are numbers of 0 or more, got {sizes}")
    if all(isinstance(size, (int, np.integer)) for size in sizes):
        if sum(sizes) != length:
            raise ValueError(f"the counts sum up to {sum(sizes)}, the source has {length} elements")
        return [0, *accumulate(map(int, sizes))]
    total = math.fsum(sizes)
    if not math.isclose(total, 1, abs_tol=1e-9):
        raise ValueError(f"the shares must sum up to 1, these sum up to {total:g}; counts must all be integers")
    inner = [round(length * math.fsum(sizes[:part])) for part in range(1, len(sizes))]
    return [0, *inner, length]


def _random_order(length: int, seed: int) -> Indices:
    """Return the numbers below ``length`` in an order that ``seed`` decides: by a hash of each, ties as they come.

    The hash is the finaliser of SplitMix64 (Steele, Lea, Flood 2014), of the index plus a key made of the seed. NumPy's own
    permutations may change with its version, which would move examples from one part to another.
    """
    key = int.from_bytes(blake2b(str(seed).encode(), digest_size=8).digest(), "little")
    words = np.arange(length, dtype=np.uint64)
    words *= np.uint64(0x9E3779B97F4A7C15)
    words += np.uint64(key)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words ^= words >> np.uint64(shift)
        words *= np.uint64(factor)
    words ^= words >> np.uint64(31)
    return np.argsort(words, kind="stable")
