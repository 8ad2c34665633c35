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
      only_chains: Whether examples are laid end to end, and nothing is done to them before.
      is_even: Whether every example that goes in gives one that comes out.

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
        kinds = [type(transform) for _, transform in self._steps]
        self._randoms = [RecordRandom(seed, stream=stream) for stream in range(kinds.count(RandomMap))]
        self.is_even = self.packing is None and Filter not in kinds and FlatMap not in kinds
        self.only_chains = self.packing is not None and self.packing.span is None and not self._steps
        # Functions alone are called in a shorter loop: a third of the time of the general one.
        only_functions = self.packing is None and not {RandomMap, Filter, FlatMap}.intersection(kinds)
        self._functions = [(name, step) for name, step in self._steps if callable(step)] if only_functions else None

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
        at: tuple[str, Any] = ("", None)
        try:
            if self._functions is not None:
                for at in self._functions:
                    example = at[1](example)
                    if example is None:
                        self._check_none()
                return [example]
            examples = [example]
            randoms.go_to(epoch, place)
            for at in self._steps:
                examples = self._take_step(at[1], examples, randoms)
            if self.packing is not None:
                at = ("pack", self.packing)
                examples = [row for each in examples for row in self.packing.prepare(each)]
        except Exception as error:
            error.add_note(f"raised by {at[0]}, {at[1]!r}")
            raise
        return examples

    def _take_step(self, transform: Transform, examples: list[Any], randoms: Randoms) -> list[Any]:
        if isinstance(transform, Filter):
            return [each for each in examples if transform.fn(each)]
        if isinstance(transform, FlatMap):
            return [each for one in examples for each in transform.fn(one)]
        if isinstance(transform, RandomMap):
            rng = randoms.next()
            examples = [transform.fn(each, rng) for each in examples]
        else:
            assert callable(transform)
            examples = [transform(each) for each in examples]
        for each in examples:
            if each is None:
                self._check_none()
        return examples

    def _check_none(self) -> None:
        if not self._allow_none:
            raise TypeError("the transform returned None; return the example, or give a collate_fn that takes None")

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
