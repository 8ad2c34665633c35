"""The steps between a stored example and a batch, besides plain functions of an example."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from .pack import Pack

__all__ = ["BatchMap", "Filter", "FlatMap", "RandomMap", "Transform"]


@dataclass(frozen=True, slots=True)
class RandomMap:
    """``fn(example, rng)`` in place of the example: augmentation.

    ``rng`` is a ``numpy.random.Generator`` keyed by the loader's seed, the epoch and the example's place in the global order:
    the same numbers for any number of ranks and workers and any batch size, after any resume; others in each epoch. It is for
    this call only: the next one gets the same generator, moved.

    Attributes:
      fn: Takes an example and the generator; returns the example to go on with.
    """

    fn: Callable[[Any, np.random.Generator], Any]


@dataclass(frozen=True, slots=True)
class Filter:
    """Keep the examples for which ``fn(example)`` is true.

    Batches stay full: what is left out is made up for by what follows. An epoch's last batch may be short.

    Attributes:
      fn: Takes an example, returns something true or false.
    """

    fn: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class FlatMap:
    """Any number of examples, none too, in place of one: those of ``fn(example)``, in order.

    Attributes:
      fn: Takes an example, returns a list of examples, or any other iterable.
    """

    fn: Callable[[Any], Iterable[Any]]


@dataclass(frozen=True, slots=True)
class BatchMap:
    """``fn(batch)`` in place of the batch, after collation.

    Called where batches are made: in the workers. Behind a `Filter`, a `FlatMap` or `pack`, or where records are skipped, a
    batch is whole only where those are put together: there it is called in the process that trains.

    Attributes:
      fn: Takes a batch of NumPy arrays, returns one.
    """

    fn: Callable[[Any], Any]


Transform: TypeAlias = Callable[[Any], Any] | RandomMap | Filter | FlatMap | BatchMap | Pack
