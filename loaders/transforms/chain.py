"""The transforms of a loader, taken apart: what happens to examples, how they are packed, what happens to batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...samplers import RecordRandom
from .kinds import BatchMap, Filter, FlatMap, RandomMap, Transform
from .pack import Pack

__all__ = ["Chain", "Randoms"]


class Chain:
    """What is done to each example, in order. Threads may share it; picklable if its functions are.

    Args:
      transforms: Those of ``DataLoader``.
      seed: Of the generators that ``RandomMap`` gets.
      allow_none: Whether None is an example, or a transform that forgot to return one.

    Attributes:
      batch_maps: What is done to whole batches.
      packing: How examples are packed; None if they are not.

    Raises:
      TypeError: One of them is no transform.
      ValueError: One that works on examples stands behind one that leaves none.
    """

    def __init__(self, transforms: Sequence[Transform], seed: int, *, allow_none: bool = False) -> None:
        self._transforms = tuple(transforms)
        self._allow_none = allow_none
        self.batch_maps: list[tuple[str, Callable[[Any], Any]]] = []
        self.packing: Pack | None = None
        self._steps: list[tuple[str, Transform]] = []
        for number, transform in enumerate(self._transforms):
            name = f"transforms[{number}]"
            if isinstance(transform, BatchMap):
                self.batch_maps.append((name, transform.fn))
                continue
            if not callable(transform) and not isinstance(transform, (RandomMap, Filter, FlatMap, Pack)):
                raise TypeError(f"{name} is a {type(transform).__name__}; it must be a function of an example, or a transform")
            if self.batch_maps or self.packing is not None:
                raise ValueError(f"{name} ({transform!r}) works on examples; what stands before it leaves none")
            if isinstance(transform, Pack):
                self.packing = transform
            else:
                self._steps.append((name, transform))
        streams = sum(isinstance(transform, RandomMap) for _, transform in self._steps)
        self._randoms = [RecordRandom(seed, stream=stream) for stream in range(streams)]

    def parts(self) -> dict[str, object]:
        """Return the transforms by the names users know."""
        return {f"transforms[{number}]": transform for number, transform in enumerate(self._transforms)}

    @property
    def takes_examples(self) -> bool:
        """Whether anything is done to single examples."""
        return bool(self._steps) or self.packing is not None

    @property
    def is_random(self) -> bool:
        """Whether the loader's seed makes a difference."""
        return bool(self._randoms)

    @property
    def is_even(self) -> bool:
        """Whether every example that goes in gives one that comes out."""
        return self.packing is None and not any(isinstance(step, (Filter, FlatMap)) for _, step in self._steps)

    def randoms(self) -> Randoms:
        """Return the generators of one thread."""
        return Randoms(self._randoms)

    def apply(self, example: Any, epoch: int, place: int, randoms: Randoms) -> list[Any]:
        """Return what one example gives, in order.

        Args:
          epoch, place: Where it stands in the global order; ``randoms`` are moved there.

        Raises:
          Exception: What a transform raises, with a note that names it.
        """
        examples = [example]
        name, transform = "", None
        randoms.go_to(epoch, place)
        try:
            for name, transform in self._steps:  # noqa: B007
                if isinstance(transform, RandomMap):
                    rng = randoms.next()
                    examples = [transform.fn(each, rng) for each in examples]
                elif isinstance(transform, Filter):
                    examples = [each for each in examples if transform.fn(each)]
                elif isinstance(transform, FlatMap):
                    examples = [each for one in examples for each in transform.fn(one)]
                else:
                    assert callable(transform)
                    examples = [transform(each) for each in examples]
                if not self._allow_none and any(each is None for each in examples):
                    raise TypeError("the transform returned None; return the example, or give a collate_fn that takes None")
            if self.packing is not None:
                name, transform = "packing", self.packing
                examples = [row for each in examples for row in self.packing.prepare(each)]
        except Exception as error:
            error.add_note(f"raised by {name}, {transform!r}")
            raise
        return examples

    def apply_to_batch(self, batch: Any) -> Any:
        """Return a batch as the ``BatchMap`` transforms leave it; what they raise has a note that names the one."""
        for name, function in self.batch_maps:
            try:
                batch = function(batch)
            except Exception as error:
                error.add_note(f"raised by {name}, {function!r}, on a batch")
                raise
        return batch


class Randoms:
    """One generator for each ``RandomMap``, moved from record to record. For one thread."""

    def __init__(self, randoms: Sequence[RecordRandom]) -> None:
        self._randoms = [(random, random.generator(0, 0)) for random in randoms]
        self._place = (0, 0)
        self._next = 0

    def go_to(self, epoch: int, place: int) -> None:
        """Stand before the first ``RandomMap`` of a place in an epoch's global order."""
        self._place = (epoch, place)
        self._next = 0

    def next(self) -> np.random.Generator:
        """Return the generator of the next ``RandomMap``, at its first number."""
        random, generator = self._randoms[self._next]
        random.rewind(generator, *self._place)
        self._next += 1
        return generator
